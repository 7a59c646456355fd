#include "protocol.h"

namespace runner {

namespace {

// More than any test needs; a greater length is a fault of the other end.
constexpr uint64_t kMost = uint64_t{1} << 34;

} // namespace

bool Pipe::next_request(uint32_t& kind) {
  const size_t got = std::fread(&kind, 1, sizeof(kind), in_);
  if (got != 0 && got != sizeof(kind)) {
    throw Malformed{"a request that is cut off"};
  }
  return got != 0;
}

std::string Pipe::text() {
  const auto length = get<uint32_t>();
  if (length > 1 << 20) {
    throw Malformed{"a text of more than a megabyte"};
  }
  std::string text(length, '\0');
  read(text.data(), length);
  return text;
}

std::vector<uint8_t> Pipe::bytes() {
  const auto length = get<uint64_t>();
  if (length > kMost) {
    throw Malformed{"a tensor of more than 16 GiB"};
  }
  std::vector<uint8_t> bytes(length);
  read(bytes.data(), length);
  return bytes;
}

void Pipe::put_text(const std::string& text) {
  put(static_cast<uint32_t>(text.size()));
  write(text.data(), text.size());
}

void Pipe::put_bytes(const std::vector<uint8_t>& bytes) {
  put(static_cast<uint64_t>(bytes.size()));
  write(bytes.data(), bytes.size());
}

void Pipe::flush() {
  std::fflush(out_);
}

void Pipe::read(void* data, size_t length) {
  if (std::fread(data, 1, length, in_) != length) {
    throw Malformed{"a request that is cut off"};
  }
}

void Pipe::write(const void* data, size_t length) {
  if (std::fwrite(data, 1, length, out_) != length) {
    throw Malformed{"nobody reads the answers"};
  }
}

} // namespace runner
