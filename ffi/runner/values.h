// Values of a program on the pipe.
#pragma once

#include "protocol.h"

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/executor/method_meta.h>

#include <memory>
#include <vector>

namespace runner {

namespace et = ::executorch::runtime;

// Inputs of an execution, and the memory of their tensors.
class Inputs {
 public:
  // Reads the values of a request, as they are on the pipe.
  explicit Inputs(Pipe& pipe);

  // The values as a method takes them: tensors in the memory order that it was exported with.
  const std::vector<et::EValue>& values(const et::MethodMeta& meta);

 private:
  struct Given {
    uint32_t tag = 0;
    executorch::aten::ScalarType type{};
    std::vector<executorch::aten::SizesType> sizes;
    std::vector<uint8_t> data;
    int64_t integer = 0;
    double real = 0;
    // Of the tensor that is handed over.
    std::vector<executorch::aten::DimOrderType> order;
    std::vector<executorch::aten::StridesType> strides;
    std::unique_ptr<executorch::aten::TensorImpl> impl;
  };

  et::EValue value(Given& given, size_t at, const et::MethodMeta& meta);

  std::vector<Given> given_;
  std::vector<et::EValue> values_;
};

void put_value(Pipe& pipe, const et::EValue& value);

} // namespace runner
