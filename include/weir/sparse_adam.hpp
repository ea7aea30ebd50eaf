// weir/sparse_adam.hpp: Adam for the sparse updates of plans, in time proportional to their entries (EmbRace section 5.7).
//
//   weir::AllreducePlan plan(comm, {.count = n, .density = 0.01});
//   weir::SparseAdam adam({.count = n});
//   plan.run_sparse(gradient);
//   adam.step(plan.sparse_result<float>(), weights, 1e-3);      // every rank: the same weights, bit for bit
#ifndef WEIR_SPARSE_ADAM_HPP
#define WEIR_SPARSE_ADAM_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class SparseAdamState;
}

/// Adam for sparse updates. In step t it computes, for each entry g of the update, whose weight had its last entry in step s:
///
///   m = beta1^(t - s) m + (1 - beta1) g;  v = beta2^(t - s) v + (1 - beta2) g^2;  w -= learning_rate m' / (sqrt(v') + epsilon)
///
/// m' and v' are m and v divided by 1 - beta1^t and 1 - beta2^t. Up to rounding, moments are thus those of dense Adam with a
/// gradient that is 0 wherever updates have no entry; they are only brought up to date when they are needed. Weights that an update
/// does not touch stand still, while dense Adam moves them on by what is left of m. With `exact` they move, too: that is dense
/// Adam, and takes its time, in proportion to config().count.
///
/// From one update of a weight to the next, dense Adam moves it by at most learning_rate c q / (1 - q) more, with q = beta1 /
/// sqrt(beta2) and c = (1 - beta1) / sqrt((1 - beta2) (1 - q^2)), as long as q < 1 and 1 - beta2 <= (1 - beta1)^2. With the default
/// betas and the worst gradients, that is 66 learning rates; if there was only one gradient so far, it is 29.
///
/// Sends nothing. Ranks that are given the same updates, as plans deliver them, keep the same weights and the same state, bit for
/// bit. Everything is in host memory, in float32. Values that are not finite go into weights as they are; plans refuse them, unless
/// told otherwise. Thread-safety: as for std::vector; different objects have nothing in common.
class SparseAdam {
 public:
  /// Allocates everything: 12 bytes per weight, with `exact` 16. Throws Error(WEIR_ERR_ARGUMENT) and Error(WEIR_ERR_MEMORY).
  explicit SparseAdam(const SparseAdamConfig& config);
  SparseAdam(SparseAdam&&) noexcept;
  SparseAdam& operator=(SparseAdam&&) noexcept;
  ~SparseAdam();

  /// Makes one step. The indices of `update` ascend, none twice; `weights` has config().count elements. Throws
  /// Error(WEIR_ERR_ARGUMENT) if not; nothing has changed then.
  void step(const SparseView<float>& update, std::span<float> weights, double learning_rate);
  /// Takes one part of an update that comes in several, for example its prior rows. No index is in two parts. step() with the last
  /// part ends the step and counts it, so that all parts are of the same step t. With `exact`, weights move only then.
  void step_part(const SparseView<float>& part, std::span<float> weights, double learning_rate);

  /// Returns the number of steps that have ended.
  [[nodiscard]] std::int64_t steps() const;
  /// Returns the configuration in force.
  [[nodiscard]] const SparseAdamConfig& config() const;
  /// Returns the number of bytes that this object holds, besides the caller's arrays.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Same as AllreducePlan::state_bytes, save_state and restore_state. Throws Error(WEIR_ERR_BUSY) between the parts of a step. The
  /// state is the same on all ranks, and fits an object of the same `count` and `exact`, on any number of ranks.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  /// Forgets moments, steps, and the parts of a step that has not ended.
  void reset();
  [[nodiscard]] const std::shared_ptr<detail::SparseAdamState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::SparseAdamState> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
