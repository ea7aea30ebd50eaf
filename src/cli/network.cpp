#include "cli/network.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace weir::cli {
namespace {

using Unit = std::pair<std::string_view, double>;
constexpr std::array bandwidth_units = {Unit{"kbit", 1e3 / 8}, Unit{"Mbit", 1e6 / 8}, Unit{"Gbit", 1e9 / 8},
                                        Unit{"Tbit", 1e12 / 8}};
constexpr std::array time_units = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
// The cost of a message among many in flight, as a share of the latency; the same as in the built-in machine.
constexpr double overhead_share = 0.15;

template <std::size_t N>
std::optional<double> quantity(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number > 0) || number > 1e9) return {};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, factor] : units) {
    if (unit == name) return number * factor;
  }
  return {};
}

}  // namespace

Link parse_network(const std::string& text) {
  const std::string_view whole = text;
  const std::size_t comma = whole.find(',');
  if (comma != std::string_view::npos) {
    const std::optional<double> bandwidth = quantity(whole.substr(0, comma), bandwidth_units);
    const std::optional<double> latency = quantity(whole.substr(comma + 1), time_units);
    if (bandwidth && latency)
      return {.latency = *latency,
              .overhead = overhead_share * *latency,
              .bandwidth = *bandwidth,
              .exchange = *bandwidth,
              .shared = *bandwidth};
  }
  throw Error(WEIR_ERR_ARGUMENT, fmt::format("--network is '{}': it must be a node's bandwidth (in kbit, Mbit, Gbit or Tbit a "
                                             "second) and a latency (in ns, us, ms or s), "
                                             "for example 25Gbit,5us",
                                             text));
}

}  // namespace weir::cli
