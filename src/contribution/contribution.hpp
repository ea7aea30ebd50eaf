// contribution.hpp: what a rank contributes to an exchange of entries, and what it keeps of its gradients until they are delivered.
//
// It is the only owner of "nothing is lost" for entries. Let r be the residual before a run, r' the residual after it, and x the
// gradient, or the vector that error feedback puts in its place. Then, up to rounding at the size of the sums:
//
//   r + x = r' + the entries of this rank that the exchange has delivered
//
// If the exchange drops entries on the way, the rank that dropped them gets them back as undelivered. The law then holds for the
// sum over all ranks. If a run delivers nothing, r' = r.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "async/task.hpp"
#include "base/state.hpp"
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "contribution/error_feedback.hpp"
#include "contribution/host_arrays.hpp"
#include "contribution/selection_setup.hpp"

namespace weir {

struct ContributionRules {
  SelectionSetup selection;
  std::int64_t most_selected = 0;  ///< most entries of one selection
  FeedbackRules feedback;
  bool keeps_residual = true;
  bool refuses_non_finite = true;
  wire::Wire wire;  ///< how the entries travel
};

/// Template over the memory of its arrays: HostArrays or CudaArrays. A run calls select(), travelling(), then settle() or
/// roll_back().
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
class Contribution {
 public:
  using G = typename Arrays::Gradient;
  using T = typename Arrays::Value;

  /// `arrays` must outlive the object. Allocates all memory here.
  Contribution(const ContributionRules& rules, Arrays& arrays)
      : setup_(rules.selection),
        refuses_non_finite_(rules.refuses_non_finite),
        wire_(rules.wire),
        arrays_(arrays),
        period_(setup_.threshold.period()),
        capacity_(setup_.capacity()),
        candidates_(capacity_),
        kept_elsewhere_(Arrays::in_place ? Entries() : Entries(capacity_)),
        sample_(ThresholdSample::largest(setup_.count, setup_.largest_k, setup_.samples_always())),
        estimator_(setup_.threshold.make_estimator<T>()),
        feedback_(rules.feedback, setup_.count, rules.keeps_residual, arrays),
        rounded_(rules.wire.values != WireValues::native ? rules.most_selected : 0) {
    arrays_.reserve(capacity_);
  }

