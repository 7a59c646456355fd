// Events of an execution, for ExecuTorch's event tracer.
#pragma once

#include <etvk.h>

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <cstddef>

namespace etvk {

// Passes events on to a tracer. Delegate events have a name and no integer id.
class Events {
 public:
  explicit Events(executorch::runtime::EventTracer* tracer) : tracer_(tracer) {}

  EtvkEvents callbacks() {
    return EtvkEvents{this, start, end, log};
  }

 private:
  static constexpr size_t kDepth = 8;

  static void start(void* context, const char* name);
  static void end(void* context, const char* name);
  static void log(void* context, const char* name, uint64_t start_ns, uint64_t end_ns);

  executorch::runtime::EventTracer* tracer_;
  executorch::runtime::EventTracerEntry open_[kDepth]{};
  // Events that have started; those deeper than kDepth are counted and not traced.
  size_t depth_ = 0;
};

} // namespace etvk
