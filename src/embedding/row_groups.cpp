#include "embedding/row_groups.hpp"

#include <array>
#include <bit>

namespace weir::embedding {
namespace {

constexpr int digit_bits = 11;
constexpr std::size_t bins = std::size_t{1} << digit_bits;

}  // namespace

RowGroups::RowGroups(std::int64_t capacity, std::uint64_t key_range)
    : digits_((std::bit_width(key_range - 1) + digit_bits - 1) / digit_bits),
      pairs_(capacity),
      sorted_(capacity),
      keys_(capacity),
      first_(capacity + 1),
      order_(capacity) {}

void RowGroups::build(std::span<const std::uint32_t> keys) {
  const auto count = static_cast<std::int64_t>(keys.size());
  for (std::int64_t i = 0; i < count; ++i)
    pairs_[i] = static_cast<std::uint64_t>(keys[static_cast<std::size_t>(i)]) << 32 | static_cast<std::uint64_t>(i);
  for (int digit = 0; digit < digits_; ++digit) {
    const int shift = 32 + digit * digit_bits;
    std::array<std::uint32_t, bins> begin{};
    for (std::int64_t i = 0; i < count; ++i) ++begin[pairs_[i] >> shift & (bins - 1)];
    std::uint32_t total = 0;
    for (std::uint32_t& bin : begin) total += std::exchange(bin, total);
    for (std::int64_t i = 0; i < count; ++i) sorted_[begin[pairs_[i] >> shift & (bins - 1)]++] = pairs_[i];
    std::swap(pairs_, sorted_);
  }
  count_ = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto key = static_cast<std::uint32_t>(pairs_[i] >> 32);
    if (count_ == 0 || keys_[count_ - 1] != key) {
      first_[count_] = static_cast<std::uint32_t>(i);
      keys_[count_++] = key;
    }
    order_[i] = static_cast<std::uint32_t>(pairs_[i]);
  }
  first_[count_] = static_cast<std::uint32_t>(count);
}

void RowGroups::invert(std::uint32_t* group_of) const {
  for (std::int64_t group = 0; group < count_; ++group) {
    for (std::uint32_t i = first_[group]; i < first_[group + 1]; ++i) group_of[order_[i]] = static_cast<std::uint32_t>(group);
  }
}

std::int64_t RowGroups::memory_bytes() const {
  return pairs_.bytes() + sorted_.bytes() + keys_.bytes() + first_.bytes() + order_.bytes();
}

}  // namespace weir::embedding
