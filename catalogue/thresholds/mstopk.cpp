#include <algorithm>

#include "catalogue/thresholds/estimators.hpp"

namespace weir {

template <class T>
MsTopkThresholds<T> mstopk_thresholds(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k,
                                      std::int64_t samplings) {
  MsTopkThresholds<T> found{std::numeric_limits<Key<T>>::max(), 0, 1};
  const double largest = magnitude_of(all.largest);
  const double mean = std::min(all.sum_magnitudes / static_cast<double>(all.count), largest);
  double left = 0, right = 1;
  for (std::int64_t sampling = 0; sampling < samplings; ++sampling) {
    const double ratio = left + (right - left) / 2;
    const Key<T> threshold = key_at_least<T>(mean + ratio * (largest - mean));
    // If the answer is known, counting again would change nothing: counts grow as thresholds fall.
    bool few = threshold >= found.upper;
    if (!few && threshold > found.lower && threshold >= candidates.floor) {
      const std::int64_t count = candidates.count_at_least(threshold);
      few = count <= k;
      if (few) {
        found.upper = threshold;
        found.upper_count = count;
      }
    }
    if (few) {
      right = ratio;
    } else {
      left = ratio;
      found.lower = std::max(found.lower, threshold);
    }
  }
  return found;
}

namespace {

constexpr ParameterInfo mstopk_parameters[] = {
    {.name = "samplings", .value = 30, .least = 1, .most = 1000, .doc = "N of CommLib Algorithm 1: thresholds that are tried"}};

template <class T>
class MsTopk final : public ThresholdEstimator<T> {
 public:
  explicit MsTopk(const Parameters& given) : samplings_(given.whole("samplings")) {}

  task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& whole, EstimatorState& /*state*/) override {
    const MsTopkThresholds<T> found = mstopk_thresholds(survey.candidates, survey.magnitudes, survey.k, samplings_);
    std::int64_t reaching = 0;
    if (found.lower >= survey.candidates.floor)
      reaching = survey.candidates.count_at_least(found.lower);
    else
      reaching = co_await whole.count_at_least(found.lower);
    // Lines 25-29: the missing entries are taken from those between, as one piece, from a random place on.
    const std::int64_t between = reaching - found.upper_count, slice = std::min(survey.k - found.upper_count, between);
    const std::uint64_t start =
        random_number(static_cast<std::uint64_t>(survey.iteration)) % static_cast<std::uint64_t>(between - slice + 1);
    const Band<T> band{found.upper, found.lower, static_cast<std::int64_t>(start), slice};
    co_return Estimate<T>{band, found.upper_count + slice};
  }

 private:
  std::int64_t samplings_;
};

}  // namespace

const ThresholdRow threshold_mstopk{
    .name = "mstopk",
    .description = "`samplings` thresholds bisected between mean and maximum, then exactly k entries",
    .source = "CommLib Algorithm 1",
    .parameters = mstopk_parameters,
    .at_most_k = true,
    .summary = Summary::magnitudes,
    .estimators = make_estimators<MsTopk>};

template MsTopkThresholds<float> mstopk_thresholds(const Candidates<float>&, const Exceedances<float>&, std::int64_t, std::int64_t);
template MsTopkThresholds<double> mstopk_thresholds(const Candidates<double>&, const Exceedances<double>&, std::int64_t,
                                                    std::int64_t);

}  // namespace weir
