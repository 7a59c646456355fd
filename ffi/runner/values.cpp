#include "values.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_dimension_limit.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace runner {

namespace {

enum Tag : uint32_t { kNone = 0, kTensor = 1, kInt = 2, kDouble = 3, kBool = 4 };

size_t numel(const std::vector<int32_t>& sizes) {
  size_t count = 1;
  for (const int32_t size : sizes) {
    count *= static_cast<size_t>(size);
  }
  return count;
}

std::vector<int32_t> strides_of(const std::vector<int32_t>& sizes, const std::vector<uint8_t>& order) {
  std::vector<int32_t> strides(sizes.size());
  int32_t next = 1;
  for (size_t at = order.size(); at-- > 0;) {
    strides[order[at]] = next;
    next *= std::max(sizes[order[at]], 1);
  }
  return strides;
}

// Visits each element with its place in row-major order and its place in memory.
template <typename Visit>
void each(const std::vector<int32_t>& sizes, const std::vector<int32_t>& strides, Visit visit) {
  std::vector<int32_t> index(sizes.size());
  size_t memory = 0;
  const size_t count = numel(sizes);
  for (size_t row_major = 0; row_major < count; ++row_major) {
    visit(row_major, memory);
    for (size_t dim = sizes.size(); dim-- > 0;) {
      memory += static_cast<size_t>(strides[dim]);
      if (++index[dim] < sizes[dim]) {
        break;
      }
      memory -= static_cast<size_t>(strides[dim]) * static_cast<size_t>(sizes[dim]);
      index[dim] = 0;
    }
  }
}

} // namespace

Inputs::Inputs(Pipe& pipe) {
  const auto count = pipe.get<uint32_t>();
  if (count > 4096) {
    throw Malformed{"more than 4096 inputs"};
  }
  given_.resize(count);
  for (Given& given : given_) {
    given.tag = pipe.get<uint32_t>();
    switch (given.tag) {
      case kNone:
        break;
      case kTensor: {
        given.type = static_cast<executorch::aten::ScalarType>(pipe.get<uint32_t>());
        const auto rank = pipe.get<uint32_t>();
        if (!et::isValid(given.type) || rank > et::kTensorDimensionLimit) {
          throw Malformed{"a tensor of an unknown type or of too many dimensions"};
        }
        for (uint32_t dim = 0; dim < rank; ++dim) {
          given.sizes.push_back(static_cast<int32_t>(pipe.get<uint32_t>()));
        }
        given.data = pipe.bytes();
        if (given.data.size() != numel(given.sizes) * et::elementSize(given.type)) {
          throw Malformed{"a tensor whose bytes do not fit its sizes"};
        }
        break;
      }
      case kInt:
        given.integer = pipe.get<int64_t>();
        break;
      case kDouble:
        given.real = pipe.get<double>();
        break;
      case kBool:
        given.integer = pipe.get<uint32_t>();
        break;
      default:
        throw Malformed{"a value of an unknown kind"};
    }
  }
}

const std::vector<et::EValue>& Inputs::values(const et::MethodMeta& meta) {
  for (size_t at = 0; at < given_.size(); ++at) {
    values_.push_back(value(given_[at], at, meta));
  }
  return values_;
}

et::EValue Inputs::value(Given& given, size_t at, const et::MethodMeta& meta) {
  switch (given.tag) {
    case kInt:
      return et::EValue(given.integer);
    case kDouble:
      return et::EValue(given.real);
    case kBool:
      return et::EValue(given.integer != 0);
    case kNone:
      return et::EValue();
    default:
      break;
  }
  given.order.resize(given.sizes.size());
  std::iota(given.order.begin(), given.order.end(), uint8_t{0});
  const std::vector<int32_t> row_major = strides_of(given.sizes, given.order);
  const auto info = meta.input_tensor_meta(at);
  if (info.ok() && info->dim_order().size() == given.order.size()) {
    given.order.assign(info->dim_order().begin(), info->dim_order().end());
  }
  given.strides = strides_of(given.sizes, given.order);
  if (given.strides != row_major) {
    const size_t element = et::elementSize(given.type);
    std::vector<uint8_t> memory(given.data.size());
    each(given.sizes, given.strides, [&](size_t from, size_t to) {
      std::memcpy(memory.data() + to * element, given.data.data() + from * element, element);
    });
    given.data = std::move(memory);
  }
  given.impl = std::make_unique<executorch::aten::TensorImpl>(
      given.type,
      static_cast<ssize_t>(given.sizes.size()),
      given.sizes.data(),
      given.data.data(),
      given.order.data(),
      given.strides.data());
  return et::EValue(executorch::aten::Tensor(given.impl.get()));
}

void put_value(Pipe& pipe, const et::EValue& value) {
  if (value.isInt()) {
    pipe.put<uint32_t>(kInt);
    pipe.put<int64_t>(value.toInt());
  } else if (value.isDouble()) {
    pipe.put<uint32_t>(kDouble);
    pipe.put<double>(value.toDouble());
  } else if (value.isBool()) {
    pipe.put<uint32_t>(kBool);
    pipe.put<uint32_t>(value.toBool() ? 1 : 0);
  } else if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    const std::vector<int32_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    const std::vector<int32_t> strides(tensor.strides().begin(), tensor.strides().end());
    const size_t element = et::elementSize(tensor.scalar_type());
    std::vector<uint8_t> data(tensor.nbytes());
    const auto* memory = static_cast<const uint8_t*>(tensor.const_data_ptr());
    if (memory != nullptr) {
      each(sizes, strides, [&](size_t to, size_t from) {
        std::memcpy(data.data() + to * element, memory + from * element, element);
      });
    }
    pipe.put<uint32_t>(kTensor);
    pipe.put<uint32_t>(static_cast<uint32_t>(tensor.scalar_type()));
    pipe.put<uint32_t>(static_cast<uint32_t>(sizes.size()));
    for (const int32_t size : sizes) {
      pipe.put<uint32_t>(static_cast<uint32_t>(size));
    }
    pipe.put_bytes(data);
  } else {
    pipe.put<uint32_t>(kNone);
  }
}

} // namespace runner
