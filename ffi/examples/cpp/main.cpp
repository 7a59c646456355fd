#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdio>

using namespace executorch::extension;

int main(int, char** argv) {
  Module module(argv[1]); // exported for Vulkan; nothing here says so
  auto input = make_tensor_ptr({2, 6}, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f});
  const auto outputs = module.forward(input);
  if (!outputs.ok()) {
    std::fprintf(stderr, "error 0x%x\n", static_cast<unsigned>(outputs.error()));
    return 1;
  }
  const auto tensor = outputs->at(0).toTensor();
  for (int at = 0; at < tensor.numel(); ++at) {
    std::printf("%g ", tensor.const_data_ptr<float>()[at]);
  }
  std::puts("");
}
