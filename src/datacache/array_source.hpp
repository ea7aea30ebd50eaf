// array_source.hpp: samples that are items of an array of numbers, and what the formats of such files share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <weir/datacache.hpp>

#include "datacache/store_file.hpp"

namespace weir::datacache {

enum class Number { boolean, integer, natural, real, complex };

struct Element {
  Number number = Number::natural;
  int bytes = 1;
  bool swapped = false;  ///< true if the file's byte order differs from this machine's
};

/// The header of an array. The array need not be in a file of its own.
struct Shape {
  std::vector<std::int64_t> dimensions;  ///< the number of items, then the dimensions of an item
  Element element;

  [[nodiscard]] std::int64_t items() const { return dimensions.front(); }
  /// Returns the bytes of an item.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string text() const;  ///< for example "uint8 60000x28x28"
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

/// Returns the place of the label in a decoded sample, in bytes.
[[nodiscard]] constexpr std::int64_t label_place(std::int64_t item_bytes) { return (item_bytes + 3) / 4 * 4; }
/// Puts the label after the item in a decoded sample, with zeros before its place.
void put_label(std::int32_t label, std::int64_t item_bytes, std::span<std::byte> value);

/// Throws Error(WEIR_ERR_ARGUMENT) unless samples [first, first + count) lie in [0, size).
void check_range(std::int64_t first, std::int64_t count, std::int64_t size);

/// Samples that are items of an array, each with its label if there is an array of labels. An encoded sample has the item's bytes,
/// then the label's.
class ItemSource : public SampleSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return items_.items(); }
  [[nodiscard]] std::int64_t value_bytes() const override;
  [[nodiscard]] std::string layout() const override;
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override;
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) override;

 protected:
  /// `labels` must have one number for each item. Otherwise throws Error(WEIR_ERR_FILE), which names the file `what`.
  void set_shapes(Shape items, std::optional<Shape> labels, const std::string& what);
  /// Reads items and their labels, if there are any, of samples [first, first + count).
  virtual void read_arrays(std::int64_t first, std::int64_t count, std::span<std::byte> items, std::span<std::byte> labels) = 0;

 private:
  [[nodiscard]] std::int64_t label_bytes() const { return labels_ ? labels_->bytes() : 0; }
  [[nodiscard]] std::int64_t encoded_bytes() const { return items_.bytes() + label_bytes(); }

  Shape items_;
  std::optional<Shape> labels_;
};

[[nodiscard]] std::shared_ptr<SampleSource> array_source(std::string format, ArrayFile items, std::optional<ArrayFile> labels);

}  // namespace weir::datacache
