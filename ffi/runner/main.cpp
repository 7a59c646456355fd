// Puts a program through ExecuTorch's runtime, as README.md says.

#include "protocol.h"
#include "values.h"

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/module/module.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>

namespace {

using executorch::extension::Module;
using runner::Pipe;
namespace et = ::executorch::runtime;

constexpr uint32_t kLoad = 1;
constexpr uint32_t kExecute = 2;

using executorch::etdump::ETDumpGen;

struct Arguments {
  std::vector<std::string> libraries;
  std::vector<et::BackendOption> specs;
  std::string etdump;
  std::string program;
  std::vector<std::string> data;
};

// KEY=VALUE; the value is a text.
bool parse_spec(const std::string& text, std::vector<et::BackendOption>& out) {
  const size_t end = text.find('=');
  std::array<char, et::kMaxOptionValueLength> value{};
  et::BackendOption option;
  if (end == std::string::npos || end >= sizeof(option.key) || text.size() - end > value.size()) {
    return false;
  }
  text.copy(option.key, end);
  text.copy(value.data(), value.size() - 1, end + 1);
  option.value = value;
  out.push_back(option);
  return true;
}

bool parse(int count, char** values, Arguments& out) {
  for (int at = 1; at < count; ++at) {
    const bool more = at + 1 < count;
    if (std::strcmp(values[at], "--load") == 0 && more) {
      out.libraries.emplace_back(values[++at]);
    } else if (std::strcmp(values[at], "--etdump") == 0 && more) {
      out.etdump = values[++at];
    } else if (std::strcmp(values[at], "--spec") == 0 && more) {
      if (!parse_spec(values[++at], out.specs)) {
        return false;
      }
    } else if (out.program.empty()) {
      out.program = values[at];
    } else {
      out.data.emplace_back(values[at]);
    }
  }
  return !out.program.empty();
}

uint64_t since(std::chrono::steady_clock::time_point start) {
  const auto time = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

et::Error load_libraries(const Arguments& arguments, std::string& text) {
  for (const std::string& library : arguments.libraries) {
    // It is never closed: what it registered stays.
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      text = dlerror();
      return et::Error::NotFound;
    }
  }
  return et::Error::Ok;
}

std::string backends() {
  std::string names;
  for (size_t at = 0; at < et::get_num_registered_backends(); ++at) {
    const auto name = et::get_backend_name(at);
    if (name.ok()) {
      names += (names.empty() ? "" : " ") + std::string(name.get());
    }
  }
  return names;
}

// A program in ExecuTorch's runtime.
class Session {
 public:
  explicit Session(Arguments& arguments)
      : dump_(arguments.etdump),
        module_(
            arguments.program,
            arguments.data,
            Module::LoadMode::Mmap,
            dump_.empty() ? nullptr : std::make_unique<ETDumpGen>()) {
    for (size_t at = 0; at < et::get_num_registered_backends(); ++at) {
      const auto name = et::get_backend_name(at);
      // The specs are meant for whichever backend the program names.
      if (name.ok() && !arguments.specs.empty()) {
        (void)options_.set_options(name.get(), {arguments.specs.data(), arguments.specs.size()});
      }
    }
  }

  void load(Pipe& pipe) {
    const std::string method = pipe.text();
    const auto start = std::chrono::steady_clock::now();
    const et::Error error = load_method(method);
    pipe.put(static_cast<uint32_t>(error));
    pipe.put(since(start));
  }

  void execute(Pipe& pipe) {
    const std::string method = pipe.text();
    runner::Inputs inputs(pipe);
    et::Error error = load_method(method);
    const auto meta = module_.method_meta(method);
    if (error == et::Error::Ok && !meta.ok()) {
      error = meta.error();
    }
    if (error != et::Error::Ok) {
      pipe.put(static_cast<uint32_t>(error));
      pipe.put<uint64_t>(0);
      pipe.put<uint32_t>(0);
      return;
    }
    const std::vector<et::EValue>& values = inputs.values(meta.get());
    const auto start = std::chrono::steady_clock::now();
    const auto outputs = module_.execute(method, values);
    const uint64_t time = since(start);
    pipe.put(static_cast<uint32_t>(outputs.error()));
    pipe.put(time);
    if (!outputs.ok()) {
      pipe.put<uint32_t>(0);
      return;
    }
    pipe.put(static_cast<uint32_t>(outputs->size()));
    for (const et::EValue& output : outputs.get()) {
      runner::put_value(pipe, output);
    }
  }

  // Writes what was traced. False if that fails.
  bool finish() {
    if (dump_.empty()) {
      return true;
    }
    const auto result = static_cast<ETDumpGen*>(module_.event_tracer())->get_etdump_data();
    FILE* file = result.buf != nullptr ? std::fopen(dump_.c_str(), "wb") : nullptr;
    if (file == nullptr) {
      return false;
    }
    const bool written = std::fwrite(result.buf, 1, result.size, file) == result.size;
    std::free(result.buf);
    return std::fclose(file) == 0 && written;
  }

 private:
  et::Error load_method(const std::string& method) {
    return module_.load_method(method, nullptr, nullptr, &options_);
  }

  std::string dump_;
  Module module_;
  et::LoadBackendOptionsMap options_;
};

int serve(Pipe& pipe, Arguments& arguments) {
  std::string text;
  const et::Error error = load_libraries(arguments, text);
  pipe.put(static_cast<uint32_t>(error));
  pipe.put_text(text);
  pipe.put_text(backends());
  pipe.flush();
  if (error != et::Error::Ok) {
    return 0;
  }
  Session session(arguments);
  for (uint32_t kind = 0; pipe.next_request(kind);) {
    switch (kind) {
      case kLoad:
        session.load(pipe);
        break;
      case kExecute:
        session.execute(pipe);
        break;
      default:
        throw runner::Malformed{"a request of an unknown kind"};
    }
    pipe.flush();
  }
  return session.finish() ? 0 : 3;
}

} // namespace

int main(int count, char** values) {
  Arguments arguments;
  if (!parse(count, values, arguments)) {
    std::fprintf(
        stderr,
        "usage: etvk-executorch-runner [--load LIBRARY]... [--spec KEY=VALUE]... [--etdump FILE] PROGRAM [DATA...]\n");
    return 2;
  }
  // What libraries and drivers print on standard output must not get among the answers.
  FILE* answers = fdopen(dup(STDOUT_FILENO), "wb");
  if (answers == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    std::perror("etvk-executorch-runner");
    return 2;
  }
  et::runtime_init();
  Pipe pipe(stdin, answers);
  try {
    return serve(pipe, arguments);
  } catch (const runner::Malformed& fault) {
    std::fprintf(stderr, "etvk-executorch-runner: %s\n", fault.what);
    return 2;
  }
}
