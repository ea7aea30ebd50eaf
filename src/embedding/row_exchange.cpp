#include "embedding/row_exchange.hpp"

#include <algorithm>

#include "codec/parts.hpp"
#include "collectives/allgatherv.hpp"

namespace weir::embedding {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, const Part& part) {
  return embedding::within(rows, part.first_row, part.rows);
}

std::int64_t size_of(std::span<const std::uint32_t> rows) { return static_cast<std::int64_t>(rows.size()); }

std::unique_ptr<Alltoallv> make_alltoallv(const RowExchangeSetup& setup, Alltoallv::Capacity capacity) {
  return setup.by_node ? make_by_node_alltoallv(*setup.topology, capacity) : make_direct_alltoallv(*setup.topology, capacity);
}

constexpr std::int64_t element = sizeof(float);

/// Returns whether what travels as `values` can be read where it arrives.
bool reads_in_place(const RowSpace& space, WireValues values) { return values == WireValues::native && space.is_host(); }

}  // namespace

RowFetch::RowFetch(const RowExchangeSetup& setup, RowSpace& space)
    : setup_(setup),
      space_(space),
      work_(space.make_work(setup.most_served())),
      out_bytes_(at(setup.topology->size())),
      in_bytes_(out_bytes_.size()) {
  const bool replicated = setup.exchange->replicated();
  if (!replicated || !space.is_host()) in_ = space.take_message(setup.asked_bytes());
  if (replicated) return;
  if (!reads_in_place(space, setup.values)) widened_ = space.take_rows(setup.asked_bytes() / element);
  alltoallv_ = make_alltoallv(setup, {setup.served_bytes(), setup.asked_bytes()});
  served_ = Buffer<std::uint32_t>(setup.most_served());
  out_ = space.take_message(setup.most_served() * setup.partition->part(setup.topology->rank()).columns * element);
}

std::span<const std::uint32_t> RowFetch::rows_of_tokens(const Batch& batch) const {
  const auto tokens = static_cast<std::size_t>(batch.tokens());
  return {setup_.exchange->replicated() ? batch.position_of_token() : batch.row_of_token(), tokens};
}

task<void> RowFetch::fetch(Channel channel, const Batch& batch, const Slice& slice) {
  if (!setup_.exchange->replicated()) co_await bring(channel, batch, slice, setup_.values);
}

void RowFetch::deliver(const Batch& batch, const Slice& slice, const std::uint32_t* token_rows, RowCaller& caller, float* vectors) {
  if (batch.tokens() == 0) return;
  const CallerWork work(caller);
  const std::int64_t width = setup_.partition->width();
  if (setup_.exchange->replicated())
    space_.gather(slice.values(), token_rows, batch.tokens(), width, vectors, width);
  else
    expand(space_, batch, token_rows, setup_.values, vectors);
}

task<void> RowFetch::export_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, float* vectors) {
  if (setup_.exchange->replicated() && space_.is_host()) {
    const std::int64_t width = setup_.partition->width();
    host.gather(slice.values(), batch.position_of_token(), batch.tokens(), width, vectors, width);
    co_return;
  }
  co_await bring(channel, batch, slice, WireValues::native);
  expand(host, batch, batch.row_of_token(), WireValues::native, vectors);
}

/// Brings this rank's distinct rows to in_, ordered by holder.
task<void> RowFetch::bring(Channel channel, const Batch& batch, const Slice& slice, WireValues values) {
  co_await work_->cleared(channel);
  if (setup_.exchange->replicated()) {
    const auto rows = batch.rows(channel.rank());
    const std::int64_t width = setup_.partition->width();
    space_.pack(slice.values(), width, work_->put(rows), size_of(rows), width, values, in_);
    co_await work_->done(channel);
    co_return;
  }
  serve(batch, slice, values);
  expect(batch, values);
  const StageScope stage = channel.stage(Stage::exchange_vectors);
  co_await work_->done(channel);
  co_await alltoallv_->run(channel, out_, out_bytes_, in_, in_bytes_);
}

void RowFetch::serve(const Batch& batch, const Slice& slice, WireValues values) {
  const Part& part = slice.part();
  const std::int64_t row_bytes = part.columns * wire::bytes_of_value<float>(values);
  std::int64_t count = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const auto rows = within(batch.rows(rank), part);
    for (const std::uint32_t row : rows) served_[count++] = row - static_cast<std::uint32_t>(part.first_row);
    out_bytes_[at(rank)] = size_of(rows) * row_bytes;
  }
  const std::uint32_t* const rows = work_->put({served_.data(), static_cast<std::size_t>(count)});
  space_.pack(slice.values(), part.columns, rows, count, part.columns, values, out_);
}

void RowFetch::expect(const Batch& batch, WireValues values) {
  const auto own = batch.rows(setup_.topology->rank());
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    in_bytes_[at(rank)] = size_of(within(own, part)) * part.columns * wire::bytes_of_value<float>(values);
  }
}

void RowFetch::expand(RowSpace& space, const Batch& batch, const std::uint32_t* row_of_token, WireValues values, float* vectors) {
  const std::int64_t width = setup_.partition->width(), rows = batch.groups().count();
  const float* in = reinterpret_cast<const float*>(in_);
  if (!reads_in_place(space, values)) {
    space.unpack(values, in_, rows * width, widened_);
    in = widened_;
  }
  const auto take = [&](std::int64_t first_column, std::int64_t columns) {
    space.gather(in, row_of_token, batch.tokens(), columns, vectors + first_column, width);
  };
  // If the table is divided by rows, holders' blocks follow each other by position: they are one array of whole rows.
  if (setup_.exchange->split != TableSplit::columns) return take(0, width);
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    take(part.first_column, part.columns);
    in += rows * part.columns;
  }
}

