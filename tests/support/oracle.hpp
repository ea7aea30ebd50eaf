// oracle.hpp: the slow, obvious sparse allreduce: all ranks' data in one place, plain sorts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/kernels.hpp"

namespace weir::test {

/// Indices of the k largest magnitudes that are not zero, ties to the lowest index, ascending.
template <class T>
std::vector<std::uint32_t> topk(const std::vector<T>& x, std::int64_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::uint32_t i) { return x[i] == 0; });
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key_of(x[a]) > key_of(x[b]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

/// Sum in the order of a binary tree over the ranks: pairs, then pairs of pairs. A rank without the entry takes no part.
template <class T>
struct Optional {
  bool set = false;
  T value = 0;
};
template <class T>
Optional<T> tree_sum(std::vector<Optional<T>> x) {
  while (x.size() > 1) {
    std::vector<Optional<T>> next;
    for (std::size_t i = 0; i < x.size(); i += 2) {
      if (i + 1 == x.size() || !x[i + 1].set)
        next.push_back(x[i]);
      else if (!x[i].set)
        next.push_back(x[i + 1]);
      else
        next.push_back({true, x[i].value + x[i + 1].value});
    }
    x = next;
  }
  return x[0];
}

/// Ok-Topk with exact selection, error feedback, all ranks at once.
template <class T>
struct Oracle {
  Oracle(int ranks, std::int64_t n) : residual(static_cast<std::size_t>(ranks), std::vector<T>(static_cast<std::size_t>(n))) {}

  std::vector<std::vector<T>> residual;
  std::vector<std::uint32_t> indices;  // of the update
  std::vector<T> sums;                 // not averaged

  void step(const std::vector<std::vector<T>>& gradients, std::int64_t k) {
    const std::size_t ranks = gradients.size(), n = gradients[0].size();
    std::vector<std::vector<Optional<T>>> contribution(n, std::vector<Optional<T>>(ranks));
    std::vector<std::vector<std::uint32_t>> local(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < n; ++i) residual[r][i] += gradients[r][i];
      local[r] = topk(residual[r], k);
      for (const std::uint32_t i : local[r]) contribution[i][r] = {true, residual[r][i]};
    }
    std::vector<T> sum(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Optional<T> total = tree_sum(contribution[i]);
      sum[i] = total.set ? total.value : T{0};
    }
    indices = topk(sum, k);
    sums.clear();
    for (const std::uint32_t i : indices) sums.push_back(sum[i]);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (const std::uint32_t i : local[r]) {
        if (std::binary_search(indices.begin(), indices.end(), i)) residual[r][i] = 0;
      }
    }
  }
};

}  // namespace weir::test
