// batch.hpp: the rows of one training step: this rank's tokens, and the distinct rows of every rank.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/buffer.hpp"
#include "communicator/input_error.hpp"
#include "embedding/partition.hpp"
#include "embedding/row_groups.hpp"

namespace weir::embedding {

/// What can be wrong with a call. If several things are, the largest is reported.
enum class CallError : std::int32_t {
  none = 0,
  bad_id,
  bad_range,
  too_long,
  wrong_size,
  null_pointer,
  not_ready,
  wrong_memory,
  not_in_host_memory,
  device_failed,
  last = device_failed
};

/// The ids of a call, int32 or int64, and what is wrong with them.
struct CallIds {
  CallIds(std::span<const std::int64_t> ids) : data(ids.data()), count(ids.size()) {}
  CallIds(std::span<const std::int32_t> ids) : data(ids.data()), count(ids.size()), wide(false) {}

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(count * (wide ? 8 : 4)); }
  /// Returns an id; a negative one becomes huge.
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const {
    const std::int64_t id = wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
    return static_cast<std::uint64_t>(id);
  }
  /// Leaves no ids.
  void refuse(CallError error) {
    input_error = error;
    count = 0;
  }

  const void* data;
  std::size_t count;
  bool wide = true;
  CallError input_error = CallError::none;
  InputError memory = InputError::none;  ///< for wrong_memory
};

/// What every rank sends to every other about its call, so that all act the same.
struct CallCard {
  CallError input_error = CallError::none;
  std::int64_t prefetch = 0;  ///< number of the prefetch that gathered this call's batch, as in Batch; 0: no prefetch did
  std::int64_t distinct = 0;
  std::int64_t place = 0, id = 0;        ///< of a bad id; a bad range's first row and count; else the given size and the right one
  InputError memory = InputError::none;  ///< for wrong_memory
  std::int32_t of_ids = 0;               ///< 1: the wrong memory is that of the ids

  /// Records an error unless there is memory of `expected` elements.
  void check_array(const float* data, std::size_t size, std::int64_t expected) {
    if (static_cast<std::int64_t>(size) != expected) {
      input_error = CallError::wrong_size;
      place = static_cast<std::int64_t>(size);
      id = expected;
    } else if (expected > 0 && data == nullptr) {
      input_error = CallError::null_pointer;
    }
  }
  void check_memory(InputError found) {
    if (found == InputError::none) return;
    input_error = CallError::wrong_memory;
    memory = found;
  }
};

/// Which rows of a batch, once it has been split: an update sends prior rows first, see Batch::split.
enum class Rows { all, prior, delayed };

/// Positions of all ranks' distinct rows, in rank order: those of rank r are rows(r). Prior rows come first in each.
class Batch {
 public:
  Batch() = default;
  Batch(std::int64_t table_rows, std::int64_t largest_batch, int ranks);

  /// Takes this rank's tokens. Ids must be in [0, rows). If anything is wrong, the card says so, and the batch is empty.
  [[nodiscard]] CallCard take(const CallIds& ids, const Partition& partition);
  /// Takes `count` rows of the table from `first` on, at most the largest batch.
  [[nodiscard]] CallCard take_range(std::int64_t first, std::int64_t count, const Partition& partition);
  /// Returns whether the batch has these tokens.
  [[nodiscard]] bool holds(const CallIds& ids, const Partition& partition) const;

  /// Gathers every rank's distinct rows on all ranks. `cards` are those exchanged before.
  task<void> gather(Channel channel, std::span<const CallCard> cards);
  /// Returns whether they have been gathered.
  [[nodiscard]] bool gathered() const { return is_gathered_; }

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Returns the positions of this rank's tokens, grouped.
  [[nodiscard]] const RowGroups& groups() const { return groups_; }
  /// Returns, for each token of this rank, the index of its row among the distinct rows, which ascend by position.
  [[nodiscard]] const std::uint32_t* row_of_token() const { return row_of_token_.data(); }
  /// Returns, for each token of this rank, its position.
  [[nodiscard]] const std::uint32_t* position_of_token() const { return positions_.data(); }

  /// Returns the rows of `rank`.
  [[nodiscard]] std::span<const std::uint32_t> rows(int rank, Rows which = Rows::all) const {
    return part({begin(rank), begin(rank) + distinct(rank)}, rank, which);
  }
  /// Returns the rows of this rank, as indices into its distinct rows, which ascend by position.
  [[nodiscard]] std::span<const std::uint32_t> own_rows(Rows which) const {
    return part({own_order_.data(), static_cast<std::size_t>(groups_.count())}, rank_, which);
  }
  /// Returns the number of distinct rows of all ranks, counted per rank.
  [[nodiscard]] std::int64_t total() const { return offset_.back() / 4; }

  /// Makes the rows prior that any rank has in `next`; all rows if `next` is null. Keeps the order within each rank's prior and
  /// other rows. `marks`: one bit per row of the table, all clear before and after.
  void split(const Batch* next, std::uint64_t* marks);

  /// Returns the bytes of memory that the batch takes, this object included.
  [[nodiscard]] std::int64_t memory_bytes() const;

  bool settled = true;            ///< no prefetch is gathering it
  std::exception_ptr broken_off;  ///< the error, if its prefetch has broken off
  std::int64_t prefetch = 0;  ///< number of the last prefetch that gathers or gathered it; counted from 1, the same on all ranks
  TrafficCount prefetch_traffic;  ///< of the last prefetch that has gathered it

 private:
  /// Takes the first `count` of positions_ as tokens.
  [[nodiscard]] CallCard take_positions(std::int64_t count);
  [[nodiscard]] std::span<const std::uint32_t> part(std::span<const std::uint32_t> rows, int rank, Rows which) const {
    if (which == Rows::all) return rows;
    const auto cut = static_cast<std::size_t>(prior_[static_cast<std::size_t>(rank)]);
    return which == Rows::prior ? rows.first(cut) : rows.subspan(cut);
  }
  [[nodiscard]] std::size_t turn(int rank) const {
    return static_cast<std::size_t>((rank - rank_ + static_cast<int>(prior_.size())) % static_cast<int>(prior_.size()));
  }
  [[nodiscard]] std::uint32_t* begin(int rank) { return gathered_.data() + offset_[turn(rank)] / 4; }
  [[nodiscard]] const std::uint32_t* begin(int rank) const { return gathered_.data() + offset_[turn(rank)] / 4; }
  [[nodiscard]] std::int64_t distinct(int rank) const { return (offset_[turn(rank) + 1] - offset_[turn(rank)]) / 4; }

  int rank_ = 0;
  bool is_gathered_ = false;
  std::int64_t tokens_ = 0, largest_ = 0;
  RowGroups groups_;
  Buffer<std::uint32_t> positions_, row_of_token_;
  Buffer<std::uint32_t> gathered_;    // rows of rank me, me + 1, ..., cyclically
  std::vector<std::int64_t> offset_;  // bytes before each of these
  std::vector<std::int64_t> prior_;
  Buffer<std::uint32_t> own_order_, delayed_;
};

/// Returns the positions of `rows` (ascending) that lie in [first, first + count).
[[nodiscard]] std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, std::int64_t first, std::int64_t count);

}  // namespace weir::embedding
