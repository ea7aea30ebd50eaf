// weir/embedding.hpp: embedding tables that are trained across ranks (EmbRace, ICPP 2022): rows travel by AlltoAll, duplicates are
// summed before anything is sent, and rows that the next batch needs travel first.
//
//   weir::EmbeddingTable table(comm, {.rows = 32000, .width = 512, .largest_batch = 4096});
//   table.lookup(ids, vectors).wait();            // ids.size() x width floats
//   table.prefetch(next_ids);                     // what the next batch will look up: travels while this one is computed
//   ...                                           // forward and backward pass, polling an operation now and then, unless there
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

/// One table. In flight at once: one prefetch, one lookup, one update. What a call ends with is thrown by its operation.
/// The next lookup is refused (WEIR_ERR_BUSY) until somebody on this rank has waited for the last one. Nobody needs to wait
/// for prefetches and updates: what one ended with that nobody has waited for is thrown by the next call of its kind, which then
/// has not started. Wait on all ranks, or on none. Gradients that are not finite go into the rows as they are.
///
/// In CUDA memory, vectors and gradients are on the table's GPU, and calls take a `stream`, a cudaStream_t. An update reads the
/// gradients after what is on the stream; what is put onto it once update() has returned may overwrite them. A lookup writes the
/// vectors after what is on the stream when it starts; what is put onto the stream after the operation has finished sees them; the
/// stream must live until then. The host does not wait for that: where only the stream's work needs the vectors, nobody does. Ids
/// may be in host memory, and are read at once, or on the table's GPU: the call then waits until its stream has got there, and
/// what other calls have in flight gets on meanwhile. Elsewhere `stream` stays nullptr.
class EmbeddingTable {
 public:
  /// Collective. Allocates everything. Refuses on all ranks when configurations differ or make no sense, or when a node lacks the
  /// memory for its ranks' parts of the table, batches of `largest_batch` ids included.
  EmbeddingTable(const Communicator& comm, const EmbeddingConfig& config);
  EmbeddingTable(EmbeddingTable&&) noexcept = default;
  EmbeddingTable& operator=(EmbeddingTable&&) noexcept = default;
  /// As for plans: finishes calls in flight, since the other ranks wait for them; a lookup then no longer writes its vectors.
  ~EmbeddingTable() = default;

  /// Collective, nonblocking. vectors[i * width ...] = row ids[i] as all earlier updates have left it (rounded as `wire_values`
  /// says, whichever rank holds it; exact where every rank holds all rows). `ids` may be empty and must last only until the call
  /// returns; `vectors`, ids.size() x width elements, must last until the operation has finished. An id outside [0, rows) on any
  /// rank is an error on every rank, which names the id, its position and its rank. After such an error the prefetch is forgotten,
  /// and the previous batch can no longer be updated.
  Operation lookup(std::span<const std::int64_t> ids, std::span<float> vectors, void* stream = nullptr);
  Operation lookup(std::span<const std::int32_t> ids, std::span<float> vectors, void* stream = nullptr);

  /// Collective, nonblocking. Says what the next lookup will ask for, so that its ids travel now, and the update in between knows
  /// which rows are needed first. A lookup that asks for something else is still correct, but slower. The next lookup uses the
  /// prefetch or forgets it. Ranks may call prefetch before or after their other calls, in different orders: a lookup uses a
  /// prefetch that was the last one on every rank, and waits until all ranks have made it.
  Operation prefetch(std::span<const std::int64_t> ids, void* stream = nullptr);
  Operation prefetch(std::span<const std::int32_t> ids, void* stream = nullptr);

  /// Collective, nonblocking, once per lookup. `gradients` are those of the vectors of the last lookup, ids x width elements. They
  /// must last only until the call returns, which sums the gradients of equal ids, in the order of the batch. Contributions of
  /// ranks are added in rank order (`dense_allreduce`: in that of a ring), so the outcome depends on nothing but the batches. Waits
  /// for the previous update if it is still in flight. Nobody needs to wait for the operation: where
  /// this rank's gradients are wrong, the call itself throws at once, and the operations of the other ranks throw the same error.
  Operation update(std::span<const float> gradients, void* stream = nullptr);

  /// For all later updates. Equal on all ranks.
  void set_learning_rate(double learning_rate);

  /// Collective, blocking. Each rank gives its own range of rows, which may be empty. Waits for the update in flight. Values are
  /// exact; they go to host memory, wherever the table is.
  void export_rows(std::int64_t first, std::int64_t count, std::span<float> values);
  /// Collective, blocking. Replaces rows by `values`, which are in host memory; where ranges of ranks overlap, the highest rank's
  /// values win. The optimizer's state stays as it is.
  void import_rows(std::int64_t first, std::int64_t count, std::span<const float> values);

  [[nodiscard]] const EmbeddingStatistics& statistics() const;
  [[nodiscard]] const EmbeddingConfig& config() const;
  /// Bytes this table holds on this rank.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// As AllreducePlan's: this rank's rows, its part of the optimizer's state and the counters.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  [[nodiscard]] const std::shared_ptr<detail::EmbeddingState>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::EmbeddingState> state_;
};

/// Every exchange an EmbeddingConfig may name.
[[nodiscard]] std::vector<ExchangeInfo> exchanges();

}  // namespace weir
#pragma GCC visibility pop

#endif
