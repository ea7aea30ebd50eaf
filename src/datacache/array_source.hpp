// array_source.hpp: samples of one element type that are contiguous in a file, and what their formats share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weir/datacache.hpp>

#include "datacache/elements.hpp"
#include "datacache/store_file.hpp"

namespace weir::datacache {

/// The header of an array. The array need not be in a file of its own.
struct Shape {
  std::vector<std::int64_t> dimensions;  ///< the number of items, then the dimensions of an item
  Element element;

  [[nodiscard]] std::int64_t items() const { return dimensions.front(); }
  /// Returns the bytes of an item.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string text() const;  ///< for example "uint8 60000x28x28"
  /// Returns the layout of a sample, as SampleSource::layout().
  [[nodiscard]] std::string layout(bool labelled) const;

  /// Computes bytes(). Throws Error(WEIR_ERR_FILE), which names `what`, if there are no items, or if their bytes do not fit into 64
  /// bits.
  void measure(const std::string& what);

 private:
  std::int64_t bytes_ = 0;
};

/// An array that is contiguous in a file.
struct ArrayFile {
  StoreFile file;
  std::int64_t begin = 0;  ///< offset of the first item in bytes
  Shape shape;

  /// Throws Error(WEIR_ERR_FILE) unless the file ends with the array.
  void check_size() const;
};

/// Layout of samples: the item's bytes, then the label.
class LabelledLayout {
 public:
  LabelledLayout() = default;
  /// `labels` must have one number for each item. Otherwise throws Error(WEIR_ERR_FILE), which names the file `what`.
  LabelledLayout(const Shape& items, const std::optional<Shape>& labels, const std::string& what);

  /// Bytes of a sample: encoded (as read from the store), and decoded.
  [[nodiscard]] std::int64_t encoded_bytes() const { return item_bytes_ + label_bytes_; }
  [[nodiscard]] std::int64_t value_bytes() const { return value_bytes_; }
  /// Moves `count` items apart, and puts a label after each. On entry, the items lie at the beginning of `encoded`, which has room
  /// for whole samples.
  void interleave(std::int64_t count, std::span<const std::byte> labels, std::span<std::byte> encoded) const;
  std::int64_t decode(std::span<const std::byte> encoded, std::span<std::byte> value) const;

 private:
  Element element_, label_;
  std::int64_t item_bytes_ = 0, label_bytes_ = 0, value_bytes_ = 0;
};

/// Returns the place of the label in a decoded sample, in bytes.
[[nodiscard]] constexpr std::int64_t label_place(std::int64_t item_bytes) { return (item_bytes + 3) / 4 * 4; }

/// Throws Error(WEIR_ERR_ARGUMENT) unless samples [first, first + count) lie in [0, size).
void check_range(std::int64_t first, std::int64_t count, std::int64_t size);

[[nodiscard]] std::shared_ptr<SampleSource> array_source(std::string format, ArrayFile items, std::optional<ArrayFile> labels);

}  // namespace weir::datacache