  /// Adds the gradient to the residual, and selects k entries of the sum (Ok-Topk Algorithm 2). `gradient` must stay valid until
  /// settle(); roll_back() can do without it. Returns false, with nothing selected, if an element is not finite and must be. `draw`
  /// is for random selections.
  task<bool> select(const G* gradient, std::int64_t k, Draw draw = {}) {
    gradient_ = gradient;
    prepared_ = nullptr;
    if (!feedback_.idle()) return prepare_and_select(k, draw);
    return select_from(gradient, feedback_.residual().data(), k, refuses_non_finite_, draw);
  }
  /// Computes residual += gradient and selects from the sum. Without a residual (nullptr), selects from the gradient. X is T or the
  /// type of the plan's gradients. For a selected entry the residual holds the sum, too, or still the old value if the sum is far
  /// above the threshold: see restore(). Returns false, with nothing selected, if `refuse_non_finite` and some sum is not finite,
  /// or would not be as it travels.
  template <class X>
  task<bool> select_from(const X* gradient, T* residual, std::int64_t k, bool refuse_non_finite, Draw draw = {}) {
    const bool reuse = period_ > 0 && state_.threshold != 0 && state_.iteration % period_ != 0;
    ++state_.iteration;
    rethresholded_ = false;
    std::optional<Key<T>> floor = known_floor(k, reuse);
    if (!floor) floor = co_await sampled_floor(gradient, residual, k);
    floor_ = std::min(key_infinity<T>, *floor);  // a NaN's key would exclude infinity
    keep_old_ = std::min(key_infinity<T>, static_cast<Key<T>>(floor_ + 2 * octave<T>));
    arrays_.compensate(gradient, residual, setup_.count, floor_, keep_old_, k > 0 ? setup_.summary() : Summary::none, candidates_,
                       capacity_);
    // A selection that will probably be accepted as it is needs no ranking.
    bool ranked = Arrays::asynchronous && k > 0 && !reuse && !setup_.samples_always();
    if (ranked) arrays_.rank(candidates_, capacity_, k);
    co_await arrays_.report();

    std::int64_t hits = arrays_.results().found.hits;
    selected_ = &candidates_;
    count_ = std::min(hits, capacity_);
    const bool overflows = setup_.scales_up && hits > 0;  // the floor of known_floor() is where values overflow
    finite_ = !refuse_non_finite || (!overflows && arrays_.is_finite(gradient, setup_.count, candidates_, count_));
    if (!finite_) co_return false;
    if (k == 0 || setup_.picking == compress::Picking::random) {
      put_back(residual);
      if (k > 0)
        on_sums(gradient, residual, [&](const auto* x) { arrays_.pick(x, setup_.count, k, draw, setup_.scales_up, candidates_); });
      count_ = k;
      co_return true;
    }
    if (setup_.accepts(hits, k, reuse, floor_)) co_return true;
    rethresholded_ = period_ > 0;
    const Results<T>& results = arrays_.results();
    const Key<T> largest = setup_.summary() == Summary::moments ? results.moments.largest : results.exceedances.largest;
    const bool estimates = estimator_ && largest < key_infinity<T>;
    if (estimates) {
      if (co_await select_estimated(gradient, residual, hits, k)) co_return true;
      hits = count_;
      ranked = false;
    }
    const Key<T> last = state_.threshold;
    if (!setup_.has_enough(hits, k, floor_)) {
      put_back(residual);
      co_await on_sums(gradient, residual, [&](const auto* x) { return select_anew(x, k); });
    } else {
      if (!ranked) {
        arrays_.rank(candidates_, count_, k);
        co_await arrays_.report();
      }
      keep_largest(residual, k);
    }
    if (!reuse && !estimates) state_.forecast.learn(hits, k, last, state_.threshold);
    co_return true;
  }
  [[nodiscard]] SparseVector<T> selection() const { return finite_ ? selected() : SparseVector<T>{}; }
  /// Returns the selection as it travels, rounded if the wire format rounds.
  [[nodiscard]] SparseVector<T> travelling() {
    if (rounded_.size() == 0) return selection();
    arrays_.round(wire_, selection(), rounded_.data());
    return {selection().indices, rounded_.data(), selection().count};
  }

  /// Removes what was delivered from the residual. Adds what the exchange hands back, and what rounding took away. The indices of
  /// `delivered` ascend. Those of `undelivered` ascend in runs that end at `runs`, or in one run if `runs` is empty.
  void settle(SparseVector<T> delivered, SparseVector<T> undelivered = {}, std::span<const std::int64_t> runs = {}) {
    if (T* const residual = feedback_.residual().data(); residual != nullptr) {
      settle_in(residual, delivered);
      arrays_.scatter_add(residual, undelivered, runs);
      if (rounded_.size() > 0) arrays_.return_rounded(wire_, residual, selection(), rounded_.data(), delivered);
    }
    feedback_.commit();
    feedback_.mask(selection(), delivered);
  }
  /// Ok-Topk Algorithm 2: removes selected entries that are among `taken` from `residual`, that of select_from(). The others stay.
  void settle_in(T* residual, SparseVector<T> taken) { arrays_.settle(residual, selected(), taken); }
  /// Adds back one entry that an exchange has returned, after settle(). In host memory only.
  void give_back(std::int64_t index, T value) {
    if (T* const residual = feedback_.residual().data(); residual != nullptr) residual[index] += value;
  }
  /// Restores the residual that was there before select(), up to rounding at the size of the threshold. `gradient_is_there`: the
  /// caller's gradient may be read. Without it the residual keeps the sum, unless error feedback has replaced the gradient.
  void roll_back(bool gradient_is_there) {
    T* const residual = feedback_.residual().data();
    if (residual == nullptr) return;
    if (prepared_ != nullptr && feedback_.decays())
      feedback_.restore();
    else if (prepared_ != nullptr)
      roll_back_in(residual, prepared_);
    else if (gradient_is_there)
      roll_back_in(residual, gradient_);
  }
  /// Restores `residual`, that of select_from(), up to rounding at the size of the threshold, even if the gradient was far larger
  /// or not finite. If selection had to visit all entries again, up to rounding at the size of the sum.
  template <class X>
  void roll_back_in(T* residual, const X* gradient) {
    Entries& spare = selected_ == &candidates_ ? kept() : candidates_;
    arrays_.roll_back(gradient, residual, setup_.count, selected(), keep_old_, spare);
  }

