// weir/checkpoint.hpp: files from which a run goes on. One HDF5 file holds what plans, tables and schedules keep from one iteration
// to the next, and the caller's own arrays. Every rank writes its part of it.
//
//   weir::Checkpoint checkpoint(comm, {.folder = "checkpoints"});
//   checkpoint.add("gradient", plan);
//   checkpoint.add_replicated("weights", weights);
//   std::int64_t step = checkpoint.restore().value_or(0);        // from the newest file, whatever number of ranks has written it
//   for (; step < steps; ++step) {
//     if (step % 100 == 0) checkpoint.save(step);                // returns at once; the file is written during the next steps
//     ...
//   }
//   checkpoint.save(step).wait();
//
// Thread-safety, collective calls and errors are as for plans (weir/weir.hpp). docs/checkpoints.md has the format of the files.
#ifndef WEIR_CHECKPOINT_HPP
#define WEIR_CHECKPOINT_HPP

#include <optional>
#include <weir/embedding.hpp>
#include <weir/fusion.hpp>
#include <weir/optim.hpp>
#include <weir/schedule.hpp>
#include <weir/sparse_adam.hpp>
#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class CheckpointState;
}

/// Element type that a checkpoint has for T; bytes for any type without one.
template <class T>
inline constexpr ElementType element_type_of = ElementType::uint8;
template <>
inline constexpr ElementType element_type_of<float> = ElementType::float32;
template <>
inline constexpr ElementType element_type_of<double> = ElementType::float64;
template <>
inline constexpr ElementType element_type_of<std::int32_t> = ElementType::int32;
template <>
inline constexpr ElementType element_type_of<std::int64_t> = ElementType::int64;

/// Checkpoints of one run, in one folder. Everything that is added is saved and restored together, under names that are the same on
/// all ranks. One save is in flight at a time.
///
/// Weir writes a file under another name, and gives it its own, checkpoint-STEP.h5, once all ranks' parts are on the disk. Whatever
/// stops a run, a file of that name is whole. A checksum (XXH3, 64 bits) covers every byte of it, and restore() verifies it.
class Checkpoint {
 public:
  /// Collective. Looks at the folder, makes it if only its last part is missing, and removes what an interrupted save has left.
  /// Throws on all ranks if configurations differ, if the folder cannot be used, or if it belongs to another run.
  Checkpoint(const Communicator& comm, const CheckpointConfig& config);
  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;
  /// Finishes a save in flight, since the other ranks wait for it. Not collective otherwise.
  ~Checkpoint() = default;

  /// Adds an object that is to be saved and restored. Not collective, but all ranks add the same objects, in any order; save() and
  /// restore() report it if they did not. Names, including those of values, have 1 to 128 letters, digits, '_', '-' and '.', do not
  /// begin with '.', and are all different. Plans, tables, fused tensors, LayerOptimizers and schedules come from the checkpoint's
  /// communicator. All except schedules may be destroyed before the checkpoint, after which save() throws. Throws
  /// Error(WEIR_ERR_BUSY) while a save is in flight, and Error(WEIR_ERR_ARGUMENT) if name or object break these rules.
  void add(std::string_view name, AllreducePlan& plan);
  void add(std::string_view name, EmbeddingTable& table);
  /// Adds fused tensors, between two of their iterations.
  void add(std::string_view name, FusedAllreduce& fused);
  /// Adds an optimizer. It is saved as one whole, whether its update is divided or not. The restored run may divide it in another
  /// way.
  void add(std::string_view name, LayerOptimizer& optimizer);
  /// Adds a SparseAdam, between two of its steps. All ranks have the same, so it is saved once.
  void add(std::string_view name, SparseAdam& adam);
  /// Adds a schedule: restore() checks that a restored run has the same blocks. The schedule must outlive the checkpoint's last
  /// save and restore.
  void add(std::string_view name, const StepSchedule& schedule);
  /// Adds a caller's array in host memory that is the same on all ranks. The array must outlive the checkpoint's last save and
  /// restore. T is float, double, std::int32_t, std::int64_t, or std::uint8_t for bytes.
  template <class T>
  void add_replicated(std::string_view name, std::span<T> array) {
    add_array(name, array.data(), element_type_of<T>, Distribution::replicated, static_cast<std::int64_t>(array.size()));
  }
  /// Adds this rank's elements [first, first + array.size()) of a whole of `total`.
  template <class T>
  void add_block(std::string_view name, std::span<T> array, std::int64_t first, std::int64_t total) {
    add_array(name, array.data(), element_type_of<T>, Distribution::block, static_cast<std::int64_t>(array.size()), first, total);
  }
  /// Adds an array of this rank's own.
  template <class T>
  void add_local(std::string_view name, std::span<T> array) {
    add_array(name, array.data(), element_type_of<T>, Distribution::local, static_cast<std::int64_t>(array.size()));
  }
  /// Adds `count` elements of a type that is known at run time. `first` and `total` are for Distribution::block.
  void add_array(std::string_view name, void* data, ElementType type, Distribution distribution, std::int64_t count,
                 std::int64_t first = 0, std::int64_t total = -1);

