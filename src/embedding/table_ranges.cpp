// Ranges of rows, to and from arrays in host memory. No update is in flight meanwhile, so its batch is free for their ids.
#include <algorithm>

#include "embedding/table.hpp"

namespace weir::detail {

using namespace embedding;

/// Waits for the update in flight. Then calls body(range), a coroutine, as a lookup; the range's card says what is wrong with it.
template <class Body>
void EmbeddingState::run_on_range(std::int64_t first, std::int64_t count, std::span<const float> values, const Body& body) {
  lookup_.check_startable();
  finish_update();
  RowRange range{first, count, {}};
  if (count < 0 || first < 0 || first > config_.rows || count > config_.rows - first)
    range.card = {CallError::bad_range, 0, 0, first, count};
  else
    range.card.check_array(values.data(), values.size(), count * config_.width);
  if (range.card.input_error == CallError::none && count > 0 && range_memory_.error_of(values.data(), nullptr) != InputError::none)
    range.card.input_error = CallError::not_in_host_memory;
  lookup_.launch([&] { return body(range); });
  lookup_.wait();
}

/// Makes the batch updating_ of the next rows of `range` after the first `done`, and gathers it. Sets `most` to the largest number
/// of rows that any rank had left. Returns the number of this rank's rows.
task<std::int64_t> EmbeddingState::gather_range(Channel channel, const char* does, RowRange range, std::int64_t done,
                                                std::int64_t& most) {
  CallCard card = range.card;
  const std::int64_t count = card.input_error == CallError::none ? std::min(config_.largest_batch, range.count - done) : 0;
  if (card.input_error == CallError::none) {
    card = updating_->take_range(range.first + done, count, partition_);
    card.place = range.count - done;
  }
  co_await share_cards(channel, {does, "count x width"}, card);
  most = 0;
  for (const CallCard& other : lookup_.cards) most = std::max(most, other.place);
  if (most > 0) co_await updating_->gather(channel, lookup_.cards);
  co_return count;
}

void EmbeddingState::export_rows(std::int64_t first, std::int64_t count, std::span<float> values) {
  run_on_range(first, count, values, [&](const RowRange& range) { return run_export(range, values.data()); });
}

task<void> EmbeddingState::run_export(RowRange range, float* values) {
  const Channel channel = lookup_.channel();
  const StageScope stage = channel.stage(Stage::export_rows);
  for (std::int64_t done = 0, most = 1; most > 0;) {
    const std::int64_t count = co_await gather_range(channel, "exports", range, done, most);
    if (most > 0) co_await fetch_.export_rows(channel, *updating_, slice_, *host_, values + done * config_.width);
    done += count;
  }
}

void EmbeddingState::import_rows(std::int64_t first, std::int64_t count, std::span<const float> values) {
  run_on_range(first, count, values, [&](const RowRange& range) { return run_import(range, values.data()); });
}

task<void> EmbeddingState::run_import(RowRange range, const float* values) {
  const Channel channel = lookup_.channel();
  const StageScope stage = channel.stage(Stage::import_rows);
  // One rank after another, so that the highest rank's values remain.
  for (int turn = 0; turn < channel.size(); ++turn) {
    RowRange mine = range;
    if (turn != channel.rank()) mine.count = 0;
    for (std::int64_t done = 0, most = 1; most > 0;) {
      const std::int64_t count = co_await gather_range(channel, "imports", mine, done, most);
      if (most == 0) break;
      updating_->split(nullptr, marks_.data());
      co_await delivery_.import_rows(channel, *updating_, slice_, *host_, values + done * config_.width);
      done += count;
    }
  }
}

}  // namespace weir::detail