  void reset() {
    state_ = {};
    forget_selection();
    feedback_.reset();
  }
  /// Multiplies by `factor` what is kept of gradients.
  void scale(double factor) {
    state_.threshold = scaled_key<T>(state_.threshold, factor);
    feedback_.scale(factor);
  }
  /// Visits what later selections depend on, besides the residual.
  void visit_selector(StateVisitor& visitor) {
    visitor.state(state_);
    if (visitor.restores()) forget_selection();
  }
  /// Returns the residual, and what else error feedback keeps.
  [[nodiscard]] ErrorFeedback<Arrays>& feedback() { return feedback_; }
  [[nodiscard]] const ErrorFeedback<Arrays>& feedback() const { return feedback_; }
  [[nodiscard]] std::span<T> residual() { return feedback_.residual(); }
  [[nodiscard]] std::span<const T> residual() const { return feedback_.residual(); }
  /// Returns true if the last selection found a new threshold that may be used again.
  [[nodiscard]] bool rethresholded() const noexcept { return rethresholded_; }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return candidates_.bytes() + kept_elsewhere_.bytes() + sample_.bytes() + feedback_.memory_bytes() + rounded_.bytes();
  }

 private:
  using Entries = typename Arrays::Entries;
  using Array = typename Arrays::template Array<T>;

  /// Holds what selections keep between runs.
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

  /// Calls body(x) for the array that holds all sums once the candidates are written back: the residual, or the gradient if there
  /// is no residual.
  template <class X, class Body>
  static decltype(auto) on_sums(const X* gradient, const T* residual, const Body& body) {
    return residual != nullptr ? body(residual) : body(gradient);
  }

  /// Answers questions about all sums.
  template <class X>
  class AllSums final : public WholeVector<T> {
   public:
    AllSums(Contribution& of, const X* gradient, T* residual) : of_(of), gradient_(gradient), residual_(residual) {}

    task<std::int64_t> count_at_least(Key<T> threshold) override {
      of_.put_back(residual_);
      on_sums(gradient_, residual_, [&](const auto* x) { of_.arrays_.count_hits(x, of_.setup_.count, threshold); });
      co_await of_.arrays_.report();
      co_return of_.arrays_.results().found.hits;
    }
    task<Exceedances<T>> exceedances(Key<T> threshold) override {
      of_.put_back(residual_);
      on_sums(gradient_, residual_, [&](const auto* x) { of_.arrays_.exceedances(x, of_.setup_.count, threshold); });
      co_await of_.arrays_.report();
      co_return of_.arrays_.results().exceedances;
    }

   private:
    Contribution& of_;
    const X* gradient_;
    T* residual_;
  };

  void forget_selection() {
    count_ = 0;
    rethresholded_ = false;
  }
  [[nodiscard]] SparseVector<T> selected() const { return selected_->first(count_); }
  [[nodiscard]] Entries& kept() { return Arrays::in_place ? candidates_ : kept_elsewhere_; }

  task<bool> prepare_and_select(std::int64_t k, Draw draw) {
    prepared_ = co_await feedback_.prepare(gradient_);
    T* const residual = feedback_.residual().data();
    if (prepared_ != nullptr) co_return co_await select_from(prepared_, residual, k, refuses_non_finite_, draw);
    co_return co_await select_from(gradient_, residual, k, refuses_non_finite_, draw);
  }

