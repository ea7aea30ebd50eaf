// rates.hpp: measures how fast this process does the computations of collectives. No communication.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/buffer.hpp"
#include "model/machine.hpp"

namespace weir {

/// Returns the value below which the share `quantile` of the values lies; 0 if `values` is empty.
[[nodiscard]] double quantile_of(std::vector<double> values, double quantile);

/// Two similar gradients of `bytes` each, and the largest tenth of their entries. Each measurement runs for about `budget` seconds,
/// at least three times; its result has the unit of the Rates member.
class RateArrays {
 public:
  explicit RateArrays(std::int64_t bytes);

  [[nodiscard]] double add(double budget);
  [[nodiscard]] double select(double budget);
  [[nodiscard]] double cut(double budget);
  [[nodiscard]] double fill(double budget);
  [[nodiscard]] double scatter(double budget);
  [[nodiscard]] double merge(double budget);
  [[nodiscard]] double encode(double budget);
  [[nodiscard]] double decode(double budget);

  /// The arrays serve as message buffers, too; the measurements do not depend on what arrives in in().
  [[nodiscard]] const void* out() const { return gradient_.data(); }
  [[nodiscard]] void* in() { return work_.data(); }

 private:
  std::int64_t encode_selected();

  std::int64_t count_, k_;
  Buffer<float> gradient_, work_;
  Buffer<std::uint32_t> indices_, other_indices_, out_indices_;
  Buffer<float> values_, other_values_, out_values_;
  Buffer<std::byte> message_;
  std::int64_t selected_ = 0, other_selected_ = 0;
  std::uint32_t select_threshold_ = 0;
};

struct RateMeasurement {
  const char* what;
  double Rates::*rate;
  double (RateArrays::*measure)(double budget);
};

inline constexpr std::array rate_measurements = {
    RateMeasurement{"add", &Rates::add, &RateArrays::add},
    RateMeasurement{"select", &Rates::select, &RateArrays::select},
    RateMeasurement{"cut", &Rates::cut, &RateArrays::cut},
    RateMeasurement{"fill", &Rates::fill, &RateArrays::fill},
    RateMeasurement{"scatter", &Rates::scatter, &RateArrays::scatter},
    RateMeasurement{"merge", &Rates::merge, &RateArrays::merge},
    RateMeasurement{"encode", &Rates::encode, &RateArrays::encode},
    RateMeasurement{"decode", &Rates::decode, &RateArrays::decode},
};

}  // namespace weir
