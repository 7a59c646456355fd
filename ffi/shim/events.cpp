#include "events.h"

namespace etvk {

namespace et = ::executorch::runtime;

namespace {

constexpr et::DebugHandle kNoId = static_cast<et::DebugHandle>(-1);

} // namespace

void Events::start(void* context, const char* name) {
  auto* self = static_cast<Events*>(context);
  if (self->depth_ < kDepth) {
    self->open_[self->depth_] = et::event_tracer_start_profiling_delegate(self->tracer_, name, kNoId);
  }
  ++self->depth_;
}

void Events::end(void* context, const char*) {
  auto* self = static_cast<Events*>(context);
  if (self->depth_ == 0) {
    return;
  }
  --self->depth_;
  if (self->depth_ < kDepth) {
    et::event_tracer_end_profiling_delegate(self->tracer_, self->open_[self->depth_]);
  }
}

void Events::log(void* context, const char* name, uint64_t start_ns, uint64_t end_ns) {
  et::event_tracer_log_profiling_delegate(static_cast<Events*>(context)->tracer_, name, kNoId, start_ns, end_ns);
}

} // namespace etvk
