#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "catalogue/thresholds/estimators.hpp"

namespace weir {
namespace {

constexpr double first_ratio = 0.25;     // delta_1 of SIDCo
constexpr double stage_tolerance = 0.2;  // epsilon of SIDCo
constexpr int most_stages = 6;           // the last but one leaves about 1e-3 of all

template <class T>
class Sidco final : public ThresholdEstimator<T> {
 public:
  explicit Sidco(const Parameters& /*none*/) {}

  task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& whole) override {
    const Candidates<T>& among = survey.candidates;
    SidcoFit fit(survey.k, stages_.stages());
    Exceedances<T> reaching = survey.magnitudes;
    while (fit.refine(reaching)) {
      const Key<T> key = key_at_least<T>(fit.threshold());
      if (key >= among.floor)
        reaching = kernels::host::exceedances<T>(among.values, nullptr, among.count, key);
      else
        reaching = co_await whole.exceedances(key);
    }
    const Key<T> key = key_at_least<T>(fit.threshold());
    stages_.adapt(key < among.floor ? among.count : among.count_at_least(key), survey.k);
    co_return all_from(key, among, survey.k);
  }
  void reset() override { stages_ = {}; }
  void visit_state(StateVisitor& visitor) override { visitor.state(stages_); }

 private:
  SidcoStages stages_;
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

void SidcoStages::visit(StateVisitor& visitor) {
  visitor.value("stages", stages_);
  visitor.check(stages_ >= 1 && stages_ <= most_stages, "stages", fmt::format("from 1 to {}", most_stages));
  visitor.value("direction", direction_);
  visitor.check(direction_ == 1 || direction_ == -1, "direction", "1 or -1");
  visitor.value("error", error_);
}

const ThresholdRow threshold_sidco{.name = "sidco",
                                   .description = "exponential fits to what exceeds the last threshold, in stages",
                                   .source = "SIDCo (Abdelmoniem et al. 2021)",
                                   .summary = Summary::magnitudes,
                                   .estimators = make_estimators<Sidco>};

template bool SidcoFit::refine(const Exceedances<float>&);
template bool SidcoFit::refine(const Exceedances<double>&);

}  // namespace weir
