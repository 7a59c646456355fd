// Registers etvk as a backend of ExecuTorch. The backend's name is a build option: "VulkanBackend" takes the place of
// upstream's delegate, another name stands beside it.

#include "events.h"
#include "marshal.h"

#include <executorch/runtime/platform/log.h>

#ifndef ETVK_BACKEND_NAME
#error "ETVK_BACKEND_NAME is the name to register, as in \"VulkanBackend\""
#endif
#ifndef ETVK_EXECUTORCH_VERSION
#error "ETVK_EXECUTORCH_VERSION is the version of ExecuTorch that this is built against"
#endif

namespace etvk {

namespace {

static_assert(static_cast<uint32_t>(et::Error::DelegateInvalidHandle) == ETVK_STATUS_DELEGATE_INVALID_HANDLE);
static_assert(static_cast<uint32_t>(et::Error::NotFound) == ETVK_STATUS_NOT_FOUND);
static_assert(static_cast<int>(executorch::aten::ScalarType::Float) == ETVK_SCALAR_TYPE_FLOAT);
static_assert(static_cast<int>(executorch::aten::ScalarType::Bool) == ETVK_SCALAR_TYPE_BOOL);

constexpr char kProfile[] = "profile";

void log(void*, uint32_t level, const char* message) {
  switch (level) {
    case ETVK_LOG_LEVEL_ERROR:
      ET_LOG(Error, "%s", message);
      break;
    case ETVK_LOG_LEVEL_WARN:
    case ETVK_LOG_LEVEL_INFO:
      ET_LOG(Info, "%s", message);
      break;
    default:
      ET_LOG(Debug, "%s", message);
  }
}

// Runtime specs of a delegate, and room for `profile`.
bool to_specs(et::BackendInitContext& context, Array<EtvkOption>& out, size_t& count) {
  const auto given = context.runtime_specs();
  bool profile = false;
  for (size_t at = 0; at < given.size(); ++at) {
    if (!to_option(given[at], out[at])) {
      return false;
    }
    profile = profile || std::strcmp(out[at].key, kProfile) == 0;
  }
  count = given.size();
  // Whoever traces operators wants to see those of the delegate, unless told otherwise.
  auto* tracer = context.event_tracer();
  const auto every = et::EventTracerProfilingLevel::kProfileAllEvents;
  if (!profile && tracer != nullptr && tracer->event_tracer_profiling_level() == every) {
    out[count].key = kProfile;
    out[count].kind = ETVK_OPTION_KIND_BOOL;
    out[count].int_value = 1;
    ++count;
  }
  return true;
}

} // namespace

class Backend final : public et::BackendInterface {
 public:
  bool is_available() const override {
    return etvk_abi_version() == ETVK_ABI_VERSION && etvk_available(nullptr) == ETVK_STATUS_OK;
  }

  et::Result<et::DelegateHandle*> init(
      et::BackendInitContext& context,
      et::FreeableBuffer* processed,
      et::ArrayRef<et::CompileSpec> compile_specs) const override {
    Array<EtvkCompileSpec> compile(compile_specs.size());
    Array<EtvkOption> specs(context.runtime_specs().size() + 1);
    if (!compile.ok() || !specs.ok()) {
      return et::Error::MemoryAllocationFailed;
    }
    for (size_t at = 0; at < compile_specs.size(); ++at) {
      const et::CompileSpec& spec = compile_specs[at];
      compile[at] = EtvkCompileSpec{spec.key, spec.value.buffer, spec.value.nbytes};
    }
    EtvkCreateInfo info{};
    info.struct_size = sizeof(info);
    if (!to_specs(context, specs, info.runtime_spec_count) || !to_payload(processed, info.payload)) {
      return et::Error::InvalidArgument;
    }
    info.compile_specs = compile.data();
    info.compile_spec_count = compile.size();
    info.runtime_specs = specs.data();
    info.method_name = context.get_method_name();
    info.named_data = to_named_data(context.get_named_data_map());
    EtvkDelegate* delegate = nullptr;
    const et::Error error = to_error(etvk_delegate_create(&info, &delegate));
    if (error != et::Error::Ok) {
      return error;
    }
    return static_cast<et::DelegateHandle*>(delegate);
  }

  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* handle, et::Span<et::EValue*> values)
      const override {
    Array<EtvkArg> args(values.size());
    if (!args.ok()) {
      return et::Error::MemoryAllocationFailed;
    }
    for (size_t at = 0; at < values.size(); ++at) {
      args[at] = to_arg(values[at]);
    }
    Events events(context.event_tracer());
    const EtvkEvents callbacks = events.callbacks();
    const EtvkEvents* traced = context.event_tracer() != nullptr ? &callbacks : nullptr;
    auto* delegate = static_cast<EtvkDelegate*>(handle);
    const et::Error error = to_error(etvk_delegate_execute(delegate, args.data(), args.size(), traced));
    if (error != et::Error::Ok) {
      return error;
    }
    for (size_t at = 0; at < values.size(); ++at) {
      if (args[at].tag == ETVK_ARG_TAG_INT && values[at]->toInt() != args[at].int_value) {
        *values[at] = et::EValue(args[at].int_value);
      }
    }
    return et::Error::Ok;
  }

  et::Error set_option(et::BackendOptionContext&, const et::Span<et::BackendOption>& options) override {
    Array<EtvkOption> given(options.size());
    if (!given.ok()) {
      return et::Error::MemoryAllocationFailed;
    }
    for (size_t at = 0; at < options.size(); ++at) {
      if (!to_option(options[at], given[at])) {
        return et::Error::InvalidArgument;
      }
    }
    return to_error(etvk_option_set(given.data(), given.size()));
  }

  et::Error get_option(et::BackendOptionContext&, et::Span<et::BackendOption>& options) override {
    Array<char> text(ETVK_OPTION_TEXT);
    if (!text.ok()) {
      return et::Error::MemoryAllocationFailed;
    }
    for (size_t at = 0; at < options.size(); ++at) {
      EtvkOption option{};
      if (!to_option(options[at], option)) {
        return et::Error::InvalidArgument;
      }
      const et::Error error = to_error(etvk_option_get(&option, text.data(), text.size()));
      if (error != et::Error::Ok) {
        return error;
      }
      if (!from_option(option, options[at].value)) {
        return et::Error::InvalidArgument;
      }
    }
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override {
    // Nobody is there to be told of a failure, and the library has logged it.
    (void)etvk_delegate_destroy(static_cast<EtvkDelegate*>(handle));
  }
};

namespace {

Backend backend;
const et::Backend registration{ETVK_BACKEND_NAME, &backend};
const et::Error registered = [] {
  etvk_set_log(log, nullptr, ETVK_LOG_LEVEL_INFO);
  return et::register_backend(registration);
}();

} // namespace

} // namespace etvk

// What a program that loads this library at run time may ask.
#define ETVK_EXPORT __attribute__((visibility("default")))
extern "C" {

// Whether the backend is in ExecuTorch's registry: one of its error codes.
ETVK_EXPORT uint32_t etvk_backend_registered(void) {
  return static_cast<uint32_t>(etvk::registered);
}

ETVK_EXPORT const char* etvk_backend_name(void) {
  return ETVK_BACKEND_NAME;
}

// The version of ExecuTorch that this library was built against; it works with no other, because C++ interfaces differ
// from one release to the next.
ETVK_EXPORT const char* etvk_backend_executorch_version(void) {
  return ETVK_EXECUTORCH_VERSION;
}
}
