#include <algorithm>

#include "catalogue/thresholds/estimators.hpp"

namespace weir {

template <class T>
Key<T> redsync_threshold(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k, std::int64_t samplings) {
  const double largest = magnitude_of(all.largest);
  const double mean = std::min(all.sum_magnitudes / static_cast<double>(all.count), largest);
  Key<T> key = candidates.floor;
  double left = 0, right = 1;
  for (std::int64_t sampling = 0; sampling < samplings; ++sampling) {
    const double ratio = left + (right - left) / 2;
    const Key<T> threshold = key_at_least<T>(mean + ratio * (largest - mean));
    key = std::max(threshold, candidates.floor);
    const std::int64_t count = candidates.count_at_least(key);
    if (threshold >= candidates.floor && count >= k && count <= guard_limit(k)) break;
    (threshold >= candidates.floor && count < k ? right : left) = ratio;
  }
  return key;
}

namespace {

constexpr ParameterInfo redsync_parameters[] = {
    {.name = "samplings", .value = 30, .least = 1, .most = 1000, .doc = "most bisections"}};

template <class T>
class RedSync final : public ThresholdEstimator<T> {
 public:
  explicit RedSync(const Parameters& given) : samplings_(given.whole("samplings")) {}

  task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& /*whole*/,
                                            EstimatorState& /*state*/) override {
    const Key<T> key = redsync_threshold(survey.candidates, survey.magnitudes, survey.k, samplings_);
    co_return all_from(key, survey.candidates, survey.k);
  }

 private:
  std::int64_t samplings_;
};

}  // namespace

const ThresholdRow threshold_redsync{.name = "redsync",
                                     .description =
                                         "threshold binary search: a threshold between mean and maximum that k to 5/4 k "
                                         "entries reach; the paper stops at 2 k",
                                     .source = "RedSync (Fang et al. 2019)",
                                     .parameters = redsync_parameters,
                                     .summary = Summary::magnitudes,
                                     .estimators = make_estimators<RedSync>};

template Key<float> redsync_threshold(const Candidates<float>&, const Exceedances<float>&, std::int64_t, std::int64_t);
template Key<double> redsync_threshold(const Candidates<double>&, const Exceedances<double>&, std::int64_t, std::int64_t);

}  // namespace weir
