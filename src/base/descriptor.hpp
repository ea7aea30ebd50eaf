// descriptor.hpp: an open file, and reads and writes at given addresses that the system does not cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace weir {

/// An open file or folder, or empty. Closes it at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  explicit operator bool() const noexcept { return number_ >= 0; }
  [[nodiscard]] int operator*() const noexcept { return number_; }
  /// Returns the number, which the caller closes.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Writes all bytes. Returns false on failure: errno has the reason.
[[nodiscard]] bool write_at(const Descriptor& file, std::int64_t address, std::span<const std::byte> bytes);
/// Reads until `bytes` is full or the file ends, and returns the number of bytes read. If these are fewer, errno has the reason: 0
/// if the file has ended.
[[nodiscard]] std::size_t read_up_to(const Descriptor& file, std::int64_t address, std::span<std::byte> bytes);
/// Does the same, and returns whether all bytes were read.
[[nodiscard]] inline bool read_at(const Descriptor& file, std::int64_t address, std::span<std::byte> bytes) {
  return read_up_to(file, address, bytes) == bytes.size();
}

}  // namespace weir
