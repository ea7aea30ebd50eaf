// exact.hpp: the k largest of an array in CUDA memory, by the kernels that plans use.
#pragma once

#include <cstdint>

#include "contribution/selection_setup.hpp"
#include "cuda/runtime.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::bench {

/// Arrays for one count and k, and the ways to select.
class Exact {
 public:
  Exact(std::int64_t count, std::int64_t k, void* stream);
  /// GPU memory that one takes.
  [[nodiscard]] static std::int64_t bytes(std::int64_t count, std::int64_t k);

  /// To be called first: ranks all of x, so that what is measured knows the threshold of "the iteration before". Waits.
  void learn(const float* x);
  /// The candidates above a threshold that 1.07 k entries reach (plans aim at 1.03 to 1.1 k), and the selection among these. The
  /// host knows the numbers and waits for none, as it does once in a plan.
  void warm(const float* x);
  /// All of x ranked, then selected: where ties or a bad guess leave no other way.
  void ranked(const float* x);
  /// As the first iteration: the threshold from a sample, another one, or a ranking of everything, should that mislead. Waits for
  /// each sample, and for the number of candidates.
  void cold(const float* x);
  /// Whether warm() finds all candidates within what there is room for. Waits; after learn().
  [[nodiscard]] bool warm_is_exact(const float* x);
  /// Throws std::runtime_error unless the last selection is of the k largest: as many as it should, by the true threshold. Waits;
  /// after learn().
  void check();

  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_, scratch_.data(), device_}; }
  [[nodiscard]] const KthKey<float>& kth() const { return learned_; }
  [[nodiscard]] std::int64_t capacity() const { return indices_.size(); }
  /// The last selection.
  [[nodiscard]] const std::uint32_t* indices() const { return kept_indices_.data(); }
  [[nodiscard]] const float* values() const { return kept_values_.data(); }
  /// Entries: min(k, those that are not zero).
  [[nodiscard]] std::int64_t selected() const;
  /// Room for as many entries again, which selections write to.
  [[nodiscard]] std::uint32_t* spare_indices() const { return indices_.data(); }
  [[nodiscard]] float* spare_values() const { return values_.data(); }
  [[nodiscard]] Found* found() const { return found_.data(); }

 private:
  void select_above(const float* x, Key<float> floor);
  [[nodiscard]] bool found_enough(Key<float> floor);
  template <class V>
  [[nodiscard]] V fetch(const V* from) const;

  SelectionSetup setup_;
  std::int64_t count_, k_;
  void* stream_;
  int device_ = cuda::current_device();
  cuda::DeviceArray<std::byte> scratch_;
  cuda::DeviceArray<std::uint32_t> indices_, kept_indices_;
  cuda::DeviceArray<float> values_, kept_values_, sample_;
  cuda::DeviceArray<Found> found_;
  cuda::DeviceArray<KthKey<float>> kth_;
  cuda::DeviceArray<std::int64_t> kept_;
  KthKey<float> learned_{};
  Key<float> floor_ = 1;  // of warm()
};

}  // namespace weir::bench
