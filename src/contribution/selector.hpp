// selector.hpp: compensation and local selection in one pass over gradient and residual, in either memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "async/task.hpp"
#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "contribution/host_arrays.hpp"
#include "contribution/selection_setup.hpp"
#include "contribution/threshold_forecast.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// Selects the entries that a rank contributes, and updates the residual.
///
/// Exact selection costs little: one pass takes all candidates above slightly less than the expected threshold, and the k largest
/// are found among those few. The first threshold is estimated from a sample. If there are too few or too many candidates, the pass
/// is repeated with a new estimate. As a last resort, histograms of all elements give the exact k-th magnitude.
///
/// The other methods work on candidates, too. With a sampled threshold, the candidates that reach it are the selection. Estimators
/// sum up the gradient during the pass. They look for their thresholds among somewhat more than 5/4 k candidates, which suffice to
/// count the entries above any useful threshold. If that count is outside [3/4 k, 5/4 k], selection is exact.
///
/// In CUDA memory the host waits once per iteration, for counts, after the pass and the ranking of the candidates.
template <class Arrays>
class Selector {
 public:
  using T = typename Arrays::Value;

  /// `arrays` must outlive the object.
  Selector(const SelectionSetup& setup, Arrays& arrays)
      : setup_(setup),
        arrays_(arrays),
        period_(setup.threshold.period()),
        capacity_(setup.capacity()),
        candidates_(capacity_),
        kept_elsewhere_(Arrays::in_place ? Entries() : Entries(capacity_)),
        sample_(ThresholdSample::largest(setup.count, setup.largest_k, setup.samples_always())),
        estimator_(setup.threshold.make_estimator<T>()) {
    arrays_.reserve(capacity_);
  }

  /// Computes residual += gradient and selects from the sum. Without a residual (nullptr), selects from the gradient. X is T or the
  /// type of the plan's gradients. For a selected entry the residual holds the sum, too, or still the old value if the sum is far
  /// above the threshold: see roll_back().
  /// Returns false, with nothing selected, if `refuse_non_finite` and some sum is not finite, or would not be as it travels. `draw`
  /// is for random selections.
  template <class X>
  task<bool> select(const X* gradient, T* residual, std::int64_t k, bool refuse_non_finite, Draw draw = {}) {
    const bool reuse = period_ > 0 && state_.threshold != 0 && state_.iteration % period_ != 0;
    ++state_.iteration;
    rethresholded_ = false;
    // A NaN's key as the floor would exclude infinity.
    floor_ = std::min(key_infinity<T>, co_await first_floor(gradient, residual, k, reuse));
    keep_old_ = std::min(key_infinity<T>, static_cast<Key<T>>(floor_ + 2 * octave<T>));
    arrays_.compensate(gradient, residual, setup_.count, floor_, keep_old_, k > 0 ? setup_.summary() : Summary::none, candidates_,
                       capacity_);
    // A selection that will probably be accepted as it is needs no ranking.
    const bool ranked = Arrays::asynchronous && k > 0 && !reuse && !setup_.samples_always();
    if (ranked) arrays_.rank(candidates_, capacity_, k);
    co_await arrays_.report();

    const std::int64_t hits = arrays_.results().found.hits;
    selected_ = &candidates_;
    count_ = std::min(hits, capacity_);
    const bool overflows = setup_.scales_up && hits > 0;  // the floor of first_floor() is where values overflow
    if (refuse_non_finite && (overflows || !arrays_.is_finite(gradient, setup_.count, candidates_, count_))) co_return false;
    if (k == 0 || setup_.picking == compress::Picking::random) {
      put_back(residual);
      if (k > 0) pick(gradient, residual, k, draw);
      count_ = k;
      co_return true;
    }
    if (setup_.accepts(hits, k, reuse, floor_)) co_return true;
    rethresholded_ = period_ > 0;
    const Key<T> largest =
        setup_.summary() == Summary::moments ? arrays_.results().moments.largest : arrays_.results().exceedances.largest;
    if (estimator_ && largest < key_infinity<T>) {
      co_await select_estimated(gradient, residual, hits, k);
      co_return true;
    }
    const Key<T> last = state_.threshold;
    co_await select_exactly(gradient, residual, hits, k, ranked);
    if (!reuse) state_.forecast.learn(hits, k, last, state_.threshold);
    co_return true;
  }
  [[nodiscard]] SparseVector<T> selection() const { return selected_->first(count_); }
  /// Returns true if the last selection found a new threshold that may be used again.
  [[nodiscard]] bool rethresholded() const noexcept { return rethresholded_; }

  /// Ok-Topk Algorithm 2: removes selected entries that are among `taken` from the residual. The other selected entries stay in it.
  void settle(T* residual, SparseVector<T> taken) { arrays_.settle(residual, selection(), taken); }
  /// Restores the residual to what it was before select(), up to rounding at the size of the threshold, even if the gradient was
  /// far larger or not finite. If selection had to visit all entries again, up to rounding at the size of the sum.
  template <class X>
  void roll_back(const X* gradient, T* residual) {
    arrays_.roll_back(gradient, residual, setup_.count, selection(), keep_old_, selected_ == &candidates_ ? kept() : candidates_);
  }

