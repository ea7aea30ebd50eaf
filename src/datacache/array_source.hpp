// array_source.hpp: samples that lie one after the other in a file, elements of one type; and what their formats share.
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

/// What the header of an array says; the array need not be in a file of its own.
struct Shape {
  std::vector<std::int64_t> dimensions;  ///< items, then those of an item
  Element element;

  [[nodiscard]] std::int64_t items() const { return dimensions.front(); }
  /// Returns the bytes of an item.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string text() const;  ///< "uint8 60000x28x28"
  /// Returns the layout of a sample, as SampleSource::layout().
  [[nodiscard]] std::string layout(bool labelled) const;

  /// Fills bytes(). Throws Error(WEIR_ERR_FILE), which names `what`, where there are no items to speak of or 64 bits cannot count
  /// their bytes.
  void measure(const std::string& what);

 private:
  std::int64_t bytes_ = 0;
};

/// An array that is in one piece.
struct ArrayFile {
  StoreFile file;
  std::int64_t begin = 0;  ///< of its first item, in bytes
  Shape shape;

  /// Throws Error(WEIR_ERR_FILE) unless the file ends where the array does.
  void check_size() const;
};

/// How samples are laid out: items as they are, then the label.
class LabelledLayout {
 public:
  LabelledLayout() = default;
  /// `labels` have one number for each of `items`. Throws Error(WEIR_ERR_FILE), which names `what` has them, where not.
  LabelledLayout(const Shape& items, const std::optional<Shape>& labels, const std::string& what);

  /// Bytes of a sample as read from the store, and decoded.
  [[nodiscard]] std::int64_t encoded_bytes() const { return item_bytes_ + label_bytes_; }
  [[nodiscard]] std::int64_t value_bytes() const { return value_bytes_; }
  /// Items, `count` of them, lie at the beginning of `encoded`, which has room for all samples: moves them apart, and puts labels
  /// after each.
  void interleave(std::int64_t count, std::span<const std::byte> labels, std::span<std::byte> encoded) const;
  std::int64_t decode(std::span<const std::byte> encoded, std::span<std::byte> value) const;

 private:
  Element element_, label_;
  std::int64_t item_bytes_ = 0, label_bytes_ = 0, value_bytes_ = 0;
};

/// Value and label of a sample: the label's place.
[[nodiscard]] constexpr std::int64_t label_place(std::int64_t item_bytes) { return (item_bytes + 3) / 4 * 4; }

/// Throws Error(WEIR_ERR_ARGUMENT) unless samples [first, first + count) are among `size`.
void check_range(std::int64_t first, std::int64_t count, std::int64_t size);

[[nodiscard]] std::shared_ptr<SampleSource> array_source(std::string format, ArrayFile items, std::optional<ArrayFile> labels);

}  // namespace weir::datacache
