// weir/fusion.hpp: tensor fusion: reduces the gradients of a whole model while back-propagation brings them in, with sparsification
// ahead of fusion (SAFusion).
//
//   std::vector<weir::FusedTensor> tensors = {{.name = "conv1.weight", .count = 9408}, ...};   // in the order of the forward pass
//   weir::FusedAllreduce fused(comm, {.density = 0.01}, tensors);
//   for (each step) {
//     ...backward:  fused.ready(i, gradients[i]);    // in whatever order they come
//     fused.wait_all();                              // the gradients are the averaged sparse updates
//   }
//
// If the next forward pass should begin before everything has arrived, call wait(i) before layer i needs its update, and wait_all()
// at the end of that pass.
#ifndef WEIR_FUSION_HPP
#define WEIR_FUSION_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class FusedImpl;
}

/// The gradients of one model. The library decides which of them travel together (FusionScheme).
///
/// An iteration has two parts. First the caller hands in gradients with ready(), each tensor once, in any order, which may differ
/// between ranks. Then it asks for updates with wait(), test() or wait_all(). From the first of these calls on, the iteration takes
/// no more gradients, and optional tensors that did not come contribute nothing. A wait before the first ready() of an iteration is
/// an error, unless all tensors are optional. wait_all() ends the iteration: every rank calls it before its next ready(). With
/// several objects, every rank ends their iterations in the same order.
///
/// ready() compensates and selects, and starts the exchange of each buffer that is full. Exchanges advance in the calls of the
/// communicator, including ready(), and, with WEIR_PROGRESS_THREAD, in a thread of this rank.
///
/// A gradient belongs to the library from ready() until wait() for its tensor, or wait_all(), has returned. It then holds the
/// update. The update of a sparse tensor is what was delivered, and zero elsewhere. Every tensor needs memory of its own (hand in
/// tied weights once), and no other run may use it meanwhile.
///
/// Errors. A mistake of one rank in an iteration (a tensor that is ready twice, or missing, or of another size) ends the iteration
/// on every rank: wait() of that buffer's tensors, or wait_all(), throws the same Error on all ranks, which names the tensor and
/// the rank. A wait() that throws has ended the iteration: until the next ready() further waits return at once, and wait_all() may
/// be left out. Buffers without an error are delivered. With `ahead`, whose buffers hold different tensors on different ranks, no
/// sparse tensor is delivered. The next iteration is not affected. A run that broke off (timeout, transport error) breaks the
/// object, as it does a plan.
///
/// The update is the same on all ranks. With a residual nothing is lost, up to rounding. For every tensor:
///
///   sum over ranks (gradient + old residual) = sum over ranks (new residual) + sum delivered
///
/// The same gradients in the same order give the same bits, with one exception: `ahead_inter_intra` and `ahead_fitted` divide by
/// measured times, and which entries gtopk, oktopk and hi_oktopk deliver depends on the division. topk_allgather, hitopk and
/// gaussiank deliver the same bits of sparse tensors whatever the division, and so does topk_dsa if values are not rounded for
/// messages. Dense tensors, and `ahead`, may be rounded differently.
///
/// Thread-safety: as for plans.
class FusedAllreduce {
 public:
  /// Collective. Allocates everything. `tensors` are in the order of the forward pass. Throws on all ranks, naming the tensor, if
  /// descriptions are wrong or differ.
  FusedAllreduce(const Communicator& comm, const FusionConfig& config, std::span<const FusedTensor> tensors);
  FusedAllreduce(FusedAllreduce&&) noexcept = default;
  FusedAllreduce& operator=(FusedAllreduce&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes an iteration that this rank has begun, since
  /// the other ranks wait for it; the iteration ends with an error there. Leaves gradients alone.
  ~FusedAllreduce() = default;

  /// Hands in the gradient of tensors[tensor], which is complete. Every rank calls it once for every tensor that is not optional,
  /// before its first wait. Until the update is in it, the array belongs to the object: a plan that is started on it throws, on all
  /// ranks. Throws only errors that break the object. If something is wrong with the call, all ranks get the error in their waits.
  void ready(int tensor, std::span<float> gradient);
  void ready(int tensor, std::span<double> gradient);
  /// Says that this rank has no gradient for an optional tensor in this iteration (unused parameters). The rank contributes
  /// nothing, and its residual stays. `gradient` gets the update that the other ranks make. A rank that leaves an optional tensor
  /// out altogether contributes nothing either, and does not get the update.
  void skip(int tensor, std::span<float> gradient);
  void skip(int tensor, std::span<double> gradient);
  /// Does the same on raw memory of the object's type.
  void ready_raw(int tensor, void* gradient, std::int64_t count);
  void skip_raw(int tensor, void* gradient, std::int64_t count);
  /// Makes progress on everything in flight. Meant for callers that compute for long between two gradients.
  void progress();
  /// Makes progress. Returns true once the update of this tensor is in its gradient. Ends the part of the iteration that takes
  /// gradients. If the tensor's buffer had an error, waits for the other ranks to end the iteration, as wait() does, and throws.
  bool test(int tensor);
  /// Waits until the update of this tensor is in its gradient.
  void wait(int tensor);
  /// Tests for at most `seconds`, 0 or more, and at least once. Returns as test().
  bool wait_for(int tensor, double seconds);
  /// Waits until all updates are there, and all ranks have ended the iteration.
  void wait_all();

  [[nodiscard]] int size() const;  ///< number of tensors
  /// Returns the place of a name in the order of the forward pass. Throws Error(WEIR_ERR_ARGUMENT) for an unknown name, and names
  /// the closest one. The functions below throw it for a number out of range.
  [[nodiscard]] int tensor(std::string_view name) const;
  /// Returns the description of a tensor.
  [[nodiscard]] const FusedTensor& description(int tensor) const;
  /// Returns the number of the buffer that the tensor travels in at present. Buffers are numbered in the order in which they are
  /// expected to start; tensors of one buffer travel together. Returns -1 for the sparse tensors of `ahead`, since each rank
  /// decides as gradients come.
  [[nodiscard]] int buffer_of(int tensor) const;
  /// Returns what error feedback keeps of this tensor on this rank; empty without error feedback and for dense tensors. Throws
  /// Error(WEIR_ERR_BUSY) within an iteration, as do the functions of the state.
  template <class T>
  [[nodiscard]] std::span<const T> residual(int tensor) const;

  [[nodiscard]] const FusionStatistics& statistics() const;  ///< statistics of the last iteration that has ended
  /// Returns the configuration in force; `algorithm` and `error_feedback` are what automatic choice stands for.
  [[nodiscard]] const FusionConfig& config() const;
  /// Returns, as text, which buffers there are and why.
  [[nodiscard]] std::string explanation() const;
  /// Returns the number of bytes that this object holds on this rank, besides the caller's gradients.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Same as AllreducePlan::state_bytes, save_state and restore_state. Residuals belong to tensors, by name. A state can be
  /// restored to an object of the same tensors, buffers, scheme and algorithm, which has error feedback if the saved one had it,
  /// and only then.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  /// Forgets residuals, thresholds and iteration count; the division into buffers stays. Sends nothing, but every rank must call it
  /// before the same iteration.
  void reset();
  /// Does the same as AllreducePlan::scale_residual, for all tensors. Throws Error(WEIR_ERR_BUSY) within an iteration.
  void scale_residuals(double factor);
  [[nodiscard]] const std::shared_ptr<detail::FusedImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::FusedImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