  void reset() {
    state_ = {};
    forget_selection();
  }
  /// Prepares for values that are `factor` times as large.
  void scale(double factor) { state_.threshold = scaled_key<T>(state_.threshold, factor); }
  void visit_state(StateVisitor& visitor) {
    visitor.state(state_);
    if (visitor.restores()) forget_selection();
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return candidates_.bytes() + kept_elsewhere_.bytes() + sample_.bytes(); }

 private:
  using Entries = typename Arrays::Entries;

  /// Holds what is kept between runs.
  struct State {
    std::int64_t iteration = 0;  ///< random numbers depend on it
    std::int64_t samples = 0;    ///< number of samples taken so far; each is another one
    Key<T> threshold = 0;        ///< the last threshold; 0 if unknown
    ThresholdForecast<T> forecast;
    EstimatorState estimator{};

    void visit(StateVisitor& visitor) {
      visitor.value("iteration", iteration);
      visitor.check(iteration >= 0, "iteration", "at least 0");
      visitor.value("samples", samples);
      visitor.check(samples >= 0, "samples", "at least 0");
      visitor.value("threshold", threshold);
      visitor.values("estimator", std::span<double>(estimator));
      const StateVisitor::Scope scope(visitor, "forecast");
      forecast.visit(visitor);
    }
  };

  /// Answers questions about all sums. They are in the residual once the candidates are written back, or in the gradient if there
  /// is no residual.
  template <class X>
  class AllSums final : public WholeVector<T> {
   public:
    AllSums(Selector& selector, const X* gradient, T* residual) : selector_(selector), gradient_(gradient), residual_(residual) {}

    task<std::int64_t> count_at_least(Key<T> threshold) override {
      visit([&](const auto* x, std::int64_t count) { selector_.arrays_.count_hits(x, count, threshold); });
      co_await selector_.arrays_.report();
      co_return selector_.arrays_.results().found.hits;
    }
    task<Exceedances<T>> exceedances(Key<T> threshold) override {
      visit([&](const auto* x, std::int64_t count) { selector_.arrays_.exceedances(x, count, threshold); });
      co_await selector_.arrays_.report();
      co_return selector_.arrays_.results().exceedances;
    }
    void take(const Band<T>& band) {
      visit([&](const auto* x, std::int64_t count) { selector_.arrays_.take_band(x, count, band, selector_.kept()); });
    }

   private:
    template <class Body>
    void visit(Body body) {
      selector_.put_back(residual_);
      if (residual_ != nullptr)
        body(static_cast<const T*>(residual_), selector_.setup_.count);
      else
        body(gradient_, selector_.setup_.count);
    }

    Selector& selector_;
    const X* gradient_;
    T* residual_;
  };

  template <class X>
  void pick(const X* gradient, const T* residual, std::int64_t k, const Draw& draw) {
    if (residual != nullptr)
      arrays_.pick(residual, setup_.count, k, draw, setup_.scales_up, candidates_);
    else
      arrays_.pick(gradient, setup_.count, k, draw, setup_.scales_up, candidates_);
  }

  void forget_selection() {
    count_ = 0;
    rethresholded_ = false;
  }

  [[nodiscard]] Entries& kept() { return Arrays::in_place ? candidates_ : kept_elsewhere_; }
  [[nodiscard]] Candidates<T> candidates(const T* values) const { return {values, count_, floor_}; }

  template <class X>
  task<Key<T>> first_floor(const X* gradient, const T* residual, std::int64_t k, bool reuse) {
    // The pass is still needed, to update the residual and to find values that are not finite.
    if (k == 0 || setup_.picking == compress::Picking::random) co_return setup_.first_wild<T>(k);
    if (setup_.picking == compress::Picking::above_value)
      co_return static_cast<Key<T>>(key_of(static_cast<T>(setup_.picking_value)) + 1);
    if (estimator_) co_return co_await sampled_key(gradient, residual, guard_limit(k) + 1, true);
    if (setup_.threshold.row->sampled) co_return co_await sampled_key(gradient, residual, k, false);
    if (state_.threshold == 0) co_return co_await sampled_key(gradient, residual, k, true);
    co_return reuse ? state_.threshold : state_.forecast.floor(state_.threshold);
  }

  /// Returns a threshold that k entries should reach, judging by a regular sample. `safe`: fewer hardly ever reach it.
  template <class X>
  task<Key<T>> sampled_key(const X* x, const T* y, std::int64_t k, bool safe) {
    const ThresholdSample sample(setup_.count, sample_.size(), k, safe, ++state_.samples);
    arrays_.sample(x, y, sample, sample_.data());
    arrays_.kth_key(static_cast<const T*>(sample_.data()), sample.size, sample.rank);
    co_await arrays_.report();
    co_return arrays_.results().kth.key;
  }

