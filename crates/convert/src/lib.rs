//! Makes ExecuTorch programs for the Vulkan delegate out of GGUF files, without PyTorch.
