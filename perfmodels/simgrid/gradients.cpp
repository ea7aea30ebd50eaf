#include "gradients.hpp"

#include <array>
#include <cmath>

namespace weir::simulation {
namespace {

constexpr std::uint64_t layers = 64;
constexpr int table_bits = 11;
constexpr std::size_t table_size = std::size_t{1} << table_bits;
using Table = std::array<float, table_size>;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Returns the standard normal quantile of p in (0, 1), by bisection of the distribution function.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

Table quantiles() {
  Table table;
  for (std::size_t i = 0; i < table_size; ++i)
    table[i] = static_cast<float>(normal_quantile((static_cast<double>(i) + 0.5) / static_cast<double>(table_size)));
  return table;
}

}  // namespace

void fill_gradient(std::span<float> gradient, double spread, int rank, int iteration) {
  static const Table normal = quantiles();
  const auto share = static_cast<float>(spread / std::sqrt(2.0));
  Table scale;
  for (std::size_t i = 0; i < table_size; ++i) scale[i] = std::exp(share * normal[i]);

  const std::uint64_t own = mix(static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(iteration));
  const std::uint64_t n = gradient.size();
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const float layer_scale = scale[mix(~layer) % table_size];
    for (std::uint64_t i = layer * n / layers; i < (layer + 1) * n / layers; ++i) {
      const std::uint64_t noise = mix(own + i);
      // Take a value between two quantiles, so that few magnitudes are equal. The table's ends are 3.5 standard deviations away.
      const float within = static_cast<float>(noise & 0xffff) * (1.0F / 65536);
      const std::size_t at = (noise >> 16) % (table_size - 1);
      gradient[i] = layer_scale * scale[mix(i) % table_size] * (normal[at] + within * (normal[at + 1] - normal[at]));
    }
  }
}

}  // namespace weir::simulation
