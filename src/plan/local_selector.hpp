// local_selector.hpp: compensation and local top-k selection in one pass over gradient and residual.
#pragma once

#include <cstdint>
#include <weir/weir.hpp>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// Selects the entries a rank contributes, and keeps the residual. State that lives on: the last threshold.
///
/// Nearly free exact selection: one pass takes all candidates above a slightly lowered last threshold, and the k largest are
/// found among those few. The first threshold is estimated from a sample. When candidates turn out too few or too many, the pass is
/// repeated with a fresh estimate, and as a last resort the exact k-th magnitude is found by histograms of everything.
template <class T>
class LocalSelector {
 public:
  struct Setup {
    std::int64_t count = 0;      ///< n
    std::int64_t largest_k = 0;  ///< largest k of any iteration; mode reuse may select 1.25 times as many
    Threshold threshold = Threshold::exact;
    std::int64_t period = 32;  ///< tau', mode reuse
    int samplings = 30;        ///< N, mode mstopk
  };
  explicit LocalSelector(const Setup& setup);

  /// residual += gradient, and the selection out of the sum. Without residual (nullptr) out of the gradient. Of the selected
  /// entries the residual holds the sum too, or, where that is far above the threshold, still the old value: see take_back().
  /// Returns false, with nothing selected, if `refuse_non_finite` and the sum is not finite everywhere.
  bool select(const T* gradient, T* residual, std::int64_t k, bool refuse_non_finite);
  [[nodiscard]] SparseVector<T> selection() const { return {indices_.data(), values_.data(), count_}; }

  /// Mode reuse: the last selection found its threshold anew.
  [[nodiscard]] bool rethresholded() const noexcept { return rethresholded_; }

  /// Ok-Topk Algorithm 2: what was selected and is among `taken` leaves the residual, what was selected in vain stays in it.
  void settle(T* residual, SparseVector<T> taken);
  /// Restores the residual to what it was before select, up to rounding at the size of the threshold, also where the gradient was
  /// far larger or not finite.
  void take_back(const T* gradient, T* residual);

  void reset();
  [[nodiscard]] std::int64_t memory_bytes() const { return indices_.bytes() + values_.bytes() + sample_.bytes(); }

 private:
  [[nodiscard]] Key<T> estimate(const T* gradient, const T* residual, std::int64_t k);
  [[nodiscard]] Key<T> lowered() const;
  [[nodiscard]] bool enough(std::int64_t hits, std::int64_t k, Key<T> threshold) const;
  void trim(T* residual, std::int64_t k);
  void search_again(const T* x, std::int64_t k);
  void adapt_margin(std::int64_t hits, std::int64_t k);

  Setup setup_;
  std::int64_t capacity_;
  Buffer<std::uint32_t> indices_;
  Buffer<T> values_;
  Buffer<T> sample_;
  std::int64_t count_ = 0;
  Key<T> keep_old_ = 0;  // the residual holds the old value of selected entries from here on
  bool rethresholded_ = false;
  std::int64_t iteration_ = 0;
  Key<T> threshold_ = 0;  // 0: not known
  double margin_ = 0;     // of lowered(), in octaves
};

}  // namespace weir
