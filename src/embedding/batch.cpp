#include "embedding/batch.hpp"

#include <algorithm>

#include "collectives/allgatherv.hpp"

namespace weir::embedding {
namespace {

constexpr std::int64_t id_bytes = sizeof(std::uint32_t);

/// Moves the entries that are prior to the front and keeps the order of both kinds; returns how many. `scratch` has `count`
/// entries.
template <class Predicate>
std::int64_t prior_to_front(std::uint32_t* list, std::int64_t count, std::uint32_t* scratch, Predicate is_prior) {
  std::int64_t prior = 0, delayed = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_prior(list[i]))
      list[prior++] = list[i];
    else
      scratch[delayed++] = list[i];
  }
  std::copy_n(scratch, delayed, list + prior);
  return prior;
}

bool marked(const std::uint64_t* marks, std::uint32_t row) { return (marks[row / 64] >> row % 64 & 1) != 0; }

}  // namespace

Batch::Batch(std::int64_t table_rows, std::int64_t largest_batch, int ranks)
    : largest_(largest_batch),
      groups_(largest_batch, static_cast<std::uint64_t>(table_rows)),
      positions_(largest_batch),
      row_of_token_(largest_batch),
      gathered_(ranks * std::min(largest_batch, table_rows)),
      offset_(static_cast<std::size_t>(ranks) + 1),
      prior_(static_cast<std::size_t>(ranks)),
      own_order_(largest_batch),
      delayed_(largest_batch) {}

CallCard Batch::take(const CallIds& ids, const Partition& partition) {
  tokens_ = 0;
  is_gathered_ = false;
  groups_.build({});
  if (ids.input_error != CallError::none) return {.input_error = ids.input_error, .memory = ids.memory, .of_ids = 1};
  const auto count = static_cast<std::int64_t>(ids.count);
  // A negative count becomes a huge size.
  if (ids.count > static_cast<std::size_t>(largest_)) return {CallError::too_long, 0, 0, count, largest_};
  if (count > 0 && ids.data == nullptr) return {CallError::null_pointer};
  for (std::size_t i = 0; i < ids.count; ++i) {
    if (ids[i] >= static_cast<std::uint64_t>(partition.rows()))
      return {CallError::bad_id, 0, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(ids[i])};
    positions_[static_cast<std::int64_t>(i)] = partition.position(ids[i]);
  }
  return take_positions(count);
}

CallCard Batch::take_range(std::int64_t first, std::int64_t count, const Partition& partition) {
  is_gathered_ = false;
  for (std::int64_t i = 0; i < count; ++i) positions_[i] = partition.position(static_cast<std::uint64_t>(first + i));
  return take_positions(count);
}

CallCard Batch::take_positions(std::int64_t count) {
  tokens_ = count;
  groups_.build({positions_.data(), static_cast<std::size_t>(count)});
  groups_.invert(row_of_token_.data());
  CallCard card;
  card.distinct = groups_.count();
  return card;
}

bool Batch::holds(const CallIds& ids, const Partition& partition) const {
  if (static_cast<std::int64_t>(ids.count) != tokens_ || (tokens_ > 0 && ids.data == nullptr)) return false;
  for (std::size_t i = 0; i < ids.count; ++i) {
    const bool same = ids[i] < static_cast<std::uint64_t>(partition.rows()) &&
                      partition.position(ids[i]) == positions_[static_cast<std::int64_t>(i)];
    if (!same) return false;
  }
  return true;
}

task<void> Batch::gather(Channel channel, std::span<const CallCard> cards) {
  const int ranks = channel.size();
  rank_ = channel.rank();
  for (int i = 0; i < ranks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    offset_[at + 1] = offset_[at] + cards[static_cast<std::size_t>((rank_ + i) % ranks)].distinct * id_bytes;
  }
  std::copy_n(groups_.keys(), groups_.count(), begin(rank_));
  const StageScope stage = channel.stage(Stage::gather_ids);
  co_await allgatherv(channel, offset_, reinterpret_cast<std::byte*>(gathered_.data()));
  is_gathered_ = true;
}

void Batch::split(const Batch* next, std::uint64_t* marks) {
  const auto ranks = static_cast<int>(prior_.size());
  for (std::int64_t i = 0; i < groups_.count(); ++i) own_order_[i] = static_cast<std::uint32_t>(i);
  if (next == nullptr) {
    for (int rank = 0; rank < ranks; ++rank) prior_[static_cast<std::size_t>(rank)] = distinct(rank);
    return;
  }
  const std::span<const std::uint32_t> needed{next->gathered_.data(), static_cast<std::size_t>(next->total())};
  for (const std::uint32_t row : needed) marks[row / 64] |= std::uint64_t{1} << row % 64;
  const std::uint32_t* const own = groups_.keys();
  prior_to_front(own_order_.data(), groups_.count(), delayed_.data(), [&](std::uint32_t i) { return marked(marks, own[i]); });
  for (int rank = 0; rank < ranks; ++rank)
    prior_[static_cast<std::size_t>(rank)] =
        prior_to_front(begin(rank), distinct(rank), delayed_.data(), [&](std::uint32_t row) { return marked(marks, row); });
  for (const std::uint32_t row : needed) marks[row / 64] = 0;
}

std::int64_t Batch::memory_bytes() const {
  return static_cast<std::int64_t>(sizeof *this) + groups_.memory_bytes() + positions_.bytes() + row_of_token_.bytes() +
         gathered_.bytes() + bytes_of(offset_) + bytes_of(prior_) + own_order_.bytes() + delayed_.bytes();
}

std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, std::int64_t first, std::int64_t count) {
  const auto begin = std::lower_bound(rows.begin(), rows.end(), first,
                                      [](std::uint32_t row, std::int64_t bound) { return static_cast<std::int64_t>(row) < bound; });
  const auto end = std::lower_bound(begin, rows.end(), first + count,
                                    [](std::uint32_t row, std::int64_t bound) { return static_cast<std::int64_t>(row) < bound; });
  return {begin, end};
}

}  // namespace weir::embedding
