// local_selector.hpp: compensation and local selection in one pass over gradient and residual.
#pragma once

#include <cstdint>
#include <weir/weir.hpp>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"
#include "plan/threshold_estimators.hpp"
#include "plan/threshold_forecast.hpp"

namespace weir {

/// Selects the entries a rank contributes, and keeps the residual. State that lives on: the iteration, which samples and random
/// numbers depend on, the last threshold and how it has moved, and the number of SIDCo's stages.
///
/// Nearly free exact selection: one pass takes all candidates above slightly less than the threshold is expected to be, and the k
/// largest are found among those few. The first threshold is estimated from a sample. When candidates turn out too few or too many,
/// the pass is repeated with a fresh estimate, and as a last resort the exact k-th magnitude is found by histograms of everything.
///
/// The other methods work on candidates, too. Those of `sampled` are what reaches its sample's threshold. `mstopk`, `gaussian` and
/// `sidco` sum up the gradient on the way and look for their thresholds among somewhat more than 5/4 k candidates, which answer how
/// many entries reach any threshold that matters. Where the count misses [3/4 k, 5/4 k], selection is exact.
template <class T>
class LocalSelector {
 public:
  using Setup = SelectionSetup;
  explicit LocalSelector(const Setup& setup);

  /// Most entries a selection may hold.
  [[nodiscard]] static std::int64_t most_selected(Threshold threshold, std::int64_t count, std::int64_t k);

  /// residual += gradient, and the selection out of the sum. Without residual (nullptr) out of the gradient. Of the selected
  /// entries the residual holds the sum too, or, where that is far above the threshold, still the old value: see roll_back().
  /// Returns false, with nothing selected, if `refuse_non_finite` and the sum is not finite everywhere.
  bool select(const T* gradient, T* residual, std::int64_t k, bool refuse_non_finite);
  [[nodiscard]] SparseVector<T> selection() const { return {indices_.data(), values_.data(), count_}; }

  /// Mode reuse: the last selection found its threshold anew.
  [[nodiscard]] bool rethresholded() const noexcept { return rethresholded_; }

  /// Ok-Topk Algorithm 2: what was selected and is among `taken` leaves the residual, what was selected in vain stays in it.
  void settle(T* residual, SparseVector<T> taken);
  /// Restores the residual to what it was before select, up to rounding at the size of the threshold, also where the gradient was
  /// far larger or not finite. Where selection had to go over all entries again, up to rounding at the size of the sum.
  void roll_back(const T* gradient, T* residual);

  void reset();
  [[nodiscard]] std::int64_t memory_bytes() const { return indices_.bytes() + values_.bytes() + sample_.bytes() + held_.bytes(); }

 private:
  /// What of the candidates is kept: all that reach `upper`, and of those that only reach `lower` `slice` ones in a row.
  struct Band {
    Key<T> upper, lower;
    std::int64_t position;  // of the next one between lower and upper, counted from the first in the slice
    std::int64_t slice;
  };

  [[nodiscard]] Key<T> first_floor(const T* gradient, const T* residual, std::int64_t k, bool reuse);
  [[nodiscard]] Key<T> sampled_key(const T* gradient, const T* residual, std::int64_t k, bool safe);
  void add_up(const T* gradient, const T* residual, std::int64_t size);
  [[nodiscard]] std::int64_t compensate(const T* gradient, T* residual, std::int64_t k);
  [[nodiscard]] bool non_finite(const T* gradient, std::int64_t hits) const;
  void select_exactly(const T* x, T* residual, std::int64_t hits, std::int64_t k);
  void trim(T* residual, std::int64_t k);
  void keep(T* residual, Band& band, std::int64_t from);
  void put_back(T* residual);
  void select_estimated(const T* x, T* residual, std::int64_t hits, std::int64_t k);
  void collect_candidates(const T* x, std::int64_t wanted);
  void select_mstopk(const T* x, T* residual, std::int64_t k);
  void select_band(const T* x, Band& band);
  [[nodiscard]] Key<T> sidco_key(const T* x, T* residual, std::int64_t k);
  [[nodiscard]] Exceedances<T> exceedances_of_all(const T* x, T* residual, Key<T> threshold);

  Setup setup_;
  std::int64_t capacity_;
  Buffer<std::uint32_t> indices_;
  Buffer<T> values_;
  Buffer<T> sample_;
  Buffer<std::uint32_t> held_;  // numbers of candidates whose old value the residual holds, mode sidco
  std::int64_t count_ = 0;
  Key<T> floor_ = 1;     // the candidates are all entries with at least this key
  Key<T> keep_old_ = 0;  // the residual holds the old value of selected entries from here on
  bool rethresholded_ = false;
  std::int64_t iteration_ = 0;
  std::int64_t samples_ = 0;  // taken so far, each another one
  Key<T> threshold_ = 0;      // 0: not known
  ThresholdForecast<T> forecast_;
  Moments<T> moments_;         // of the compensated gradient, mode gaussian
  Exceedances<T> magnitudes_;  // of all of it, modes mstopk and sidco
  SidcoStages sidco_;
};

}  // namespace weir
