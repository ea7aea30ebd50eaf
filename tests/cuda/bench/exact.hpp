// exact.hpp: selects the k largest entries of an array in CUDA memory, with the kernels that plans use.
#pragma once

#include <cstdint>

#include "contribution/selection_setup.hpp"
#include "cuda/runtime.hpp"
#include "kernels/cuda_kernels.hpp"

namespace weir::bench {

/// Selects in several ways, and holds the arrays for one count and k.
class Exact {
 public:
  Exact(std::int64_t count, std::int64_t k, void* stream);
  /// Returns the bytes of GPU memory that an object takes.
  [[nodiscard]] static std::int64_t bytes(std::int64_t count, std::int64_t k);

  /// Ranks all of x, so that the measured functions know the threshold of the "previous iteration". Call it first. Waits.
  void learn(const float* x);
  /// Selects the candidates above a threshold that 1.07 k entries reach (plans aim at 1.03 to 1.1 k), and the k largest of these.
  /// The host knows the numbers and does not wait for them; in a plan it waits once.
  void warm(const float* x);
  /// Ranks all of x, then selects, as plans do if ties or a bad guess make it necessary.
  void ranked(const float* x);
  /// Selects as in the first iteration: with the threshold from a sample, or from another sample or a ranking of everything if the
  /// first one misleads. Waits for each sample, and for the number of candidates.
  void cold(const float* x);
  /// Returns whether warm() has room for all candidates. Call it after learn(). Waits.
  [[nodiscard]] bool warm_is_exact(const float* x);
  /// Throws std::runtime_error unless the last selection has the k largest entries: the right number, above the true threshold.
  /// Call it after learn(). Waits.
  void check();

  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_, scratch_.data(), device_}; }
  [[nodiscard]] const KthKey<float>& kth() const { return learned_; }
  [[nodiscard]] std::int64_t capacity() const { return indices_.size(); }
  /// The entries of the last selection.
  [[nodiscard]] const std::uint32_t* indices() const { return kept_indices_.data(); }
  [[nodiscard]] const float* values() const { return kept_values_.data(); }
  /// Returns the number of entries: min(k, number of nonzero elements).
  [[nodiscard]] std::int64_t selected() const;
  /// Room for capacity() entries, which selections write to.
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
  Key<float> floor_ = 1;  // the threshold of warm()
};

}  // namespace weir::bench
