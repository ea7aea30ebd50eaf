#include "datacache/elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace weir::datacache {
namespace {

template <class Word>
Word swapped(Word word) {
  Word result = 0;
  for (std::size_t i = 0; i < sizeof word; ++i) result = static_cast<Word>((result << 8) | ((word >> (8 * i)) & 0xff));
  return result;
}

template <class Word>
void swap_all(std::span<std::byte> elements) {
  for (std::size_t at = 0; at + sizeof(Word) <= elements.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, elements.data() + at, sizeof word);
    word = swapped(word);
    std::memcpy(elements.data() + at, &word, sizeof word);
  }
}

template <class Integer>
std::int32_t narrowed(const std::byte* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  if (!std::in_range<std::int32_t>(value)) fail(WEIR_ERR_FILE, "the label {} does not fit into 32 bits", value);
  return static_cast<std::int32_t>(value);
}

}  // namespace

std::string Element::name() const {
  constexpr std::array<const char*, 5> names = {"bool", "int", "uint", "float", "complex"};
  const std::string kind = names[static_cast<std::size_t>(number)];
  return number == Number::boolean ? kind : kind + std::to_string(8 * bytes);
}

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

std::int32_t label_at(const Element& element, const std::byte* value) {
  std::array<std::byte, 8> native{};
  const std::span<std::byte> bytes(native.data(), static_cast<std::size_t>(element.bytes));
  std::copy_n(value, bytes.size(), bytes.begin());
  make_native(element, bytes);
  const bool has_sign = element.number == Number::integer;
  switch (element.bytes) {
    case 1:
      return has_sign ? narrowed<signed char>(native.data()) : narrowed<unsigned char>(native.data());
    case 2:
      return has_sign ? narrowed<std::int16_t>(native.data()) : narrowed<std::uint16_t>(native.data());
    case 4:
      return has_sign ? narrowed<std::int32_t>(native.data()) : narrowed<std::uint32_t>(native.data());
    default:
      return has_sign ? narrowed<std::int64_t>(native.data()) : narrowed<std::uint64_t>(native.data());
  }
}

}  // namespace weir::datacache
