// row_space.hpp: where the rows of a table lie, and what is done to rows there: in host memory, or in that of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <weir/embedding.hpp>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/threads.hpp"
#include "communicator/input_error.hpp"
#include "embedding/group_lists.hpp"
#include "embedding/initial_values.hpp"
#include "embedding/optimizer.hpp"

namespace weir::embedding {

/// The work that one part of a table gives to its space: the lists that the work goes by, and waiting for it.
class RowWork {
 public:
  virtual ~RowWork() = default;
  /// co_await: until there is room for new lists; those from before are forgotten.
  virtual task<void> cleared(Channel channel) = 0;
  /// Where the space finds `list`, which stays untouched until it is forgotten. At most as many entries as asked for.
  virtual const std::uint32_t* put(std::span<const std::uint32_t> list) = 0;
  /// co_await: until all work that the space has been given so far, by whomever, is done. Lists from before are forgotten.
  virtual task<void> done(Channel channel) = 0;
};

/// The caller's array and stream in one kind of call.
class RowCaller {
 public:
  virtual ~RowCaller() = default;
  /// What is wrong with them.
  [[nodiscard]] virtual InputError enter(const void* array, void* stream) = 0;
  /// The space's later work comes after what was on the stream at enter(), which found nothing wrong.
  virtual void begin() = 0;
  /// What comes later on the stream comes after the work that the space has been given so far.
  virtual void end() noexcept = 0;
};

/// Work that the space is given on the caller's array: however that ends, the caller's stream comes after what has been given.
class CallerWork {
 public:
  explicit CallerWork(RowCaller& caller) : caller_(caller) { caller_.begin(); }
  CallerWork(const CallerWork&) = delete;
  CallerWork& operator=(const CallerWork&) = delete;
  ~CallerWork() { caller_.end(); }

 private:
  RowCaller& caller_;
};

/// Ids of a call, where the host can read them once `ready` has happened (at once where it is null).
struct HostIds {
  const void* data;
  Completion* ready = nullptr;
  InputError input_error = InputError::none;
};

/// Arrays of float32 in one memory space, and work on them, which is done in the order of calls: in host memory before they
/// return, on a GPU later. Lists are those of a RowWork of this space. Rows are `columns` elements, one after another unless a
/// stride is given.
class RowSpace {
 public:
  virtual ~RowSpace() = default;

  /// Uninitialised memory, for as long as the space is. Throws Error(WEIR_ERR_MEMORY).
  [[nodiscard]] virtual float* take_rows(std::int64_t elements) = 0;
  /// The same, for messages: the host and the network use it, too.
  [[nodiscard]] virtual std::byte* take_message(std::int64_t bytes) = 0;
  /// Bytes taken.
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  /// Whether it is host memory: the host itself can read rows, and rows that travel as they are can be read where they arrive as
  /// often as one likes.
  [[nodiscard]] virtual bool is_host() const = 0;

  /// With room for lists of so many entries in all.
  [[nodiscard]] virtual std::unique_ptr<RowWork> make_work(std::int64_t entries) = 0;
  [[nodiscard]] virtual std::unique_ptr<RowCaller> make_caller() = 0;
  /// Begins to bring a call's ids to where the host can read them. One call's at a time: until `ready` has happened, or for ever if
  /// it never does, nothing else is asked for and the space stays.
  [[nodiscard]] virtual HostIds bring_ids(const void* ids, std::int64_t bytes, void* stream) = 0;

  /// Between an array here and one in host memory, either way; done when it returns, after all work given before.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill(const InitialValues& values, float* out) = 0;
  virtual void fill_zero(float* out, std::int64_t count) = 0;
  /// The elements from x on of rows[i], as they travel, one row after another.
  virtual void pack(const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count, std::int64_t columns,
                    WireValues values, std::byte* out) = 0;
  virtual void unpack(WireValues values, const std::byte* in, std::int64_t count, float* out) = 0;
  /// As kernels::gather_rows.
  virtual void gather(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* out,
                      std::int64_t out_stride) = 0;
  /// As kernels::coalesce_rows. The keys are not looked at.
  virtual void coalesce(const float* x, std::int64_t columns, const GroupLists& groups, float* out) = 0;
  /// Steps the row of each group's key by the sum of the group's members among the rows of x.
  virtual void step(const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
                    const GroupLists& groups) = 0;
  /// to[rows[i]] = row i of x. No row twice.
  virtual void scatter(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) = 0;
};

/// In host memory. Rows that are stepped have at most `width` columns. The same bits on any number of threads.
[[nodiscard]] std::unique_ptr<RowSpace> make_host_rows(std::int64_t width, const Threads& threads);
/// In the memory of the calling thread's current GPU; calls look up at most `largest_batch` ids. Throws
/// Error(WEIR_ERR_UNSUPPORTED) where there is no CUDA.
[[nodiscard]] std::unique_ptr<RowSpace> make_device_rows(std::int64_t largest_batch);

}  // namespace weir::embedding
