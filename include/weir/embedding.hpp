// weir/embedding.hpp: embedding tables that are trained across ranks (EmbRace, ICPP 2022). Rows travel by AlltoAll, duplicates are
// summed before anything is sent, and rows that the next batch needs travel first.
//
//   weir::EmbeddingTable table(comm, {.rows = 32000, .width = 512, .largest_batch = 4096});
//   table.lookup(ids, vectors).wait();            // ids.size() x width floats
//   table.prefetch(next_ids);                     // what the next batch will look up; travels while this one is computed
//   ...                                           // forward and backward pass; test an operation now and then, unless there
//                                                 // is a progress thread (WEIR_PROGRESS_THREAD)
//   table.update(gradients);                      // returns at once; rows of the next batch travel first
//   table.lookup(next_ids, vectors).wait();       // waits for what it needs, not for the rest
//
// Thread-safety, collective calls and errors are as for plans (weir/weir.hpp).
#ifndef WEIR_EMBEDDING_HPP
#define WEIR_EMBEDDING_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class EmbeddingState;
}

/// One table. One prefetch, one lookup and one update may be in flight at once. The operation of a call throws what the call ended
/// with. The next lookup is refused (WEIR_ERR_BUSY) until this rank has waited for the last one. The caller need not wait for
/// prefetches and updates: if one has failed and the caller has not waited for it, the next call of its kind throws its error, and
/// has then not started. Wait on all ranks, or on none. Gradients that are not finite go into the rows as they are.
///
/// In CUDA memory, vectors and gradients are on the table's GPU, and calls take a `stream`, a cudaStream_t:
/// - An update reads the gradients after the work that is on the stream. Work put onto the stream once update() has returned may
///   overwrite them.
/// - A lookup writes the vectors after the work that is on the stream when it starts. Work put onto the stream after the operation
///   has finished sees them; the stream must live until then. The host does not wait for the vectors; if only the stream's work
///   needs them, no wait is needed.
/// - Ids may be in host memory, and are read at once. They may also be on the table's GPU: the call then waits until its stream has
///   got there, and meanwhile advances what other calls have in flight.
///
/// For tables in host memory, `stream` stays nullptr.
class EmbeddingTable {
 public:
  /// Collective. Allocates everything. Throws on all ranks if configurations differ or make no sense, or if a node lacks the memory
  /// for its ranks' parts of the table, including batches of `largest_batch` ids.
  EmbeddingTable(const Communicator& comm, const EmbeddingConfig& config);
  EmbeddingTable(EmbeddingTable&&) noexcept = default;
  EmbeddingTable& operator=(EmbeddingTable&&) noexcept = default;
  /// Like a plan's destructor, finishes calls in flight, since the other ranks wait for them. A lookup then no longer writes its
  /// vectors.
  ~EmbeddingTable() = default;

  /// Collective, nonblocking. Writes row ids[i] to vectors[i * width ...], as all earlier updates have left it. Rows are rounded as
  /// `wire_values` says, whichever rank holds them; they are exact if every rank holds all rows. `ids` may be empty and must last
  /// only until the call returns. `vectors` has ids.size() x width elements and must last until the operation has finished.
  ///
  /// An id outside [0, rows) on any rank is an error on every rank, which names the id, its position and its rank. After such an
  /// error the prefetch is forgotten, and the previous batch can no longer be updated.
  Operation lookup(std::span<const std::int64_t> ids, std::span<float> vectors, void* stream = nullptr);
  Operation lookup(std::span<const std::int32_t> ids, std::span<float> vectors, void* stream = nullptr);

  /// Collective, nonblocking. Says what the next lookup will ask for. Its ids then travel now, and the update in between knows
  /// which rows are needed first. A lookup that asks for something else is still correct, but slower. The next lookup uses the
  /// prefetch or forgets it.
  ///
  /// Ranks may call prefetch before or after their other calls, in different orders. A lookup uses a prefetch that was the last one
  /// on every rank, and waits until all ranks have made it.
  Operation prefetch(std::span<const std::int64_t> ids, void* stream = nullptr);
  Operation prefetch(std::span<const std::int32_t> ids, void* stream = nullptr);

  /// Collective, nonblocking, once per lookup. `gradients` are those of the vectors of the last lookup, ids x width elements. They
  /// must last only until the call returns, which sums the gradients of equal ids, in the order of the batch. The contributions of
  /// ranks are added in rank order (with `dense_allreduce`, in the order of a ring), so the outcome depends only on the batches.
  /// Waits for the previous update if it is still in flight. The caller need not wait for the operation. If this rank's gradients
  /// are wrong, the call itself throws at once, and the operations of the other ranks throw the same error.
  Operation update(std::span<const float> gradients, void* stream = nullptr);

  /// Sets the learning rate of all later updates. Equal on all ranks.
  void set_learning_rate(double learning_rate);

  /// Collective, blocking. Copies a range of rows to `values`, which are in host memory, wherever the table is. Each rank gives its
  /// own range, which may be empty. The values are exact. Waits for the update in flight.
  void export_rows(std::int64_t first, std::int64_t count, std::span<float> values);
  /// Collective, blocking. Replaces a range of rows by `values`, which are in host memory. If ranges of ranks overlap, the values
  /// of the highest rank win. The optimizer's state stays as it is.
  void import_rows(std::int64_t first, std::int64_t count, std::span<const float> values);

  /// Returns what the last lookup and the last update did on this rank.
  [[nodiscard]] const EmbeddingStatistics& statistics() const;
  /// Returns the configuration in force.
  [[nodiscard]] const EmbeddingConfig& config() const;
  /// Returns the number of bytes that this table holds on this rank.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Same as AllreducePlan::state_bytes, save_state and restore_state. The state has this rank's rows, its part of the optimizer's
  /// state, and the counters.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  [[nodiscard]] const std::shared_ptr<detail::EmbeddingState>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::EmbeddingState> state_;
};

/// Returns every exchange that an EmbeddingConfig may name.
[[nodiscard]] std::vector<ExchangeInfo> exchanges();

}  // namespace weir
#pragma GCC visibility pop

#endif
