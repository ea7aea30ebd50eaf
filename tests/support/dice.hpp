// dice.hpp: random choices that are the same everywhere. The standard's distributions differ between libraries.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <random>
#include <vector>

namespace weir::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::uint64_t word() { return random_(); }
  /// Returns a number from `lowest` to `highest`, both included.
  [[nodiscard]] std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return lowest + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(highest - lowest + 1));
  }
  [[nodiscard]] int small(int lowest, int highest) { return static_cast<int>(between(lowest, highest)); }
  [[nodiscard]] bool chance(int percent) { return between(0, 99) < percent; }
  template <class T>
  [[nodiscard]] T one_of(std::initializer_list<T> list) {
    return list.begin()[between(0, static_cast<std::int64_t>(list.size()) - 1)];
  }
  template <class List>
  [[nodiscard]] auto one_of(const List& list) {
    return list[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(list)) - 1))];
  }
  /// Returns 0 to size - 1 in random order.
  [[nodiscard]] std::vector<std::size_t> order(std::size_t size) {
    std::vector<std::size_t> list(size);
    std::iota(list.begin(), list.end(), std::size_t{0});
    for (std::size_t i = size; i > 1; --i) std::swap(list[i - 1], list[random_() % i]);
    return list;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace weir::test
