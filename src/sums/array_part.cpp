#include "sums/array_part.hpp"

#include <algorithm>
#include <bit>

namespace weir::sums {
namespace {

constexpr std::int64_t word_bits = 64;

/// Calls visit_word(place) for each word of bits that are all set, and visit(place) for each set bit of other words.
template <class VisitWord, class Visit>
void for_each_entry(const std::uint64_t* bits, std::int64_t words, const VisitWord& visit_word, const Visit& visit) {
  for (std::int64_t word = 0; word < words; ++word) {
    const std::int64_t first = word * word_bits;
    if (bits[word] == ~std::uint64_t{0})
      visit_word(first);
    else
      for_each_bit(bits + word, 1, [&](std::int64_t place) { visit(first + place); });
  }
}

}  // namespace

template <class T>
void fill(const ArrayPart<T>& part, const Entries<T>& entries, T identity) {
  std::fill_n(part.values, part.size, identity);
  for (std::int64_t i = 0; i < entries.count; ++i) part.values[entries.indices[i] - part.base] = entries.values[i];
  set_bits(part, entries);
}

template <class T>
void set_bits(const ArrayPart<T>& part, const Entries<T>& entries) {
  std::fill_n(part.bits, bit_words(part.size), std::uint64_t{0});
  for (std::int64_t i = 0; i < entries.count; ++i) {
    const std::int64_t place = entries.indices[i] - part.base;
    part.bits[place / word_bits] |= std::uint64_t{1} << (place % word_bits);
  }
}

std::int64_t count_bits(const std::uint64_t* bits, std::int64_t words) {
  std::int64_t count = 0;
  for (std::int64_t word = 0; word < words; ++word) count += std::popcount(bits[word]);
  return count;
}

template <class T>
std::int64_t pack(const ArrayPart<T>& part, T* to) {
  T* next = to;
  for_each_entry(
      part.bits, bit_words(part.size), [&](std::int64_t place) { next = std::copy_n(part.values + place, word_bits, next); },
      [&](std::int64_t place) { *next++ = part.values[place]; });
  return next - to;
}

template <class T>
std::int64_t extract(const ArrayPart<T>& part, const EntryPlace<T>& to) {
  std::int64_t count = 0;
  for_each_entry(
      part.bits, bit_words(part.size),
      [&](std::int64_t place) {
        for (std::int64_t i = 0; i < word_bits; ++i) to.indices[count + i] = part.base + place + i;
        std::copy_n(part.values + place, word_bits, to.values + count);
        count += word_bits;
      },
      [&](std::int64_t place) {
        to.indices[count] = part.base + place;
        to.values[count++] = part.values[place];
      });
  return count;
}

#define WEIR_SUM_TYPE(T)                                          \
  template void fill(const ArrayPart<T>&, const Entries<T>&, T);  \
  template void set_bits(const ArrayPart<T>&, const Entries<T>&); \
  template std::int64_t pack(const ArrayPart<T>&, T*);            \
  template std::int64_t extract(const ArrayPart<T>&, const EntryPlace<T>&);
WEIR_SUM_TYPE(float)
WEIR_SUM_TYPE(double)
WEIR_SUM_TYPE(std::int32_t)
WEIR_SUM_TYPE(std::int64_t)
#undef WEIR_SUM_TYPE

}  // namespace weir::sums
