// same_bits.hpp: equality that distinguishes -0 from 0 and accepts equal NaNs.
#pragma once

#include <algorithm>
#include <bit>
#include <span>

#include "kernels/kernels.hpp"

namespace weir::test {

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::bit_cast<Key<T>>(x) == std::bit_cast<Key<T>>(y); });
}

}  // namespace weir::test