std::int64_t RowFetch::memory_bytes() const {
  return served_.bytes() + bytes_of(out_bytes_) + bytes_of(in_bytes_) + (alltoallv_ ? alltoallv_->memory_bytes() : 0);
}

RowDelivery::RowDelivery(const RowExchangeSetup& setup, RowSpace& space)
    : setup_(setup),
      space_(space),
      work_(space.make_work(std::max(setup.most_asked(), 3 * setup.most_served() + 1))),
      out_bytes_(at(setup.topology->size())),
      in_bytes_(out_bytes_.size()),
      offset_(out_bytes_.size() + 1),
      keys_(setup.most_served()),
      groups_(setup.most_served(), static_cast<std::uint64_t>(setup.partition->rows())) {
  const std::int64_t elements = setup.most_served() * setup.partition->part(setup.topology->rank()).columns;
  const bool replicated = setup.exchange->replicated();
  in_ = space.take_message(elements * element);
  if (replicated || !reads_in_place(space, setup.values)) widened_ = space.take_rows(elements);
  if (replicated) return;
  alltoallv_ = make_alltoallv(setup, {setup.asked_bytes(), setup.served_bytes()});
  out_ = space.take_message(setup.asked_bytes());
}

task<void> RowDelivery::run(Channel channel, const Batch& batch, bool is_prior, const float* rows) {
  co_await work_->cleared(channel);
  const Source source{space_, rows, work_->put(batch.own_part(is_prior))};
  co_await exchange(channel, batch, is_prior, source, setup_.values);
}

task<void> RowDelivery::import_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, const float* rows) {
  co_await work_->done(channel);  // the host packs at once, and the space may still be reading
  const Source source{host, rows, batch.groups().order()};
  co_await exchange(channel, batch, true, source, WireValues::native);
  const std::uint32_t* const places = work_->put({keys_.data(), static_cast<std::size_t>(key_count_)});
  space_.scatter(arrived_, places, key_count_, slice.part().columns, slice.values());
}

task<void> RowDelivery::exchange(Channel channel, const Batch& batch, bool is_prior, Source source, WireValues values) {
  expect(batch, is_prior, wire::bytes_of_value<float>(values));
  if (setup_.exchange->replicated()) {
    const std::int64_t width = setup_.partition->width();
    source.space.pack(source.rows, width, source.places, size_of(batch.own_part(is_prior)), width, values, in_);
    co_await work_->done(channel);
    co_await allgather(channel, values);
    co_return;
  }
  send_parts(batch, is_prior, source, values);
  co_await work_->done(channel);
  co_await alltoall(channel, values);
}

void RowDelivery::expect(const Batch& batch, bool is_prior, std::int64_t value_bytes) {
  const Part& mine = setup_.partition->part(setup_.topology->rank());
  key_count_ = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const auto rows = within(batch.part(rank, is_prior), mine);
    for (const std::uint32_t row : rows) keys_[key_count_++] = row - static_cast<std::uint32_t>(mine.first_row);
    in_bytes_[at(rank)] = size_of(rows) * mine.columns * value_bytes;
  }
}

void RowDelivery::send_parts(const Batch& batch, bool is_prior, const Source& source, WireValues values) {
  const auto positions = batch.part(setup_.topology->rank(), is_prior);
  std::int64_t offset = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    const auto theirs = within(positions, part);
    source.space.pack(source.rows + part.first_column, setup_.partition->width(),
                      source.places + (theirs.data() - positions.data()), size_of(theirs), part.columns, values, out_ + offset);
    out_bytes_[at(rank)] = size_of(theirs) * part.columns * wire::bytes_of_value<float>(values);
    offset += out_bytes_[at(rank)];
  }
}

task<void> RowDelivery::alltoall(Channel channel, WireValues values) {
  co_await alltoallv_->run(channel, out_, out_bytes_, in_, in_bytes_);
  arrived_ = reinterpret_cast<const float*>(in_);
  if (reads_in_place(space_, values)) co_return;
  space_.unpack(values, in_, key_count_ * setup_.partition->part(channel.rank()).columns, widened_);
  arrived_ = widened_;
}

task<void> RowDelivery::allgather(Channel channel, WireValues values) {
  const int ranks = channel.size(), me = channel.rank();
  for (int i = 0; i < ranks; ++i) offset_[at(i + 1)] = offset_[at(i)] + in_bytes_[at((me + i) % ranks)];
  const StageScope stage = channel.stage(Stage::gather_rows);
  co_await allgatherv(channel, offset_, in_);
  float* out = widened_;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t count = in_bytes_[at(rank)] / wire::bytes_of_value<float>(values);
    space_.unpack(values, in_ + offset_[at((rank - me + ranks) % ranks)], count, out);
    out += count;
  }
  arrived_ = widened_;
}

std::int64_t RowDelivery::step(const Slice& slice, const RowOptimizer& optimizer) {
  if (slice.part().columns == 0) return 0;
  groups_.build({keys_.data(), static_cast<std::size_t>(key_count_)});
  const auto count = static_cast<std::size_t>(groups_.count());
  const GroupLists lists{work_->put({groups_.keys(), count}), work_->put({groups_.first(), count + 1}),
                         work_->put({groups_.order(), static_cast<std::size_t>(key_count_)}), groups_.count()};
  space_.step(optimizer, slice.state(), slice.part().columns, arrived_, lists);
  return groups_.count();
}

std::int64_t RowDelivery::memory_bytes() const {
  return keys_.bytes() + groups_.memory_bytes() + bytes_of(out_bytes_) + bytes_of(in_bytes_) + bytes_of(offset_) +
         (alltoallv_ ? alltoallv_->memory_bytes() : 0);
}

}  // namespace weir::embedding
