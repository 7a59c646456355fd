//! Reads GGUF files: metadata, tensors, and what their blocks of codes stand for.
