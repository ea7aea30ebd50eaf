// min_max_sketch.hpp: MinMaxSketch (Jiang et al., SIGMOD 2018, section 3.3): rows of cells. A row's hash function maps keys to its
// cells. A cell holds the smallest number inserted for any of its keys. A look-up returns the greatest of a key's cells, which is
// the number inserted or a smaller one. Groups have cells of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress/philox.hpp"

namespace weir::compress {

inline constexpr int sketch_groups = 8;  ///< per sign
inline constexpr int sketch_rows = 2;

/// The number of entries of each group.
using SketchGroups = std::array<std::int64_t, 2 * sketch_groups>;

class MinMaxSketch {
 public:
  /// Cells have `bits` bits, a power of two up to 8. Inserted numbers are below `numbers`.
  MinMaxSketch(std::uint64_t key, const SketchGroups& groups, int numbers, int bits) : key_(key), numbers_(numbers), bits_(bits) {
    for (std::size_t group = 0; group < groups.size(); ++group) {
      columns_[group] = columns(groups[group]);
      first_[group] = cells_;
      cells_ += sketch_rows * columns_[group];
    }
  }

  [[nodiscard]] static std::int64_t cells(const SketchGroups& groups) {
    std::int64_t sum = 0;
    for (const std::int64_t entries : groups) sum += sketch_rows * columns(entries);
    return sum;
  }
  /// Returns the most cells of `entries` entries, for any division among groups.
  [[nodiscard]] static std::int64_t most_cells(std::int64_t entries) { return sketch_rows * (entries / 5 + 2 * sketch_groups); }

  void clear(std::byte* cells) const {
    std::memset(cells, 0, static_cast<std::size_t>((cells_ * bits_ + 7) / 8));
    for (std::int64_t cell = 0; cell < cells_; ++cell) write(cells, cell, numbers_ - 1);
  }
  void insert(std::byte* cells, std::int64_t place, int group, int number) const {
    for (const std::int64_t cell : cells_of(place, group)) write(cells, cell, std::min(number, read(cells, cell)));
  }
  /// Returns the number found for `place`. The group must have entries.
  [[nodiscard]] int find(const std::byte* cells, std::int64_t place, int group) const {
    int most = 0;
    for (const std::int64_t cell : cells_of(place, group)) most = std::max(most, read(cells, cell));
    return std::min(most, numbers_ - 1);
  }

 private:
  /// Returns the cells of a row; the paper's share.
  [[nodiscard]] static std::int64_t columns(std::int64_t entries) { return (entries + 4) / 5; }

  [[nodiscard]] std::array<std::int64_t, sketch_rows> cells_of(std::int64_t place, int group) const {
    const auto at = static_cast<std::uint64_t>(place);
    const auto words = philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}, key_);
    const auto g = static_cast<std::size_t>(group);
    std::array<std::int64_t, sketch_rows> cells{};
    for (std::size_t row = 0; row < sketch_rows; ++row) {
      // there are fewer than 2^32 columns, as a message of 2^34 elements has
      const auto column = static_cast<std::int64_t>(words[row] * static_cast<std::uint64_t>(columns_[g]) >> 32);
      cells[row] = first_[g] + static_cast<std::int64_t>(row) * columns_[g] + column;
    }
    return cells;
  }
  [[nodiscard]] int read(const std::byte* cells, std::int64_t cell) const {
    return static_cast<int>(cells[cell * bits_ / 8]) >> (cell * bits_ % 8) & ((1 << bits_) - 1);
  }
  void write(std::byte* cells, std::int64_t cell, int number) const {
    const int shift = static_cast<int>(cell * bits_ % 8);
    std::byte& byte = cells[cell * bits_ / 8];
    byte = static_cast<std::byte>((static_cast<int>(byte) & ~(((1 << bits_) - 1) << shift)) | number << shift);
  }

  std::uint64_t key_;
  int numbers_, bits_;
  std::int64_t cells_ = 0;
  std::array<std::int64_t, 2 * sketch_groups> columns_{}, first_{};
};

}  // namespace weir::compress
