#include "datacache/array_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace weir {

// Defaults that all sources share.

SampleSource::~SampleSource() = default;

std::uint64_t SampleSource::changes(std::int64_t /*first*/, std::int64_t /*count*/) const { return 0; }

std::int64_t SampleSource::decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) {
  require(encoded.size() <= value.size(), "sample {} has {} bytes: at most {} are expected", sample, encoded.size(), value.size());
  std::copy(encoded.begin(), encoded.end(), value.begin());
  return static_cast<std::int64_t>(encoded.size());
}

}  // namespace weir

namespace weir::datacache {
namespace {

/// Returns NumPy's name: "uint8", "float32", "complex64", ...
std::string name_of(const Element& element) {
  constexpr std::array<const char*, 5> names = {"bool", "int", "uint", "float", "complex"};
  const std::string kind = names[static_cast<std::size_t>(element.number)];
  return element.number == Number::boolean ? kind : kind + std::to_string(8 * element.bytes);
}

template <class Word>
void swap_all(std::span<std::byte> elements) {
  for (std::size_t at = 0; at + sizeof(Word) <= elements.size(); at += sizeof(Word)) {
    Word word, swapped = 0;
    std::memcpy(&word, elements.data() + at, sizeof word);
    for (std::size_t i = 0; i < sizeof word; ++i) swapped = static_cast<Word>((swapped << 8) | ((word >> (8 * i)) & 0xff));
    std::memcpy(elements.data() + at, &swapped, sizeof swapped);
  }
}

/// Converts elements to this machine's byte order.
void make_native(const Element& element, std::span<std::byte> elements) {
  if (!element.swapped) return;
  switch (element.number == Number::complex ? element.bytes / 2 : element.bytes) {
    case 2:
      return swap_all<std::uint16_t>(elements);
    case 4:
      return swap_all<std::uint32_t>(elements);
    case 8:
      return swap_all<std::uint64_t>(elements);
    default:
      return;
  }
}

template <class Integer>
std::int32_t narrowed(Integer value) {
  if (!std::in_range<std::int32_t>(value)) fail(WEIR_ERR_FILE, "the label {} does not fit into 32 bits", value);
  return static_cast<std::int32_t>(value);
}

/// Returns the integer that is stored in the file's byte order.
std::int32_t label_of(const Element& element, std::span<const std::byte> stored) {
  const bool begins_low = (std::endian::native == std::endian::little) != element.swapped;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < stored.size(); ++i)
    bits = bits << 8 | std::to_integer<std::uint64_t>(stored[begins_low ? stored.size() - 1 - i : i]);
  const int unused = 64 - 8 * element.bytes;
  return element.number == Number::integer ? narrowed(static_cast<std::int64_t>(bits << unused) >> unused) : narrowed(bits);
}

class ArraySource final : public ItemSource {
 public:
  ArraySource(std::string format, ArrayFile items, std::optional<ArrayFile> labels)
      : format_(std::move(format)), items_(std::move(items)), labels_(std::move(labels)) {
    set_shapes(items_.shape, labels_ ? std::optional(labels_->shape) : std::nullopt, labels_ ? labels_->file.path() : "");
  }

  [[nodiscard]] std::string identity() const override {
    std::string line = fmt::format("{} {} {}", format_, items_.file.stamp(), items_.shape.text());
    if (items_.begin > 0) line += fmt::format(" from {}", items_.begin);
    if (labels_) line += fmt::format("; labels {} {}", labels_->file.stamp(), labels_->shape.text());
    return line;
  }

 private:
  void read_arrays(std::int64_t first, std::int64_t /*count*/, std::span<std::byte> items, std::span<std::byte> labels) override {
    items_.file.read(items_.begin + first * items_.shape.bytes(), items);
    if (labels_) labels_->file.read(labels_->begin + first * labels_->shape.bytes(), labels);
  }

  std::string format_;
  ArrayFile items_;
  std::optional<ArrayFile> labels_;
};

}  // namespace

std::string Shape::text() const { return fmt::format("{} {}", name_of(element), fmt::join(dimensions, "x")); }

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

void put_label(std::int32_t label, std::int64_t item_bytes, std::span<std::byte> value) {
  const std::int64_t place = label_place(item_bytes);
  std::fill(value.begin() + item_bytes, value.begin() + place, std::byte{0});
  std::memcpy(value.data() + place, &label, sizeof label);
}

void check_range(std::int64_t first, std::int64_t count, std::int64_t size) {
  require(first >= 0 && count >= 0 && first <= size && count <= size - first,
          "there are no samples {} to {}: there are {}, numbered from 0", first, first + count - 1, size);
}

void ItemSource::set_shapes(Shape items, std::optional<Shape> labels, const std::string& what) {
  items_ = std::move(items);
  labels_ = std::move(labels);
  if (!labels_) return;
  const Number kind = labels_->element.number;
  const bool integers = kind == Number::integer || kind == Number::natural || kind == Number::boolean;
  if (!integers || labels_->bytes() != labels_->element.bytes)
    fail(WEIR_ERR_FILE, "{} has {}: labels are integers, one for each sample", what, labels_->text());
  if (labels_->items() != items_.items())
    fail(WEIR_ERR_FILE, "{} has {} labels, and there are {} samples: give the labels of these samples", what, labels_->items(),
         items_.items());
}

std::int64_t ItemSource::value_bytes() const {
  return labels_ ? label_place(items_.bytes()) + std::int64_t{sizeof(std::int32_t)} : items_.bytes();
}

std::string ItemSource::layout() const {
  return fmt::format("{}[{}]{}", name_of(items_.element), fmt::join(items_.dimensions.begin() + 1, items_.dimensions.end(), ","),
                     labels_ ? " int32[]" : "");
}

void ItemSource::read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) {
  check_range(first, count, size());
  const auto item = static_cast<std::size_t>(items_.bytes()), label = static_cast<std::size_t>(label_bytes());
  encoded.resize(static_cast<std::size_t>(count) * (item + label));
  std::fill(sizes.begin(), sizes.end(), encoded_bytes());
  std::vector<std::byte> labels(static_cast<std::size_t>(count) * label);
  read_arrays(first, count, std::span(encoded).first(static_cast<std::size_t>(count) * item), labels);
  if (label == 0) return;
  for (auto i = static_cast<std::size_t>(count); i-- > 0;) {  // backwards: no item is overwritten before it has moved
    std::byte* const sample = encoded.data() + i * (item + label);
    std::memmove(sample, encoded.data() + i * item, item);
    std::memcpy(sample + item, labels.data() + i * label, label);
  }
}

std::int64_t ItemSource::decode(std::int64_t /*sample*/, std::span<const std::byte> encoded, std::span<std::byte> value) {
  if (std::ssize(encoded) != encoded_bytes() || std::ssize(value) != value_bytes())
    fail(WEIR_ERR_ARGUMENT, "a sample has {} bytes, and its value {}: {} and {} are expected", encoded.size(), value.size(),
         encoded_bytes(), value_bytes());
  const auto item = static_cast<std::size_t>(items_.bytes());
  std::copy_n(encoded.begin(), item, value.begin());
  make_native(items_.element, value.first(item));
  if (labels_) put_label(label_of(labels_->element, encoded.subspan(item)), items_.bytes(), value);
  return value_bytes();
}

std::shared_ptr<SampleSource> array_source(std::string format, ArrayFile items, std::optional<ArrayFile> labels) {
  return std::make_shared<ArraySource>(std::move(format), std::move(items), std::move(labels));
}

}  // namespace weir::datacache
