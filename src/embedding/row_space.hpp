// row_space.hpp: the memory in which a table's rows lie, host memory or a GPU's, and the work on rows there; the part of a table
// that one rank holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <weir/embedding.hpp>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/state.hpp"
#include "base/threads.hpp"
#include "communicator/caller_memory.hpp"
#include "embedding/batch.hpp"
#include "embedding/optimizer.hpp"
#include "embedding/partition.hpp"

namespace weir::embedding {

/// The work that one part of a table gives to its space: the lists that the work uses, and waiting for it. In host memory there is
/// nothing to copy or to wait for.
class RowWork {
 public:
  virtual ~RowWork() = default;
  /// co_await: waits until there is room for new lists. Earlier lists become invalid.
  virtual task<void> cleared(Channel /*channel*/) { co_return; }
  /// Copies `list` to where the space finds it; the result is valid until cleared() or done(). The entries must fit into
  /// make_work()'s.
  virtual const std::uint32_t* put(std::span<const std::uint32_t> list) { return list.data(); }
  /// co_await: waits until all work given to the space so far, by any RowWork, is done. Earlier lists become invalid.
  virtual task<void> done(Channel /*channel*/) { co_return; }
};

/// Arrays of float32 in one memory space, and work on them in the order of calls: done before they return in host memory, later on
/// a GPU. Lists are those of a RowWork of this space. Rows are `columns` elements, one after another unless there is a stride.
class RowSpace {
 public:
  virtual ~RowSpace() = default;

  /// Returns uninitialised memory that lives as long as the space. Throws Error(WEIR_ERR_MEMORY).
  [[nodiscard]] virtual float* take_rows(std::int64_t elements) = 0;
  /// Returns the same for messages, which the host and the network use, too.
  [[nodiscard]] virtual std::byte* take_message(std::int64_t bytes) = 0;
  /// Returns the bytes taken.
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  /// Returns whether it is host memory: the host can then read rows itself, and rows that travel as they are can be read any number
  /// of times where they arrive.
  [[nodiscard]] virtual bool is_host() const = 0;

  /// Makes a RowWork with room for lists of that many entries in all.
  [[nodiscard]] virtual std::unique_ptr<RowWork> make_work(std::int64_t entries) = 0;
  [[nodiscard]] virtual std::unique_ptr<detail::CallerMemory> make_caller() = 0;
  /// Begins to copy a call's ids to where the host can read them, and makes `ids` point there, or says in it what is wrong. Returns
  /// nullptr if they can be read at once, else when they can. For one call at a time: until that is reached (for ever if it never
  /// is), ask for nothing else and keep the space.
  [[nodiscard]] virtual Completion* bring_ids(CallIds& ids, void* stream) = 0;

  /// Copies between an array here and one in host memory, in either direction. Returns when it is done, after all work given
  /// before.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill(const InitialValues& values, float* out) = 0;
  virtual void fill_zero(float* out, std::int64_t count) = 0;
  /// Packs the elements from x on of each of `rows`, as they travel, one row after another.
  virtual void pack(const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count, std::int64_t columns,
                    WireValues values, std::byte* out) = 0;
  virtual void unpack(WireValues values, const std::byte* in, std::int64_t count, float* out) = 0;
  /// Does what kernels::gather_rows does.
  virtual void gather(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* out,
                      std::int64_t out_stride) = 0;
  /// Does what kernels::coalesce_rows does. Ignores the keys.
  virtual void coalesce(const float* x, std::int64_t columns, const GroupLists& groups, float* out) = 0;
  /// Steps the row of each group's key by the sum of the group's members among the rows of x.
  virtual void step(const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
                    const GroupLists& groups) = 0;
  /// Sets to[rows[i]] = row i of x. No row occurs twice.
  virtual void scatter(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) = 0;
};

/// Makes a space in host memory. Rows that are stepped have at most `width` columns. The same bits on any number of threads.
[[nodiscard]] std::unique_ptr<RowSpace> make_host_rows(std::int64_t width, const Threads& threads);
/// Makes a space in the memory of the calling thread's current GPU; calls look up at most `largest_batch` ids. Throws
/// Error(WEIR_ERR_UNSUPPORTED) without CUDA.
[[nodiscard]] std::unique_ptr<RowSpace> make_device_rows(std::int64_t largest_batch);

/// Values and optimizer's state of one part, row by row. Rows count from the part's first one.
class Slice {
 public:
  /// Allocates the arrays in `space`, which must outlive it, without filling them.
  Slice(const EmbeddingConfig& config, const Partition& partition, int rank, RowSpace& space);
  /// Fills the arrays with the table's initial values (EmbeddingConfig::seed) and zero state.
  void fill(const EmbeddingConfig& config, const Partition& partition, RowSpace& space) const;
  /// Visits what fill() fills.
  void visit_state(StateVisitor& visitor, RowSpace& space, const EmbeddingConfig& config) const;

  [[nodiscard]] const Part& part() const { return part_; }
  /// Returns part().rows x part().columns elements.
  [[nodiscard]] float* values() const { return state_.values; }
  [[nodiscard]] const RowState& state() const { return state_; }

 private:
  Part part_;
  RowState state_;
};

}  // namespace weir::embedding
