// Ranges of rows, to and from arrays in host memory.
#include <algorithm>

#include "base/buffer.hpp"
#include "embedding/table.hpp"

namespace weir::detail {

using namespace embedding;

EmbeddingState::RowRange EmbeddingState::check_range(std::int64_t first, std::int64_t count, const float* values,
                                                     std::size_t given) {
  RowRange range{first, count, {}};
  if (count < 0)
    range.card = {CallFault::bad_count, 0, 0, count, 0};
  else if (first < 0 || first > config_.rows)
    range.card = {CallFault::bad_id, 0, 0, 0, first};
  else if (count > config_.rows - first)
    range.card = {CallFault::bad_id, 0, 0, count - 1, first + count - 1};
  else
    range.card.check_array(values, given, count * config_.width);
  if (range.card.fault == CallFault::none && count > 0 && range_memory_.fault_of(values, nullptr) != FaultKind::none)
    range.card.fault = CallFault::not_in_host_memory;
  return range;
}

/// The next of `range`'s rows after the first `done` become `batch`, known to all; `most` is what any rank had left before. Returns
/// how many they are.
task<std::int64_t> EmbeddingState::gather_range(Channel channel, Batch& batch, RowRange range, std::int64_t done,
                                                std::int64_t& most) {
  CallCard card = range.card;
  const std::int64_t count = card.fault == CallFault::none ? std::min(config_.largest_batch, range.count - done) : 0;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = range.first + done + i;
  if (card.fault == CallFault::none) card = batch.take(std::span<const std::int64_t>(ids), partition_);
  if (card.fault == CallFault::none) card.place = range.count - done;
  co_await share_cards(channel, "exports or imports", card);
  most = 0;
  for (const CallCard& other : lookup_cards_) most = std::max(most, other.place);
  if (most > 0) co_await batch.gather(channel, lookup_cards_);
  co_return count;
}

void EmbeddingState::export_rows(std::int64_t first, std::int64_t count, std::span<float> values) {
  lookup_.check_startable();
  finish_update();
  const RowRange range = check_range(first, count, values.data(), values.size());
  lookup_.launch([&] { return run_export(range, values.data()); });
  lookup_.wait();
}

task<void> EmbeddingState::run_export(RowRange range, float* values) {
  const Channel channel = lookup_.channel();
  channel.step("export rows");
  Batch batch(config_.rows, config_.largest_batch, channel.size());
  for (std::int64_t done = 0, most = 1; most > 0;) {
    const std::int64_t count = co_await gather_range(channel, batch, range, done, most);
    if (most > 0) co_await fetch_.export_rows(channel, batch, slice_, *host_, values + done * config_.width);
    done += count;
  }
}

void EmbeddingState::import_rows(std::int64_t first, std::int64_t count, std::span<const float> values) {
  lookup_.check_startable();
  finish_update();
  const RowRange range = check_range(first, count, values.data(), values.size());
  lookup_.launch([&] { return run_import(range, values.data()); });
  lookup_.wait();
}

task<void> EmbeddingState::run_import(RowRange range, const float* values) {
  const Channel channel = lookup_.channel();
  channel.step("import rows");
  Batch batch(config_.rows, config_.largest_batch, channel.size());
  Buffer<float> sorted(setup_.most_asked() * config_.width);
  // One rank after another, so that the highest one's values stay.
  for (int turn = 0; turn < channel.size(); ++turn) {
    RowRange mine = range;
    if (turn != channel.rank()) mine.count = 0;
    for (std::int64_t done = 0, most = 1; most > 0;) {
      const std::int64_t count = co_await gather_range(channel, batch, mine, done, most);
      if (most == 0) break;
      batch.split(nullptr, marks_.data());
      // Rows travel by position.
      host_->gather(values + done * config_.width, batch.groups().order(), count, config_.width, sorted.data(), config_.width);
      co_await delivery_.import_rows(channel, batch, slice_, *host_, sorted.data());
      done += count;
    }
  }
}

}  // namespace weir::detail
