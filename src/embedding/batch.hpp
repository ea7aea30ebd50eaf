// batch.hpp: which rows one step of training is about: this rank's tokens, and the distinct rows of every rank.
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

/// What can be wrong with a call; the larger one is reported when several are.
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

/// What every rank tells every other about its call, so that all act alike.
struct CallCard {
  CallError input_error = CallError::none;
  std::int64_t prefetch = 0;  ///< the one that gathered what this call asks for, as in Batch; 0: none
  std::int64_t distinct = 0;
  std::int64_t place = 0, id = 0;  ///< of a bad id; a bad range's first row and count; else the size given and what it should be
  InputError memory = InputError::none;  ///< of wrong_memory
  std::int32_t of_ids = 0;               ///< the memory in question is that of the ids

  /// An error unless there is memory of `expected` elements.
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

/// Ranges of positions of all ranks' distinct rows, in rank order: those of rank r are rows(r). Prior rows come first in each.
class Batch {
 public:
  Batch() = default;
  Batch(std::int64_t table_rows, std::int64_t largest_batch, int ranks);

  /// This rank's tokens. Ids must be in [0, rows); what is wrong otherwise is in the card, and the batch is empty.
  template <class Id>
  [[nodiscard]] CallCard take(std::span<const Id> ids, const Partition& partition);
  /// The same for `count` rows of the table, at most the largest batch, from `first` on.
  [[nodiscard]] CallCard take_range(std::int64_t first, std::int64_t count, const Partition& partition);
  /// Whether the tokens are these.
  template <class Id>
  [[nodiscard]] bool holds(std::span<const Id> ids, const Partition& partition) const;

  /// Every rank's distinct rows become known to all. `cards` as exchanged before.
  task<void> gather(Channel channel, std::span<const CallCard> cards);
  /// Whether they are.
  [[nodiscard]] bool gathered() const { return is_gathered_; }

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Positions of this rank's tokens, grouped.
  [[nodiscard]] const RowGroups& groups() const { return groups_; }
  /// For each token of this rank the place of its row among the distinct ones, ascending by position.
  [[nodiscard]] const std::uint32_t* row_of_token() const { return row_of_token_.data(); }
  /// For each token of this rank its position.
  [[nodiscard]] const std::uint32_t* position_of_token() const { return positions_.data(); }

  [[nodiscard]] std::span<const std::uint32_t> rows(int rank) const { return {begin(rank), begin(rank) + distinct(rank)}; }
  /// Distinct rows of all ranks, counted per rank.
  [[nodiscard]] std::int64_t total() const { return offset_.back() / 4; }

  /// Prior: what `next` holds of any rank's rows; without `next`, all. Stable in each rank's rows. `marks`: one bit per row of the
  /// table, all clear before and after.
  void split(const Batch* next, std::uint64_t* marks);
  [[nodiscard]] std::int64_t prior(int rank) const { return prior_[static_cast<std::size_t>(rank)]; }
  /// Rows of `rank` that are prior, or that are not.
  [[nodiscard]] std::span<const std::uint32_t> part(int rank, bool is_prior) const;
  /// The same rows of this rank, as places among its distinct rows ascending by position.
  [[nodiscard]] std::span<const std::uint32_t> own_part(bool is_prior) const;

  /// Returns the bytes of memory that the batch takes, this object included.
  [[nodiscard]] std::int64_t memory_bytes() const;

  bool settled = true;            ///< no prefetch is gathering it
  std::exception_ptr broken_off;  ///< by what, if its prefetch has not come to an end that ranks agree about
  std::int64_t prefetch = 0;      ///< the last one that has, or tries to: they count from 1, alike on all ranks
  TrafficCount prefetch_traffic;  ///< of the last one that has

 private:
  /// Tokens are the first `count` of positions_.
  [[nodiscard]] CallCard take_positions(std::int64_t count);
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

/// Positions of `rows` (ascending) that lie in [first, first + count).
[[nodiscard]] std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, std::int64_t first, std::int64_t count);

}  // namespace weir::embedding
