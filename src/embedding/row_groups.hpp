// row_groups.hpp: groups equal keys, to sum gradients of one row at both ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.hpp"

namespace weir::embedding {

/// Returns the bytes that a vector has allocated.
template <class T>
[[nodiscard]] std::int64_t bytes_of(const std::vector<T>& list) {
  return static_cast<std::int64_t>(list.capacity() * sizeof(T));
}

/// The distinct keys, ascending, and for each the places where it occurred, in the order given. Allocates only in the constructor.
class RowGroups {
 public:
  RowGroups() = default;
  /// Makes room for up to `capacity` keys below `key_range` <= 2^32.
  RowGroups(std::int64_t capacity, std::uint64_t key_range);

  /// Groups keys by a radix sort: two passes over 16 bytes a key for every 11 bits of the range.
  void build(std::span<const std::uint32_t> keys);

  /// Returns the number of distinct keys.
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::uint32_t* keys() const { return keys_.data(); }
  /// Group g has the places order()[first()[g] .. first()[g + 1]).
  [[nodiscard]] const std::uint32_t* first() const { return first_.data(); }
  [[nodiscard]] const std::uint32_t* order() const { return order_.data(); }
  /// Sets group_of[place] = the group of the key at that place.
  void invert(std::uint32_t* group_of) const;
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  int digits_ = 0;
  std::int64_t count_ = 0;
  Buffer<std::uint64_t> pairs_, sorted_;  // key in the upper half, place in the lower
  Buffer<std::uint32_t> keys_, first_, order_;
};

}  // namespace weir::embedding
