#include "marshal.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <cstring>
#include <limits>
#include <string_view>

namespace etvk {

namespace {

using Text = std::array<char, et::kMaxOptionValueLength>;

bool ends(const char* text, size_t capacity) {
  return std::memchr(text, '\0', capacity) != nullptr;
}

// What a tensor is now: sizes and data may change from one execution to the next, and with every resize.
void describe(const executorch::aten::Tensor& tensor, EtvkTensor& out) {
  out.scalar_type = static_cast<int32_t>(tensor.scalar_type());
  out.rank = static_cast<uint32_t>(tensor.dim());
  out.sizes = tensor.sizes().data();
  out.dim_order = tensor.dim_order().data();
  out.strides = tensor.strides().data();
  out.data = const_cast<void*>(tensor.const_data_ptr());
  out.nbytes = tensor.nbytes();
  out.dynamism = static_cast<uint32_t>(tensor.shape_dynamism());
}

uint32_t resize(void* context, size_t, EtvkTensor* out, const int32_t* sizes, size_t rank) {
  const auto& tensor = static_cast<et::EValue*>(context)->toTensor();
  const et::ArrayRef<executorch::aten::SizesType> wanted(sizes, rank);
  const et::Error error = et::resize_tensor(tensor, wanted);
  describe(tensor, *out);
  return static_cast<uint32_t>(error);
}

uint32_t find(void* context, const char* key, size_t key_len, EtvkBlob* blob) {
  const auto* map = static_cast<const et::NamedDataMap*>(context);
  // ExecuTorch 1.5.1's map of .ptd files reads on to a NUL, although keys come with a length.
  Array<char> text(key_len + 1);
  if (!text.ok()) {
    return ETVK_STATUS_MEMORY_ALLOCATION_FAILED;
  }
  std::memcpy(text.data(), key, key_len);
  auto found = map->get_data(std::string_view(text.data(), key_len));
  if (!found.ok()) {
    return static_cast<uint32_t>(found.error());
  }
  auto* buffer = new (std::nothrow) et::FreeableBuffer(std::move(found.get()));
  if (buffer == nullptr) {
    return ETVK_STATUS_MEMORY_ALLOCATION_FAILED;
  }
  const auto data = buffer->data_safe();
  if (!data.ok()) {
    delete buffer;
    return static_cast<uint32_t>(data.error());
  }
  blob->data = data.get();
  blob->len = buffer->size();
  blob->owner = buffer;
  blob->release = [](void* owner) { delete static_cast<et::FreeableBuffer*>(owner); };
  return ETVK_STATUS_OK;
}

} // namespace

bool to_option(const et::BackendOption& option, EtvkOption& out) {
  if (!ends(option.key, sizeof(option.key))) {
    return false;
  }
  out.key = option.key;
  if (const auto* flag = std::get_if<bool>(&option.value)) {
    out.kind = ETVK_OPTION_KIND_BOOL;
    out.int_value = *flag ? 1 : 0;
  } else if (const auto* number = std::get_if<int>(&option.value)) {
    out.kind = ETVK_OPTION_KIND_INT;
    out.int_value = *number;
  } else if (const auto* text = std::get_if<Text>(&option.value)) {
    out.kind = ETVK_OPTION_KIND_TEXT;
    out.text_value = text->data();
    return ends(text->data(), text->size());
  }
  return true;
}

bool from_option(const EtvkOption& option, et::OptionValue& out) {
  switch (option.kind) {
    case ETVK_OPTION_KIND_BOOL:
      out = option.int_value != 0;
      return true;
    case ETVK_OPTION_KIND_INT:
      if (option.int_value < std::numeric_limits<int>::min() || option.int_value > std::numeric_limits<int>::max()) {
        return false;
      }
      out = static_cast<int>(option.int_value);
      return true;
    case ETVK_OPTION_KIND_TEXT: {
      const size_t length = std::strlen(option.text_value);
      Text text{};
      if (length >= text.size()) {
        return false;
      }
      std::memcpy(text.data(), option.text_value, length);
      out = text;
      return true;
    }
    default:
      return false;
  }
}

EtvkArg to_arg(et::EValue* value) {
  EtvkArg arg{};
  if (value->isTensor()) {
    arg.tag = ETVK_ARG_TAG_TENSOR;
    describe(value->toTensor(), arg.tensor);
    arg.tensor.resize_context = value;
    arg.tensor.resize = resize;
  } else if (value->isInt()) {
    arg.tag = ETVK_ARG_TAG_INT;
    arg.int_value = value->toInt();
  } else {
    arg.tag = ETVK_ARG_TAG_OTHER;
  }
  return arg;
}

EtvkNamedData to_named_data(const et::NamedDataMap* map) {
  EtvkNamedData named{};
  if (map != nullptr) {
    named.context = const_cast<et::NamedDataMap*>(map);
    named.get = find;
  }
  return named;
}

bool to_payload(et::FreeableBuffer* processed, EtvkBlob& out) {
  const auto data = processed->data_safe();
  if (!data.ok()) {
    return false;
  }
  out.data = data.get();
  out.len = processed->size();
  out.owner = processed;
  out.release = [](void* owner) { static_cast<et::FreeableBuffer*>(owner)->Free(); };
  return true;
}

} // namespace etvk
