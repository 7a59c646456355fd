// Between ExecuTorch's types and those of the C interface. Nothing here throws, so that the library can be built with
// or without exceptions.
#pragma once

#include <etvk.h>

#include <executorch/runtime/backend/interface.h>

#include <memory>
#include <new>

namespace etvk {

namespace et = ::executorch::runtime;

// The codes are ExecuTorch's own.
inline et::Error to_error(uint32_t status) {
  return static_cast<et::Error>(status);
}

// An array whose allocation may fail; `ok()` is true for an empty one.
template <typename T>
class Array {
 public:
  explicit Array(size_t size)
      : data_(size == 0 ? nullptr : new (std::nothrow) T[size]()), size_(data_ ? size : 0), ok_(size == size_) {}
  bool ok() const {
    return ok_;
  }
  size_t size() const {
    return size_;
  }
  T* data() {
    return data_.get();
  }
  T& operator[](size_t at) {
    return data_[at];
  }

 private:
  std::unique_ptr<T[]> data_;
  size_t size_;
  bool ok_;
};

// An option as the C interface takes it; it points into `option`. False if a text has no end.
bool to_option(const et::BackendOption& option, EtvkOption& out);

// The value of an option, as ExecuTorch takes it. False if it does not fit.
bool from_option(const EtvkOption& option, et::OptionValue& out);

// An argument of an execution; it points into `value`, which `resize` changes.
EtvkArg to_arg(et::EValue* value);

// Constants of the program, by name.
EtvkNamedData to_named_data(const et::NamedDataMap* map);

// The payload, freed when it is released.
bool to_payload(et::FreeableBuffer* processed, EtvkBlob& out);

} // namespace etvk
