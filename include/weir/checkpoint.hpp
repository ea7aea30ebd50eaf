// weir/checkpoint.hpp: files from which a run goes on: what plans, tables and schedules keep from one iteration to the next, and
// the caller's own arrays, in one HDF5 file that every rank writes its part of.
//
//   weir::Checkpoint checkpoint(comm, {.folder = "checkpoints"});
//   checkpoint.add("gradient", plan);
//   checkpoint.add_replicated("weights", weights);
//   std::int64_t step = checkpoint.restore().value_or(0);        // from the newest file, whatever number of ranks has written it
//   for (; step < steps; ++step) {
//     if (step % 100 == 0) checkpoint.save(step);                // returns at once; the file is written behind the next steps
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

/// Checkpoints of one run, in one folder. What is added is saved and restored together, under names that are the same on all ranks.
/// One save is in flight at a time.
///
/// A file is written aside and gets its name, checkpoint-STEP.h5, once all ranks' parts are on the disk: whatever stops a run, a
/// file of that name is whole. Every byte of it is under a checksum (XXH3, 64 bits), which restore() verifies.
class Checkpoint {
 public:
  /// Collective. Looks at the folder, makes it where only its last part is missing, and removes what an interrupted save has left.
  /// Throws on all ranks when configurations differ, when the folder cannot be used or belongs to another run.
  Checkpoint(const Communicator& comm, const CheckpointConfig& config);
  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;
  /// Finishes a save in flight, since the other ranks wait for it. Not collective otherwise.
  ~Checkpoint() = default;

  /// Adds what is to be saved. Not collective, but all ranks add the same, in any order; save() and restore() say where they did
  /// not. Names, those of values too, are 1 to 128 letters, digits, '_', '-' and '.', do not begin with '.', and are all different.
  /// Not while a save is in flight: WEIR_ERR_BUSY. Plans, tables, fused tensors, LayerOptimizers and schedules come from the
  /// checkpoint's communicator; all but schedules may be destroyed before it, after which save() throws. Throws
  /// Error(WEIR_ERR_ARGUMENT).
  void add(std::string_view name, AllreducePlan& plan);
  void add(std::string_view name, EmbeddingTable& table);
  /// Between iterations of it.
  void add(std::string_view name, FusedAllreduce& fused);
  /// Saved as one whole, whether its update is divided or not: that may change, too.
  void add(std::string_view name, LayerOptimizer& optimizer);
  /// Between steps. All ranks have the same: it is saved once.
  void add(std::string_view name, SparseAdam& adam);
  /// Checks that a restored run has the same blocks. The schedule outlives the checkpoint's last save and restore.
  void add(std::string_view name, const StepSchedule& schedule);
  /// The caller's own array, in host memory; it outlives the checkpoint's last save and restore. T: float, double, std::int32_t,
  /// std::int64_t, or std::uint8_t for bytes.
  template <class T>
  void add_replicated(std::string_view name, std::span<T> array) {
    add_array(name, array.data(), element_type_of<T>, Distribution::replicated, static_cast<std::int64_t>(array.size()));
  }
  /// This rank's elements [first, first + array.size()) of a whole of `total`.
  template <class T>
  void add_block(std::string_view name, std::span<T> array, std::int64_t first, std::int64_t total) {
    add_array(name, array.data(), element_type_of<T>, Distribution::block, static_cast<std::int64_t>(array.size()), first, total);
  }
  template <class T>
  void add_local(std::string_view name, std::span<T> array) {
    add_array(name, array.data(), element_type_of<T>, Distribution::local, static_cast<std::int64_t>(array.size()));
  }
  /// The same for `count` elements of a type that is known at run time. `first` and `total` are for Distribution::block.
  void add_array(std::string_view name, void* data, ElementType type, Distribution distribution, std::int64_t count,
                 std::int64_t first = 0, std::int64_t total = -1);

  /// A value that is saved with everything: rank 0's goes into the file.
  void set(std::string_view name, std::int64_t value);
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string_view value);
  /// Returns a value as set last, or as restored. Throws Error(WEIR_ERR_ARGUMENT) where no value has that name and type.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;

  /// Collective, nonblocking. Takes a snapshot of everything that was added, and returns; the caller may go on with all of it at
  /// once. A thread of this rank writes; test() and wait() of any operation of the communicator, or its progress thread, advance
  /// what ranks must tell each other. The file is in its place once the operation has finished. Nobody needs to wait: the next save
  /// waits for this one. Where a rank has not heard that this one failed, the next one fails with its error on all ranks.
  ///
  /// Everything added must be at the same iteration on all ranks, and nothing of it in flight. `step`, at least 0, names the file;
  /// one of the same step is replaced. Files beyond the `keep` newest are removed.
  ///
  /// A save that fails, because the disk is full say, throws the same Error on all ranks (WEIR_ERR_FILE, naming the file and the
  /// reason); earlier files are whole, and the run can go on and save again. Memory: the snapshot is as large as what is saved on
  /// this rank (CheckpointStatistics::snapshot_bytes), and kept for the next one.
  Operation save(std::int64_t step);

  /// Collective, blocking. Restores everything that was added from the newest file that is whole, and returns its step; nothing
  /// where the folder has none. Where a newer one is damaged, the log warns of it, or, with CheckpointConfig::strict, it is an
  /// error. With as many ranks on the same nodes as have saved, the run goes on bit for bit as if it had not stopped.
  ///
  /// With another number of ranks or another node layout, what ranks hold is divided anew. Residuals: their sum over all ranks
  /// stays what it was, to one rounding per element; with more ranks than before, each of the old ones' residuals goes to one of
  /// the new, and the others begin with zero. Tables and optimizers' state: exactly. Thresholds and boundaries go on from what
  /// was saved; of plans that choose their algorithm, what trials have measured is forgotten. Arrays: as their Distribution says.
  ///
  /// Throws the same Error on all ranks, and leaves everything as it was, where no file is whole (WEIR_ERR_FILE, of the newest), or
  /// the file does not fit (WEIR_ERR_MISMATCH), naming the file, what in it, and why.
  std::optional<std::int64_t> restore();
  /// The same from the file of `step`.
  void restore_step(std::int64_t step);
  /// Not collective. Steps of the files in the folder, ascending.
  [[nodiscard]] std::vector<std::int64_t> steps() const;

  /// From now on this signal (SIGTERM, SIGUSR1, ...) does not end the process: stop_requested() says that it has come. For all
  /// checkpoints of the process. In a child of fork() the signal does what it did before. Throws Error(WEIR_ERR_ARGUMENT) for one
  /// that cannot be caught.
  static void catch_signal(int signal);
  /// Collective, blocking: it takes as long as a barrier. Whether any rank has received a signal that catch_signal has named, since
  /// the process began: time to save and end.
  [[nodiscard]] bool stop_requested();

  [[nodiscard]] const CheckpointStatistics& statistics() const;
  [[nodiscard]] const CheckpointConfig& config() const;
  [[nodiscard]] const std::shared_ptr<detail::CheckpointState>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::CheckpointState> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
