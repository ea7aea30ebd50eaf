#include <algorithm>
#include <cmath>

#include "catalogue/thresholds/estimators.hpp"

namespace weir {
namespace {

constexpr double first_ratio = 0.25;     // delta_1 of SIDCo
constexpr double stage_tolerance = 0.2;  // epsilon of SIDCo
constexpr int most_stages = 6;           // the second to last stage leaves about 1e-3 of all

template <class T>
class Sidco final : public ThresholdEstimator<T> {
 public:
  explicit Sidco(const Parameters& /*none*/) {}

  task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& whole, EstimatorState& state) override {
    SidcoStages stages(state);
    const Candidates<T>& among = survey.candidates;
    SidcoFit fit(survey.k, stages.stages());
    Exceedances<T> reaching = survey.magnitudes;
    while (fit.refine(reaching)) {
      const Key<T> key = key_at_least<T>(fit.threshold());
      if (key >= among.floor)
        reaching = kernels::host::exceedances<T>(among.values, nullptr, among.count, key);
      else
        reaching = co_await whole.exceedances(key);
    }
    const Key<T> key = key_at_least<T>(fit.threshold());
    stages.adapt(key < among.floor ? among.count : among.count_at_least(key), survey.k);
    state = stages.state();
    co_return all_from(key, among, survey.k);
  }
};

}  // namespace

template <class T>
bool SidcoFit::refine(const Exceedances<T>& reaching) {
  if (reaching.count == 0) return false;
  const auto count = static_cast<double>(reaching.count);
  const double share = std::min(1.0, k_ / count);
  const bool last = --stages_ <= 0 || share >= first_ratio;
  threshold_ -= (reaching.sum_magnitudes / count - threshold_) * std::log(last ? share : first_ratio);
  return !last;
}

void SidcoStages::adapt(std::int64_t count, std::int64_t k) {
  const double error = std::abs(static_cast<double>(count) / static_cast<double>(k) - 1);
  if (error > stage_tolerance) {
    if (error > error_) direction_ = -direction_;
    if (stages_ + direction_ < 1 || stages_ + direction_ > most_stages) direction_ = -direction_;
    stages_ += direction_;
  }
  error_ = error;
}

SidcoStages::SidcoStages(const EstimatorState& state) {
  if (state[0] == 0) return;
  stages_ = static_cast<int>(std::clamp<double>(state[0], 1, most_stages));
  direction_ = state[1] < 0 ? -1 : 1;
  error_ = state[2];
}

EstimatorState SidcoStages::state() const { return {static_cast<double>(stages_), static_cast<double>(direction_), error_}; }

const ThresholdRow threshold_sidco{.name = "sidco",
                                   .description = "exponential fits to what exceeds the last threshold, in stages",
                                   .source = "SIDCo (Abdelmoniem et al. 2021)",
                                   .summary = Summary::magnitudes,
                                   .estimators = make_estimators<Sidco>};

template bool SidcoFit::refine(const Exceedances<float>&);
template bool SidcoFit::refine(const Exceedances<double>&);

}  // namespace weir
