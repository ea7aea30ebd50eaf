// made_samples.hpp: a computed data set, whose every value can be checked. It fails where a test wants it to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>
#include <weir/datacache.hpp>

namespace weir::test {

class MadeSamples final : public SampleSource {
 public:
  MadeSamples(std::int64_t count, std::int64_t value_bytes, bool variable = false)
      : count_(count), value_bytes_(value_bytes), variable_(variable) {}

  /// Returns byte `i` of the decoded value of `sample`.
  [[nodiscard]] static std::byte byte(std::int64_t sample, std::int64_t i) {
    return static_cast<std::byte>(sample * 31 + i * 7 + sample / 251 + 1);
  }
  [[nodiscard]] std::int64_t bytes_of(std::int64_t sample) const {
    return variable_ ? sample * 7919 % (value_bytes_ + 1) : value_bytes_;
  }

  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] std::int64_t value_bytes() const override { return value_bytes_; }
  [[nodiscard]] bool variable() const override { return variable_; }
  [[nodiscard]] std::string identity() const override { return "made " + std::to_string(count_) + identity_more; }
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
    ++reads;
    for (std::int64_t sample = first; sample < first + count; ++sample) {
      if (cannot_read && cannot_read(sample)) throw std::runtime_error("the store is away");
      const std::int64_t bytes = bytes_of(sample);
      sizes[static_cast<std::size_t>(sample - first)] = bytes;
      for (std::int64_t i = 0; i < bytes; ++i) encoded.push_back(byte(sample, i) ^ std::byte{0xff});
    }
  }
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) override {
    if (cannot_decode && cannot_decode(sample)) throw Error(WEIR_ERR_FILE, "it is no picture");
    for (std::size_t i = 0; i < encoded.size(); ++i) value[i] = encoded[i] ^ std::byte{0xff};
    return std::ssize(encoded);
  }

  std::function<bool(std::int64_t)> cannot_read, cannot_decode;
  std::string identity_more;
  std::atomic<int> reads{0};

 private:
  std::int64_t count_, value_bytes_;
  bool variable_;
};

/// Compares a value with the source's. Returns the fault, or an empty text.
inline std::string wrong_value(const MadeSamples& source, std::int64_t sample, std::span<const std::byte> value,
                               std::int64_t size) {
  if (size != source.bytes_of(sample)) return "sample " + std::to_string(sample) + " has " + std::to_string(size) + " bytes";
  for (std::int64_t i = 0; i < size; ++i) {
    if (value[static_cast<std::size_t>(i)] != MadeSamples::byte(sample, i)) return "byte of sample " + std::to_string(sample);
  }
  return {};
}

}  // namespace weir::test
