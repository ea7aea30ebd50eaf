// sum_oracle.hpp: sparse sums by maps, slow and obvious, and inputs for them.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <weir/sums.hpp>

#include "sums/stripes.hpp"
#include "sums/sum_row.hpp"
#include "support/dice.hpp"

namespace weir::test {

template <class T>
struct SumEntry {
  std::int64_t index;
  T value;
};
template <class T>
using SumList = std::vector<SumEntry<T>>;
template <class T>
using SumMap = std::map<std::int64_t, T>;

/// The arrays of a list.
template <class T>
struct Given {
  std::vector<std::int64_t> indices;
  std::vector<T> values;

  explicit Given(const SumList<T>& list) {
    for (const SumEntry<T>& entry : list) {
      indices.push_back(entry.index);
      values.push_back(entry.value);
    }
  }
  [[nodiscard]] SumInput input() const { return SumInput::entries(indices, values); }
};

template <class T>
T combined(SumOperation operation, T a, T b) {
  if (operation == SumOperation::sum) {
    if constexpr (std::is_integral_v<T>) {
      T wrapped;
      static_cast<void>(__builtin_add_overflow(a, b, &wrapped));
      return wrapped;
    } else {
      return a + b;
    }
  }
  if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  if (operation == SumOperation::min) return b < a ? b : a;
  return b > a ? b : a;
}

template <class T>
void combine_into(SumOperation operation, SumMap<T>& sum, std::int64_t index, T value) {
  const auto [place, inserted] = sum.emplace(index, value);
  if (!inserted) place->second = combined(operation, place->second, value);
}

/// Returns the sum in the order that SparseSum documents.
template <class T>
SumMap<T> sum_oracle(SumOperation operation, const std::vector<SumList<T>>& ranks) {
  std::vector<SumMap<T>> parts(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const SumEntry<T>& entry : ranks[rank]) combine_into(operation, parts[rank], entry.index, entry.value);
  }
  const auto join = [&](std::size_t at) {
    for (const auto& [index, value] : parts[at + 1]) combine_into(operation, parts[at], index, value);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  };
  std::size_t power = 1;
  while (2 * power <= parts.size()) power *= 2;
  for (std::size_t pair = 0; parts.size() > power; ++pair) join(pair);
  while (parts.size() > 1) {
    for (std::size_t at = 0; at < parts.size(); ++at) join(at);
  }
  return parts[0];
}

inline const std::vector<std::string> sum_patterns = {"nothing",  "few",        "unsorted",  "one index",
                                                      "one rank", "everything", "clustered", "same indices"};

template <class T>
T sum_value(Dice& dice) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(dice.word());
  } else {
    if (dice.chance(5)) return static_cast<T>(-0.0);
    return std::ldexp(static_cast<T>(dice.between(-1000000, 1000000)), dice.small(-20, 20));
  }
}

/// Returns what the ranks give: lists with at most about 300 entries each.
template <class T>
std::vector<SumList<T>> sum_input(const std::string& pattern, int ranks, std::int64_t count, std::uint64_t seed) {
  std::vector<SumList<T>> lists(static_cast<std::size_t>(ranks));
  Dice dice(seed);
  if (count == 0) return lists;
  const std::int64_t most = std::min<std::int64_t>(count, 300), shared = dice.between(0, count - 1);
  for (int rank = 0; rank < ranks; ++rank) {
    SumList<T>& list = lists[static_cast<std::size_t>(rank)];
    const auto add = [&](std::int64_t index) { list.push_back({index, sum_value<T>(dice)}); };
    if (pattern == "few") {
      if (dice.chance(70)) add(dice.between(0, count - 1));
    } else if (pattern == "unsorted") {  // and some twice
      for (std::int64_t i = dice.between(0, most); i > 0; --i) add(dice.between(0, count - 1));
    } else if (pattern == "one index") {
      for (int i = dice.small(0, 5); i > 0; --i) add(shared);
    } else if (pattern == "one rank") {
      for (std::int64_t i = 0; rank == ranks / 2 && i < most; ++i) add(count / most * i);
    } else if (pattern == "everything") {
      for (std::int64_t i = 0; i < most; ++i) add(i);
    } else if (pattern == "clustered") {
      for (int i = 0; i < 50; ++i) add(std::min(count - 1, shared + dice.between(0, 60)));
    } else if (pattern == "same indices") {
      for (std::int64_t i = 0; i < std::min<std::int64_t>(40, count); ++i) add(count / std::min<std::int64_t>(40, count) * i);
    }
  }
  return lists;
}

/// What the ranks give, and its sum.
template <class T>
struct SumCase {
  std::string text;
  std::int64_t count;
  std::vector<SumList<T>> input;
  SumMap<T> sum;
};

/// Returns cases of all patterns, for arrays of no element up to more than 2^33. Leaves out two of three for many ranks.
template <class T>
std::vector<SumCase<T>> sum_cases(SumOperation operation, int ranks) {
  constexpr std::int64_t counts[] = {0, 1, 7, 130, 5000, (std::int64_t{1} << 33) + 5};
  std::vector<SumCase<T>> cases;
  int number = 0;
  for (const std::int64_t count : counts) {
    for (const std::string& pattern : sum_patterns) {
      if (count == 0 && pattern != "nothing") continue;
      if (ranks > 8 && ++number % 3 != 0) continue;
      auto input = sum_input<T>(pattern, ranks, count, static_cast<std::uint64_t>(count * 31 + ranks));
      auto sum = sum_oracle(operation, input);
      cases.push_back(
          {"P " + std::to_string(ranks) + " n " + std::to_string(count) + " " + pattern, count, std::move(input), std::move(sum)});
    }
  }
  return cases;
}

/// Returns ascending indices below 2^20, one in each block that `hash` and `blocks` deal to rank 0.
inline std::vector<std::int64_t> indices_of_one_owner(int ranks) {
  constexpr std::int64_t count = 1 << 20;
  const sums::Stripes stripes(count, ranks, sums::block_bits);
  std::vector<std::int64_t> indices;
  for (std::int64_t index = 0; index < count; index += sums::block_elements) {
    if (stripes.with_index(index).rank == 0) indices.push_back(index);
  }
  return indices;
}

template <class T>
bool same_value(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Returns whether a view has exactly the entries of the oracle with begin <= index < end, bit for bit.
template <class T>
bool same_sum(const SumView<T>& view, const SumMap<T>& oracle, std::int64_t begin, std::int64_t end) {
  std::size_t i = 0;
  for (auto entry = oracle.lower_bound(begin); entry != oracle.end() && entry->first < end; ++entry, ++i) {
    if (i >= view.indices.size() || view.indices[i] != entry->first || !same_value(view.values[i], entry->second)) return false;
  }
  return i == view.indices.size() && i == view.values.size();
}

/// Returns the names of all algorithms for ranks on one node, and "auto".
inline std::vector<std::string> algorithms_of_sums() {
  std::vector<std::string> names = {"auto"};
  for (const sums::SumRow* row : sums::sum_registry()) {
    if (row->needs != sums::Shown::nodes) names.emplace_back(row->name);
  }
  return names;
}

}  // namespace weir::test
