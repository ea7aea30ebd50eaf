// nearest.hpp: guesses which name a misspelt one means.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace weir {

/// Returns how many letters must be inserted, removed or replaced to turn one word into the other.
[[nodiscard]] inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);  // distances from the letters of `from` so far to each beginning of `to`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char letter : from) {
    std::size_t diagonal = row[0]++;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::size_t replaced = diagonal + (letter != to[i] ? 1 : 0);
      diagonal = row[i + 1];
      row[i + 1] = std::min({replaced, row[i] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Returns the first of the nearest `names`, of which there must be at least one. If a word has three letters or more, names that
/// begin with it are the nearest, and those that have it after an underscore are as near as if two letters differed.
[[nodiscard]] inline std::string_view nearest(std::string_view word, std::span<const std::string_view> names) {
  const auto distance = [word](std::string_view name) {
    const std::size_t letters = edit_distance(word, name), at = word.size() >= 3 ? name.find(word) : name.npos;
    if (at == 0) return std::size_t{0};
    return at != name.npos && name[at - 1] == '_' ? std::min<std::size_t>(letters, 2) : letters;
  };
  return *std::min_element(names.begin(), names.end(),
                           [&](std::string_view a, std::string_view b) { return distance(a) < distance(b); });
}

}  // namespace weir
