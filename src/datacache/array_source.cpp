#include "datacache/array_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace weir::datacache {
namespace {

class ArraySource final : public SampleSource {
 public:
  ArraySource(std::string format, ArrayFile items, std::optional<ArrayFile> labels)
      : format_(std::move(format)),
        items_(std::move(items)),
        labels_(std::move(labels)),
        layout_(items_.shape, labels_ ? std::optional(labels_->shape) : std::nullopt, labels_ ? labels_->file.path() : "") {}

  [[nodiscard]] std::int64_t size() const override { return items_.shape.items(); }
  [[nodiscard]] std::int64_t value_bytes() const override { return layout_.value_bytes(); }
  [[nodiscard]] std::string identity() const override {
    std::string line = fmt::format("{} {} {}", format_, items_.file.stamp(), items_.shape.text());
    if (items_.begin > 0) line += fmt::format(" from {}", items_.begin);
    if (labels_) line += fmt::format("; labels {} {}", labels_->file.stamp(), labels_->shape.text());
    return line;
  }
  [[nodiscard]] std::string layout() const override { return items_.shape.layout(labels_.has_value()); }
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
    check_range(first, count, size());
    encoded.resize(static_cast<std::size_t>(count * layout_.encoded_bytes()));
    read_items(items_, first, std::span(encoded).first(static_cast<std::size_t>(count * items_.shape.bytes())));
    if (labels_) {
      std::vector<std::byte> labels(static_cast<std::size_t>(count * labels_->shape.bytes()));
      read_items(*labels_, first, labels);
      layout_.interleave(count, labels, encoded);
    }
    std::fill(sizes.begin(), sizes.end(), layout_.encoded_bytes());
  }
  std::int64_t decode(std::int64_t /*sample*/, std::span<const std::byte> encoded, std::span<std::byte> value) override {
    return layout_.decode(encoded, value);
  }

 private:
  static void read_items(const ArrayFile& array, std::int64_t first, std::span<std::byte> into) {
    array.file.read(array.begin + first * array.shape.bytes(), into);
  }

  std::string format_;
  ArrayFile items_;
  std::optional<ArrayFile> labels_;
  LabelledLayout layout_;
};

}  // namespace

std::string Shape::text() const { return fmt::format("{} {}", element.name(), fmt::join(dimensions, "x")); }

std::string Shape::layout(bool labelled) const {
  return fmt::format("{}[{}]{}", element.name(), fmt::join(dimensions.begin() + 1, dimensions.end(), ","),
                     labelled ? " int32[]" : "");
}

void Shape::measure(const std::string& what) {
  if (dimensions.empty())
    fail(WEIR_ERR_FILE, "{} has a single number: samples are the items along the first dimension of an array", what);
  bytes_ = element.bytes;
  bool fits = true;
  for (std::size_t i = 1; i < dimensions.size(); ++i) fits &= !__builtin_mul_overflow(bytes_, dimensions[i], &bytes_);
  std::int64_t all = 0, rounded = 0;
  fits &= !__builtin_mul_overflow(bytes_, std::max<std::int64_t>(1, dimensions[0]), &all);
  fits &= !__builtin_add_overflow(bytes_, std::int64_t{16}, &rounded);
  const bool negative = std::any_of(dimensions.begin(), dimensions.end(), [](std::int64_t length) { return length < 0; });
  if (!fits || negative) fail(WEIR_ERR_FILE, "{} claims {}, which no file has: its header is damaged", what, text());
  if (bytes_ == 0) fail(WEIR_ERR_FILE, "{} has {}: items of no bytes", what, text());
}

void ArrayFile::check_size() const {
  const std::int64_t all = shape.items() * shape.bytes();
  if (file.bytes() - begin != all)
    fail(WEIR_ERR_FILE, "{} has {} bytes after its header, and {} takes {}: it is damaged, or was not copied completely",
         file.path(), file.bytes() - begin, shape.text(), all);
}

LabelledLayout::LabelledLayout(const Shape& items, const std::optional<Shape>& labels, const std::string& what)
    : element_(items.element), item_bytes_(items.bytes()), value_bytes_(items.bytes()) {
  if (!labels) return;
  label_ = labels->element;
  label_bytes_ = label_.bytes;
  value_bytes_ = label_place(item_bytes_) + static_cast<std::int64_t>(sizeof(std::int32_t));
  const bool integers = label_.number == Number::integer || label_.number == Number::natural || label_.number == Number::boolean;
  if (!integers || labels->bytes() != label_.bytes)
    fail(WEIR_ERR_FILE, "{} has {}: labels are integers, one for each sample", what, labels->text());
  if (labels->items() != items.items())
    fail(WEIR_ERR_FILE, "{} has {} labels, and there are {} samples: give the labels of these samples", what, labels->items(),
         items.items());
}

void LabelledLayout::interleave(std::int64_t count, std::span<const std::byte> labels, std::span<std::byte> encoded) const {
  const auto item = static_cast<std::size_t>(item_bytes_), label = static_cast<std::size_t>(label_bytes_);
  for (auto i = static_cast<std::size_t>(count); i-- > 0;) {  // backwards: no item is overwritten before it has moved
    std::byte* const sample = encoded.data() + i * (item + label);
    std::memmove(sample, encoded.data() + i * item, item);
    std::memcpy(sample + item, labels.data() + i * label, label);
  }
}

std::int64_t LabelledLayout::decode(std::span<const std::byte> encoded, std::span<std::byte> value) const {
  if (encoded.size() != static_cast<std::size_t>(encoded_bytes()) || value.size() != static_cast<std::size_t>(value_bytes()))
    fail(WEIR_ERR_ARGUMENT, "a sample has {} bytes, and its value {}: {} and {} are expected", encoded.size(), value.size(),
         encoded_bytes(), value_bytes());
  const auto item = static_cast<std::size_t>(item_bytes_);
  std::copy_n(encoded.begin(), item, value.begin());
  make_native(element_, value.first(item));
  if (label_bytes_ > 0) {
    const auto place = static_cast<std::size_t>(label_place(item_bytes_));
    std::fill(value.begin() + static_cast<std::ptrdiff_t>(item), value.begin() + static_cast<std::ptrdiff_t>(place), std::byte{0});
    const std::int32_t label = label_at(label_, encoded.data() + item);
    std::memcpy(value.data() + place, &label, sizeof label);
  }
  return value_bytes_;
}

void check_range(std::int64_t first, std::int64_t count, std::int64_t size) {
  require(first >= 0 && count >= 0 && first <= size && count <= size - first,
          "there are no samples {} to {}: there are {}, numbered from 0", first, first + count - 1, size);
}

std::shared_ptr<SampleSource> array_source(std::string format, ArrayFile items, std::optional<ArrayFile> labels) {
  return std::make_shared<ArraySource>(std::move(format), std::move(items), std::move(labels));
}

}  // namespace weir::datacache
