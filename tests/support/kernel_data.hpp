// kernel_data.hpp: inputs for tests of kernels: numbers of every kind, memory between guards, and comparison of results.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/host/cached.hpp"
#include "kernels/kernels.hpp"

namespace weir::test {

enum class Kind { heavy_tailed, special, constant, zeros, mostly_zero, few_values };
inline constexpr std::array kinds{Kind::heavy_tailed, Kind::special,     Kind::constant,
                                  Kind::zeros,        Kind::mostly_zero, Kind::few_values};

template <class T>
std::vector<T> numbers(Kind kind, std::int64_t count, unsigned seed) {
  using Limits = std::numeric_limits<T>;
  const std::array<T, 12> special{
      T(0),  T(-0.0),       Limits::denorm_min(), -Limits::denorm_min(), Limits::min() / 2,   T(1),
      T(-1), Limits::max(), Limits::infinity(),   -Limits::infinity(),   Limits::quiet_NaN(), -Limits::min() / 4};
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& value : x) {
    const double u = uniform(random);
    const auto tail = static_cast<T>((random() % 2 ? 1 : -1) * 1e-3 / (u + 1e-6));
    switch (kind) {
      case Kind::heavy_tailed:
        value = tail;
        break;
      case Kind::special:
        value = random() % 3 ? tail : special[random() % special.size()];
        break;
      case Kind::constant:
        value = T(-1.5);
        break;
      case Kind::zeros:
        value = random() % 2 ? T(0) : T(-0.0);
        break;
      case Kind::mostly_zero:
        value = random() % 50 ? T(0) : tail;
        break;
      case Kind::few_values:
        value = static_cast<T>(static_cast<int>(random() % 5) - 2);
        break;
    }
  }
  return x;
}

/// Returns thresholds: both ends of the keys, non-finite values, and some order statistics of x.
template <class T>
std::vector<Key<T>> keys_among(const std::vector<T>& x) {
  std::vector<Key<T>> keys{0, 1, key_infinity<T>, std::numeric_limits<Key<T>>::max() / 2, std::numeric_limits<Key<T>>::max()};
  if (x.empty()) return keys;
  const auto n = static_cast<std::int64_t>(x.size());
  for (const std::int64_t k : {std::int64_t{1}, n / 100 + 1, n / 4 + 1})
    keys.push_back(kernels::reference::kth_key(x.data(), n, k).key);
  return keys;
}

/// Returns whether all bits are equal.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Returns whether all bits are equal, except the sign and payload of computed NaNs, which IEEE 754 leaves open.
template <class T>
bool same_sums(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T p, T q) { return std::bit_cast<Key<T>>(p) == std::bit_cast<Key<T>>(q) || (p != p && q != q); });
}

/// Holds `count` elements with no more than their own alignment, between guards that must not change.
template <class V>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, std::size_t offset = 1)
      : begin_(guard_ + offset),
        memory_(begin_ + static_cast<std::size_t>(count) + guard_, V(77)),
        count_(static_cast<std::size_t>(count)) {}
  explicit Guarded(const std::vector<V>& from, std::size_t offset = 1) : Guarded(static_cast<std::int64_t>(from.size()), offset) {
    std::copy(from.begin(), from.end(), data());
  }
  V* data() { return memory_.data() + begin_; }
  std::vector<V> first(std::int64_t n) { return std::vector<V>(data(), data() + n); }
  std::vector<V> all() { return first(static_cast<std::int64_t>(count_)); }
  [[nodiscard]] bool intact() const {
    const auto is_guard = [](V v) { return v == V(77); };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_), is_guard) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin_ + count_), memory_.end(), is_guard);
  }

 private:
  static constexpr std::size_t guard_ = 64;
  std::size_t begin_;
  std::vector<V> memory_;
  std::size_t count_;
};

/// While it lives, kernels take caches to be as small as allowed: they hold 262144 floats, but not 262145.
class SmallCaches {
 public:
  SmallCaches() { kernels::host::set_cached_bytes(1 << 20); }
  ~SmallCaches() { kernels::host::set_cached_bytes(before_); }
  SmallCaches(const SmallCaches&) = delete;
  SmallCaches& operator=(const SmallCaches&) = delete;

 private:
  std::int64_t before_ = kernels::host::cached_bytes();
};

}  // namespace weir::test
