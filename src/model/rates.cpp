#include "model/rates.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/splitmix.hpp"
#include "codec/wire.hpp"
#include "kernels/kernels.hpp"

namespace weir {
namespace {

constexpr std::int64_t one_in = 10;          // elements per entry: vectors exceed the inner caches
constexpr std::int64_t select_one_in = 100;  // the usual density, for the pass over the gradient
constexpr int least_repeats = 3;

/// Returns the items per second of `body`, which handles `items`; `before` is not timed.
template <class Before, class Body>
double rate(double budget, std::int64_t items, Before before, Body body) {
  using Clock = std::chrono::steady_clock;
  double spent = 0;
  int repeats = 0;
  for (; spent < budget || repeats < least_repeats; ++repeats) {
    before();
    const Clock::time_point begin = Clock::now();
    body();
    spent += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  // The mean, not the median: if ranks share cores, a body that lost its turn is part of the rate.
  return static_cast<double>(items) * repeats / spent;
}

template <class Body>
double rate(double budget, std::int64_t items, Body body) {
  return rate(
      budget, items, [] {}, body);
}

}  // namespace

double quantile_of(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(quantile * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

RateArrays::RateArrays(std::int64_t bytes)
    : count_(bytes / static_cast<std::int64_t>(sizeof(float))),
      k_(count_ / one_in),
      gradient_(count_),
      work_(count_),
      indices_(2 * k_ + select_padding),
      other_indices_(2 * k_ + select_padding),
      out_indices_(4 * k_ + select_padding),
      values_(2 * k_ + select_padding),
      other_values_(2 * k_ + select_padding),
      out_values_(4 * k_ + select_padding),
      message_(2 * k_ * 8) {
  for (std::int64_t i = 0; i < count_; ++i) {
    const std::uint64_t bits = splitmix64(static_cast<std::uint64_t>(i));
    const float uniform = static_cast<float>(bits & 0xffffff) / 0x1p23F - 1;  // [-1, 1)
    gradient_[i] = uniform / (1.01F - std::abs(uniform));                     // heavy tails
    work_[i] = gradient_[i] * (0.8F + static_cast<float>(bits >> 40) / 0x1p26F);
  }
  const Key<float> threshold = kernels::host::kth_key(gradient_.data(), count_, k_).key;
  selected_ = std::min(2 * k_, kernels::host::select(gradient_.data(), count_, threshold, indices_.data(), values_.data(), 2 * k_));
  other_selected_ =
      std::min(2 * k_, kernels::host::select(work_.data(), count_, threshold, other_indices_.data(), other_values_.data(), 2 * k_));
  select_threshold_ = kernels::host::kth_key(values_.data(), selected_, count_ / select_one_in).key;
}

double RateArrays::add(double budget) {
  kernels::host::fill_zero(work_.data(), count_);
  return rate(budget, gradient_.bytes(), [this] { kernels::host::add(gradient_.data(), work_.data(), count_); });
}

double RateArrays::select(double budget) {
  return rate(
      budget, count_, [this] { kernels::host::fill_zero(work_.data(), count_); },
      [this] {
        kernels::host::compensate_select(gradient_.data(), work_.data(), count_, select_threshold_, key_infinity<float>,
                                         out_indices_.data(), out_values_.data(), 2 * k_);
      });
}

double RateArrays::cut(double budget) {
  const std::int64_t wanted = selected_ - selected_ / 20;
  return rate(budget, selected_, [this, wanted] {
    const KthKey<float> kth = kernels::host::kth_key(values_.data(), selected_, wanted);
    Band<float> band = band_of_largest(kth, wanted);
    kernels::host::select_band<float>(indices_.data(), values_.data(), selected_, band, out_indices_.data(), out_values_.data(),
                                      nullptr, 0);
  });
}

double RateArrays::fill(double budget) {
  return rate(budget, count_, [this] { kernels::host::fill_zero(work_.data(), count_); });
}

double RateArrays::scatter(double budget) {
  // As in a plan, the arrays are not in the caches: filling work_ evicts them.
  return rate(
      budget, selected_, [this] { kernels::host::fill_zero(work_.data(), count_); },
      [this] {
        kernels::host::settle(work_.data(), indices_.data(), values_.data(), selected_, other_indices_.data(), other_selected_);
        kernels::host::scatter(work_.data(), indices_.data(), values_.data(), selected_);
      });
}

double RateArrays::merge(double budget) {
  return rate(budget, selected_ + other_selected_, [this] {
    kernels::host::merge_add(indices_.data(), values_.data(), selected_, other_indices_.data(), other_values_.data(),
                             other_selected_, out_indices_.data(), out_values_.data());
  });
}

double RateArrays::encode(double budget) {
  return rate(budget, selected_, [this] { encode_selected(); });
}

double RateArrays::decode(double budget) {
  const std::int64_t bytes = encode_selected();
  const float divisor = 3;
  return rate(budget, selected_, [&] {
    wire::decode(wire::Wire{}, message_.data(), bytes, selected_, 0, static_cast<std::uint64_t>(count_), out_indices_.data(),
                 out_values_.data());
    kernels::host::divide(out_values_.data(), selected_, divisor);
  });
}

std::int64_t RateArrays::encode_selected() {
  return wire::encode(wire::Wire{}, indices_.data(), values_.data(), selected_, 0, static_cast<std::uint64_t>(count_),
                      message_.data());
}

}  // namespace weir