  /// Returns the floor of the candidates, or nothing if only a sample can say it.
  [[nodiscard]] std::optional<Key<T>> known_floor(std::int64_t k, bool reuse) const {
    // The pass is still needed, to update the residual and to find values that are not finite.
    if (k == 0 || setup_.picking == compress::Picking::random) return setup_.first_wild<T>(k);
    if (setup_.picking == compress::Picking::above_value)
      return static_cast<Key<T>>(key_of(static_cast<T>(setup_.picking_value)) + 1);
    if (estimator_ || setup_.threshold.row->sampled || state_.threshold == 0) return std::nullopt;
    return reuse ? state_.threshold : state_.forecast.floor(state_.threshold);
  }
  template <class X>
  task<Key<T>> sampled_floor(const X* gradient, const T* residual, std::int64_t k) {
    if (estimator_) return sampled_key(gradient, residual, guard_limit(k) + 1, true);
    return sampled_key(gradient, residual, k, !setup_.threshold.row->sampled);
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
    arrays_.take(x, setup_.count, {.largest = k}, kept());
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
    arrays_.keep(candidates_, count_, {.largest = k}, kept(), residual, keep_old_);
    selected_ = &kept();
    count_ = kth.greater + std::min(kth.equal, k - kth.greater);
  }

  /// Writes the sums of the candidates to the residual as well.
  void put_back(T* residual) {
    if (residual == nullptr) return;
    arrays_.put_back(residual, candidates_, count_, keep_old_);
    keep_old_ = key_infinity<T>;
  }

  /// Returns false if there is no good estimate. In that case the candidates are unchanged or have been collected anew.
  template <class X>
  task<bool> select_estimated(const X* gradient, T* residual, std::int64_t hits, std::int64_t k) {
    const Moments<T> moments = arrays_.results().moments;
    if (const std::int64_t wanted = guard_limit(k) + 1; !setup_.has_enough(hits, wanted, floor_)) {
      put_back(residual);
      co_await on_sums(gradient, residual, [&](const auto* x) { return collect_candidates(x, wanted); });
    }
    Survey<T> survey{.k = k, .iteration = state_.iteration, .moments = moments, .magnitudes = arrays_.results().exceedances};
    const T* const values = co_await arrays_.on_host(candidates_, count_);
    survey.candidates = {values, count_, floor_};
    AllSums<X> all(*this, gradient, residual);
    const std::optional<Estimate<T>> found = co_await estimator_->estimate(survey, all, state_.estimator);
    if (!found) co_return false;
    if (found->band.lower >= floor_) {
      arrays_.keep(candidates_, count_, {found->band}, kept(), residual, keep_old_);
    } else {
      put_back(residual);
      on_sums(gradient, residual, [&](const auto* x) { arrays_.take(x, setup_.count, {found->band}, kept()); });
    }
    selected_ = &kept();
    count_ = found->count;
    co_return true;
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
  bool refuses_non_finite_;
  wire::Wire wire_;
  Arrays& arrays_;
  std::int64_t period_;  // tau', runs that may share a threshold; 0: never shared
  std::int64_t capacity_;
  Entries candidates_, kept_elsewhere_;
  Array sample_;
  std::unique_ptr<ThresholdEstimator<T>> estimator_;  // null if thresholds are exact, reused or sampled
  ErrorFeedback<Arrays> feedback_;
  Array rounded_;
  State state_;
  // State of the last run:
  const G* gradient_ = nullptr;
  const T* prepared_ = nullptr;  // what error feedback put in the gradient's place, or nullptr
  const Entries* selected_ = &candidates_;
  std::int64_t count_ = 0;
  bool finite_ = true;
  Key<T> floor_ = 1;     // the candidates are all entries with at least this key
  Key<T> keep_old_ = 0;  // from this key on, the residual holds the old values of selected entries
  bool rethresholded_ = false;
};

}  // namespace weir