  /// Sets a value that is saved with everything. The file gets rank 0's value.
  void set(std::string_view name, std::int64_t value);
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string_view value);
  /// Returns a value as set or restored last. Throws Error(WEIR_ERR_ARGUMENT) if no value has that name and type.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;

  /// Collective, nonblocking. Takes a snapshot of everything that was added, and returns; the caller may go on with all of it at
  /// once. A thread of this rank writes the snapshot. test() and wait() of any operation of the communicator, or its progress
  /// thread, advance what ranks must tell each other. The file is in its place once the operation has finished. The caller need not
  /// wait for it, because the next save does. If a rank has not heard that this save failed, the next save fails with its error on
  /// all ranks.
  ///
  /// Everything added must be at the same iteration on all ranks, and none of it may be in flight. `step`, at least 0, names the
  /// file; a file of the same step is replaced. Files beyond the `keep` newest are removed.
  ///
  /// A save that fails, for example because the disk is full, throws the same Error on all ranks: WEIR_ERR_FILE, with the file and
  /// the reason. Earlier files stay whole, and the run can go on and save again. The snapshot takes as much memory as what is saved
  /// on this rank (CheckpointStatistics::snapshot_bytes), and is kept for the next save.
  Operation save(std::int64_t step);

  /// Collective, blocking. Restores everything that was added from the newest file that is whole. Returns the step of that file, or
  /// nothing if the folder has no file. If a newer file is damaged, the log warns of it; with CheckpointConfig::strict, that is an
  /// error. With as many ranks on the same nodes as have saved, the run goes on bit for bit as if it had not stopped.
  ///
  /// With another number of ranks or another node layout, what ranks hold is divided anew:
  /// - Residuals keep their sum over all ranks, to one rounding per element. With more ranks than before, each old rank's residual
  ///   goes to one of the new ranks, and the others begin with zero.
  /// - Tables and optimizers' state are restored exactly.
  /// - Thresholds and boundaries go on from what was saved. Plans that choose their algorithm forget what trials have measured.
  /// - Arrays are restored as their Distribution says.
  ///
  /// Throws the same Error on all ranks, and leaves everything as it was, if no file is whole (WEIR_ERR_FILE, about the newest) or
  /// if the file does not fit (WEIR_ERR_MISMATCH). The text names the file, the part of it, and the reason.
  std::optional<std::int64_t> restore();
  /// Does the same from the file of `step`.
  void restore_step(std::int64_t step);
  /// Not collective. Returns the steps of the files in the folder, in ascending order.
  [[nodiscard]] std::vector<std::int64_t> steps() const;

  /// Catches a signal (SIGTERM, SIGUSR1, ...) from now on, for all checkpoints of the process. The signal no longer ends the
  /// process; instead, stop_requested() says that it has come. In a child of fork() the signal does what it did before. Throws
  /// Error(WEIR_ERR_ARGUMENT) for a signal that cannot be caught.
  static void catch_signal(int signal);
  /// Collective, blocking: takes as long as a barrier. Returns whether any rank has received a signal that catch_signal has named,
  /// since the process began: then it is time to save and end.
  [[nodiscard]] bool stop_requested();

  /// Returns what the last save and the last restore did on this rank.
  [[nodiscard]] const CheckpointStatistics& statistics() const;
  /// Returns the configuration in force.
  [[nodiscard]] const CheckpointConfig& config() const;
  [[nodiscard]] const std::shared_ptr<detail::CheckpointState>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::CheckpointState> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