  /// `ranked`: the candidates have already been ranked, for k.
  template <class X>
  task<void> select_exactly(const X* gradient, T* residual, std::int64_t hits, std::int64_t k, bool ranked) {
    if (setup_.has_enough(hits, k, floor_)) {
      if (!ranked) co_await rank_candidates(k);
      keep_largest(residual, k);
      co_return;
    }
    put_back(residual);
    if (residual != nullptr)
      co_await select_anew(static_cast<const T*>(residual), k);
    else
      co_await select_anew(gradient, k);
  }

  task<void> rank_candidates(std::int64_t k) {
    arrays_.rank(candidates_, count_, k);
    co_await arrays_.report();
  }

  /// Selects from x, which holds all sums: by a new sample, or, if that fails as well, by ranking all elements.
  template <class X>
  task<void> select_anew(const X* x, std::int64_t k) {
    floor_ = std::min(key_infinity<T>, co_await sampled_key(x, nullptr, k, true));
    arrays_.select(x, setup_.count, floor_, candidates_, capacity_);
    arrays_.rank(candidates_, capacity_, k);
    co_await arrays_.report();
    const std::int64_t hits = arrays_.results().found.hits;
    count_ = std::min(hits, capacity_);
    if (setup_.has_enough(hits, k, floor_)) {
      keep_largest(nullptr, k);
      co_return;
    }
    arrays_.kth_key(x, setup_.count, k);
    arrays_.take_largest(x, setup_.count, k, kept());
    co_await arrays_.report();
    state_.threshold = arrays_.results().kth.key;
    selected_ = &kept();
    count_ = arrays_.results().kept;
  }

  /// Reduces the ranked candidates to the k largest, ties to the lowest index. The others stay in the residual.
  void keep_largest(T* residual, std::int64_t k) {
    const KthKey<T> kth = arrays_.results().kth;
    state_.threshold = kth.key;
    if (count_ <= k) return;
    arrays_.keep_largest(candidates_, count_, k, kept(), residual, keep_old_);
    selected_ = &kept();
    count_ = kth.greater + std::min(kth.equal, k - kth.greater);
  }

  /// Writes the sums of the candidates to the residual as well.
  void put_back(T* residual) {
    if (residual == nullptr) return;
    arrays_.put_back(residual, candidates_, count_, keep_old_);
    keep_old_ = key_infinity<T>;
  }

  template <class X>
  task<void> select_estimated(const X* gradient, T* residual, std::int64_t hits, std::int64_t k) {
    const Moments<T> moments = arrays_.results().moments;
    if (!setup_.has_enough(hits, guard_limit(k) + 1, floor_)) {
      put_back(residual);
      if (residual != nullptr)
        co_await collect_candidates(static_cast<const T*>(residual), guard_limit(k) + 1);
      else
        co_await collect_candidates(gradient, guard_limit(k) + 1);
    }
    Survey<T> survey{.k = k, .iteration = state_.iteration, .moments = moments, .magnitudes = arrays_.results().exceedances};
    survey.candidates = candidates(co_await arrays_.on_host(candidates_, count_));
    AllSums<X> all(*this, gradient, residual);
    const std::optional<Estimate<T>> found = co_await estimator_->estimate(survey, all, state_.estimator);
    if (!found) {
      co_await select_exactly(gradient, residual, count_, k, false);
      co_return;
    }
    if (found->band.lower >= floor_)
      arrays_.keep_band(candidates_, count_, found->band, kept(), residual, keep_old_);
    else
      all.take(found->band);
    selected_ = &kept();
    count_ = found->count;
  }

  /// Collects the candidates again, by ranking all of x. The floor is just above the `wanted`-th largest entry.
  template <class X>
  task<void> collect_candidates(const X* x, std::int64_t wanted) {
    arrays_.kth_key(x, setup_.count, wanted);
    co_await arrays_.report();
    const KthKey<T> kth = arrays_.results().kth;
    floor_ = kth.greater + kth.equal < wanted ? 1 : static_cast<Key<T>>(kth.key + 1);
    arrays_.select(x, setup_.count, floor_, candidates_, capacity_);
    co_await arrays_.report();
    count_ = std::min(arrays_.results().found.hits, capacity_);
  }

  SelectionSetup setup_;
  Arrays& arrays_;
  std::int64_t period_;  // tau', runs that may share a threshold; 0: never shared
  std::int64_t capacity_;
  Entries candidates_, kept_elsewhere_;
  typename Arrays::template Array<T> sample_;
  std::unique_ptr<ThresholdEstimator<T>> estimator_;  // null if thresholds are exact, reused or sampled
  State state_;
  // State of the last selection:
  const Entries* selected_ = &candidates_;
  std::int64_t count_ = 0;
  Key<T> floor_ = 1;     // the candidates are all entries with at least this key
  Key<T> keep_old_ = 0;  // from this key on, the residual holds the old values of selected entries
  bool rethresholded_ = false;
};

}  // namespace weir
