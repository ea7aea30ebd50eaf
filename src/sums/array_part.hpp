// array_part.hpp: a part of a dense array, with a bit for each element, set where there is an entry.
#pragma once

#include <bit>
#include <cstdint>

#include "sums/entries.hpp"

namespace weir::sums {

[[nodiscard]] constexpr std::int64_t bit_words(std::int64_t elements) { return (elements + 63) / 64; }

/// In memory of somebody else. Elements without an entry have the value that changes no other.
template <class T>
struct ArrayPart {
  T* values = nullptr;
  std::uint64_t* bits = nullptr;
  std::int64_t base = 0;  ///< the index of the first element
  std::int64_t size = 0;  ///< elements
};

/// Writes a part that has these entries, whose indices are in it. All others get `identity`.
template <class T>
void fill(const ArrayPart<T>& part, const Entries<T>& entries, T identity);
/// Sets the bits alone.
template <class T>
void set_bits(const ArrayPart<T>& part, const Entries<T>& entries);
/// Calls visit(place) for each set bit.
template <class Visit>
void for_each_bit(const std::uint64_t* bits, std::int64_t words, const Visit& visit) {
  for (std::int64_t word = 0; word < words; ++word) {
    for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) visit(word * 64 + std::countr_zero(left));
  }
}
[[nodiscard]] std::int64_t count_bits(const std::uint64_t* bits, std::int64_t words);
/// Copies the values of the entries alone. Returns how many they are.
template <class T>
std::int64_t pack(const ArrayPart<T>& part, T* to);
/// Copies the entries. Returns how many they are.
template <class T>
std::int64_t extract(const ArrayPart<T>& part, const EntryPlace<T>& to);

}  // namespace weir::sums
