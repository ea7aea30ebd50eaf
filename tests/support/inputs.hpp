// inputs.hpp: gradients for tests, from friendly to adversarial. Reproducible from (kind, seed, iteration, rank).
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace weir::test {

enum class Input {
  heavy_tailed,  ///< correlated over ranks and iterations, as gradients are
  integers,      ///< small integers: many ties, sums that cancel
  zeros,
  constant,  ///< all entries tie
  denormals,
  few_nonzeros,  ///< fewer nonzeros than k
  one_region,    ///< all mass in one small region
  jumping,       ///< in another region in each iteration
  elsewhere,     ///< each rank's mass in its own region
  rank_heavy     ///< each rank's mass in the region of its neighbour, one rank much larger than the others
};

inline const std::vector<Input>& all_inputs() {
  static const std::vector<Input> list = {Input::heavy_tailed, Input::integers,     Input::zeros,      Input::constant,
                                          Input::denormals,    Input::few_nonzeros, Input::one_region, Input::jumping,
                                          Input::elsewhere,    Input::rank_heavy};
  return list;
}

inline std::string input_name(Input input) {
  constexpr const char* names[] = {"heavy_tailed", "integers",   "zeros",   "constant",  "denormals",
                                   "few_nonzeros", "one_region", "jumping", "elsewhere", "rank_heavy"};
  return names[static_cast<int>(input)];
}

template <class T>
std::vector<T> compute_input(Input input, std::int64_t n, int rank, int ranks, int iteration) {
  std::vector<T> x(static_cast<std::size_t>(n));
  std::mt19937_64 shared(12345), own(static_cast<std::uint64_t>(1000 * iteration + rank + 1));
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> small(-3, 3);
  const auto place = [&](std::int64_t i, std::int64_t begin) {
    return i >= begin && i < begin + std::max<std::int64_t>(1, n / 50);
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const double noise = normal(own);
    double value = 0;
    switch (input) {
      case Input::heavy_tailed:
        value = std::exp(2 * normal(shared)) * (1 + 0.3 * noise) * (i % 2 ? 1 : -1);
        break;
      case Input::integers:
        value = small(own);
        break;
      case Input::zeros:
        break;
      case Input::constant:
        value = 0.25;
        break;
      case Input::denormals:
        value = std::ldexp(noise, sizeof(T) == 4 ? -140 : -1060);
        break;
      case Input::few_nonzeros:
        value = i % 997 == 3 ? noise : 0;
        break;
      case Input::one_region:
        value = noise * (place(i, n / 3) ? 1e6 : 1e-3);
        break;
      case Input::jumping:
        value = noise * (place(i, n * ((7 * iteration) % 11) / 11) ? 1e6 * std::exp2(iteration) : 1e-3);
        break;
      case Input::elsewhere:
        value = noise * (place(i, n * rank / ranks) ? 1e6 : 1e-3);
        break;
      case Input::rank_heavy:
        value = noise * (place(i, n * ((rank + 1) % ranks) / ranks) ? (rank == 0 ? 1e9 : 1e5) : 1e-3);
        break;
    }
    x[static_cast<std::size_t>(i)] = static_cast<T>(value);
  }
  return x;
}

/// Thread-safe. Keeps the last inputs, because ranks and checkers request the same ones again and again.
template <class T>
std::vector<T> make_input(Input input, std::int64_t n, int rank, int ranks, int iteration) {
  static std::mutex mutex;
  static std::map<std::tuple<Input, std::int64_t, int, int, int>, std::vector<T>> kept;
  static std::int64_t elements = 0;
  constexpr std::int64_t most_elements = 16'000'000;
  const std::tuple key{input, n, rank, ranks, iteration};
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = kept.find(key); found != kept.end()) return found->second;
  }
  std::vector<T> x = compute_input<T>(input, n, rank, ranks, iteration);
  const std::scoped_lock lock(mutex);
  if (elements + n > most_elements) {
    kept.clear();
    elements = 0;
  }
  if (n <= most_elements && kept.emplace(key, x).second) elements += n;
  return x;
}

}  // namespace weir::test
