// Numbers and texts on a pipe; README.md says what goes over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace runner {

// Whoever is at the other end sent something malformed, or went away in the middle of it.
struct Malformed {
  const char* what;
};

class Pipe {
 public:
  Pipe(FILE* in, FILE* out) : in_(in), out_(out) {}

  // False at the end of the input.
  bool next_request(uint32_t& kind);

  template <typename T>
  T get() {
    T value{};
    read(&value, sizeof(T));
    return value;
  }
  std::string text();
  std::vector<uint8_t> bytes();

  template <typename T>
  void put(T value) {
    write(&value, sizeof(T));
  }
  void put_text(const std::string& text);
  void put_bytes(const std::vector<uint8_t>& bytes);
  void flush();

 private:
  void read(void* data, size_t length);
  void write(const void* data, size_t length);

  FILE* in_;
  FILE* out_;
};

} // namespace runner
