// entries.hpp: lists of entries of a sparse sum: 64-bit indices, strictly ascending, and values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/buffer.hpp"

namespace weir::sums {

/// Entries in memory of somebody else.
template <class T>
struct Entries {
  const std::int64_t* indices = nullptr;
  const T* values = nullptr;
  std::int64_t count = 0;

  /// Returns the position of the first entry whose index is not below `index`.
  [[nodiscard]] std::int64_t lower_bound(std::int64_t index) const {
    return std::lower_bound(indices, indices + count, index) - indices;
  }
  [[nodiscard]] Entries part(std::int64_t begin, std::int64_t end) const { return {indices + begin, values + begin, end - begin}; }
};

/// Where entries are written, in memory of somebody else.
template <class T>
struct EntryPlace {
  [[nodiscard]] EntryPlace from(std::int64_t entry) const { return {indices + entry, values + entry}; }
  [[nodiscard]] Entries<T> first(std::int64_t count) const { return {indices, values, count}; }
  void write(const Entries<T>& entries) const {
    std::copy_n(entries.indices, entries.count, indices);
    std::copy_n(entries.values, entries.count, values);
  }

  std::int64_t* indices = nullptr;
  T* values = nullptr;
};

/// Memory for entries.
template <class T>
struct EntryMemory {
  EntryMemory() = default;
  explicit EntryMemory(std::int64_t capacity) : indices(capacity), values(capacity) {}
  [[nodiscard]] std::int64_t capacity() const { return values.size(); }
  [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
  [[nodiscard]] Entries<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
  [[nodiscard]] EntryPlace<T> place() { return {indices.data(), values.data()}; }

  Buffer<std::int64_t> indices;
  Buffer<T> values;
};

}  // namespace weir::sums
