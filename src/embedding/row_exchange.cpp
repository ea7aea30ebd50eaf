#include "embedding/row_exchange.hpp"

#include <algorithm>

#include "codec/parts.hpp"
#include "collectives/allgatherv.hpp"
#include "kernels/kernels.hpp"

namespace weir::embedding {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, const Part& part) {
  return embedding::within(rows, part.first_row, part.rows);
}

std::int64_t size_of(std::span<const std::uint32_t> rows) { return static_cast<std::int64_t>(rows.size()); }

constexpr std::int64_t element = sizeof(float);

/// Returns whether what travels as `values` can be read where it arrives.
bool reads_in_place(const RowSpace& space, WireValues values) { return values == WireValues::native && space.is_host(); }

/// Returns the exchange of a dense array.
ExchangeSpec spec_of(std::int64_t count, const Topology& topology) {
  ExchangeSpec spec;
  spec.count = count;
  spec.ranks = topology.size();
  spec.topology = &topology;
  return spec;
}

}  // namespace

RowExchange::RowExchange(const RowExchangeSetup& setup, RowSpace& space, bool asks, std::int64_t lists)
    : setup_(setup),
      space_(space),
      work_(space.make_work(lists)),
      asked_bytes_(at(setup.topology->size())),
      served_bytes_(asked_bytes_.size()),
      served_(asks || !replicated() ? setup.most_served() : 0) {
  const std::int64_t most_served = setup.most_served() * mine().columns * element;
  if (!replicated() || (!asks && !space.is_host())) asked_rows_ = space.take_message(setup.asked_bytes());
  if (!replicated() || asks) served_rows_ = space.take_message(most_served);
  const bool widens = replicated() ? asks : !reads_in_place(space, setup.values);
  if (widens) widened_ = space.take_rows((asks ? most_served : setup.asked_bytes()) / element);
  if (replicated()) return;
  Alltoallv::Capacity capacity{setup.asked_bytes(), setup.served_bytes()};
  if (!asks) capacity = {setup.served_bytes(), setup.asked_bytes()};
  alltoallv_ = setup.by_node ? make_by_node_alltoallv(*setup.topology, capacity) : make_direct_alltoallv(*setup.topology, capacity);
}

std::int64_t RowExchange::memory_bytes() const {
  return served_.bytes() + bytes_of(asked_bytes_) + bytes_of(served_bytes_) + (alltoallv_ ? alltoallv_->memory_bytes() : 0);
}

void RowExchange::list_rows(const Batch& batch, Rows which, WireValues values) {
  const auto own = batch.rows(setup_.topology->rank(), which);
  const std::int64_t value_bytes = wire::bytes_of_value<float>(values);
  served_count_ = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    asked_bytes_[at(rank)] = size_of(within(own, part_of(rank))) * part_of(rank).columns * value_bytes;
    const auto rows = within(batch.rows(rank, which), mine());
    for (const std::uint32_t row : rows) served_[served_count_++] = row - static_cast<std::uint32_t>(mine().first_row);
    served_bytes_[at(rank)] = size_of(rows) * mine().columns * value_bytes;
  }
}

RowFetch::RowFetch(const RowExchangeSetup& setup, RowSpace& space) : RowExchange(setup, space, false, setup.most_served()) {}

std::span<const std::uint32_t> RowFetch::rows_of_tokens(const Batch& batch) const {
  const auto tokens = static_cast<std::size_t>(batch.tokens());
  return {replicated() ? batch.position_of_token() : batch.row_of_token(), tokens};
}

task<void> RowFetch::fetch(Channel channel, const Batch& batch, const Slice& slice) {
  if (!replicated()) co_await bring(channel, batch, slice, setup_.values);
}

void RowFetch::deliver(const Batch& batch, const Slice& slice, const std::uint32_t* token_rows, detail::CallerMemory& caller,
                       float* vectors) {
  if (batch.tokens() == 0) return;
  const detail::CallerWork work(caller);
  if (replicated())
    space_.gather(slice.values(), token_rows, batch.tokens(), width(), vectors, width());
  else
    expand(space_, batch, token_rows, setup_.values, vectors);
}

task<void> RowFetch::export_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, float* vectors) {
  if (replicated() && space_.is_host()) {
    host.gather(slice.values(), batch.position_of_token(), batch.tokens(), width(), vectors, width());
    co_return;
  }
  co_await bring(channel, batch, slice, WireValues::native);
  expand(host, batch, batch.row_of_token(), WireValues::native, vectors);
}

/// Brings this rank's distinct rows to asked_rows_, ordered by holder.
task<void> RowFetch::bring(Channel channel, const Batch& batch, const Slice& slice, WireValues values) {
  co_await work_->cleared(channel);
  if (replicated()) {
    const auto rows = batch.rows(channel.rank());
    space_.pack(slice.values(), width(), work_->put(rows), size_of(rows), width(), values, asked_rows_);
    co_await work_->done(channel);
    co_return;
  }
  list_rows(batch, Rows::all, values);
  const std::uint32_t* const rows = work_->put({served_.data(), static_cast<std::size_t>(served_count_)});
  space_.pack(slice.values(), mine().columns, rows, served_count_, mine().columns, values, served_rows_);
  const StageScope stage = channel.stage(Stage::exchange_vectors);
  co_await work_->done(channel);
  co_await alltoallv_->run(channel, served_rows_, served_bytes_, asked_rows_, asked_bytes_);
}

void RowFetch::expand(RowSpace& space, const Batch& batch, const std::uint32_t* row_of_token, WireValues values, float* vectors) {
  const std::int64_t rows = batch.groups().count();
  const float* in = reinterpret_cast<const float*>(asked_rows_);
  if (!reads_in_place(space, values)) {
    space.unpack(values, asked_rows_, rows * width(), widened_);
    in = widened_;
  }
  const auto take = [&](std::int64_t first_column, std::int64_t columns) {
    space.gather(in, row_of_token, batch.tokens(), columns, vectors + first_column, width());
  };
  // If the table is divided by rows, holders' blocks follow each other by position: they are one array of whole rows.
  if (setup_.exchange->split != TableSplit::columns) return take(0, width());
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    take(part_of(rank).first_column, part_of(rank).columns);
    in += rows * part_of(rank).columns;
  }
}

RowDelivery::RowDelivery(const RowExchangeSetup& setup, RowSpace& space)
    : RowExchange(setup, space, true, std::max(setup.most_asked(), 3 * setup.most_served() + 1)),
      offset_(asked_bytes_.size() + 1),
      groups_(setup.most_served(), static_cast<std::uint64_t>(setup.partition->rows())) {}

task<void> RowDelivery::run(Channel channel, const Batch& batch, Rows which, const float* rows) {
  co_await work_->cleared(channel);
  const Source source{space_, rows, work_->put(batch.own_rows(which))};
  co_await exchange(channel, batch, which, source, setup_.values);
}

task<void> RowDelivery::import_rows(Channel channel, const Batch& batch, const Slice& slice, RowSpace& host, const float* rows) {
  co_await work_->done(channel);  // the host packs at once, and the space may still be reading
  const Source source{host, rows, batch.groups().order()};
  co_await exchange(channel, batch, Rows::prior, source, WireValues::native);
  const std::uint32_t* const places = work_->put({served_.data(), static_cast<std::size_t>(served_count_)});
  space_.scatter(arrived_, places, served_count_, slice.part().columns, slice.values());
}

task<void> RowDelivery::exchange(Channel channel, const Batch& batch, Rows which, Source source, WireValues values) {
  list_rows(batch, which, values);
  const auto positions = batch.rows(channel.rank(), which);
  if (replicated()) {
    source.space.pack(source.rows, width(), source.places, size_of(positions), width(), values, served_rows_);
    co_await work_->done(channel);
    co_await allgather(channel, values);
    co_return;
  }
  std::byte* out = asked_rows_;
  for (int rank = 0; rank < channel.size(); ++rank) {
    const Part& part = part_of(rank);
    const auto theirs = within(positions, part);
    source.space.pack(source.rows + part.first_column, width(), source.places + (theirs.data() - positions.data()), size_of(theirs),
                      part.columns, values, out);
    out += asked_bytes_[at(rank)];
  }
  co_await work_->done(channel);
  co_await alltoallv_->run(channel, asked_rows_, asked_bytes_, served_rows_, served_bytes_);
  arrived_ = reinterpret_cast<const float*>(served_rows_);
  if (reads_in_place(space_, values)) co_return;
  space_.unpack(values, served_rows_, served_count_ * mine().columns, widened_);
  arrived_ = widened_;
}

task<void> RowDelivery::allgather(Channel channel, WireValues values) {
  const int ranks = channel.size(), me = channel.rank();
  for (int i = 0; i < ranks; ++i) offset_[at(i + 1)] = offset_[at(i)] + served_bytes_[at((me + i) % ranks)];
  const StageScope stage = channel.stage(Stage::gather_rows);
  co_await allgatherv(channel, offset_, served_rows_);
  float* out = widened_;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t count = served_bytes_[at(rank)] / wire::bytes_of_value<float>(values);
    space_.unpack(values, served_rows_ + offset_[at((rank - me + ranks) % ranks)], count, out);
    out += count;
  }
  arrived_ = widened_;
}

std::int64_t RowDelivery::step(const Slice& slice, const RowOptimizer& optimizer) {
  if (slice.part().columns == 0) return 0;
  groups_.build({served_.data(), static_cast<std::size_t>(served_count_)});
  const auto count = static_cast<std::size_t>(groups_.count());
  const GroupLists lists{work_->put({groups_.keys(), count}), work_->put({groups_.first(), count + 1}),
                         work_->put({groups_.order(), static_cast<std::size_t>(served_count_)}), groups_.count()};
  space_.step(optimizer, slice.state(), slice.part().columns, arrived_, lists);
  return groups_.count();
}

std::int64_t RowDelivery::memory_bytes() const { return RowExchange::memory_bytes() + groups_.memory_bytes() + bytes_of(offset_); }

DenseDelivery::DenseDelivery(const Partition& partition, const Topology& topology)
    : rows_(partition.rows()),
      width_(partition.width()),
      sums_(rows_ * (width_ + 1)),
      ring_(dense_ring_row.make_dense<float>(spec_of(sums_.size(), topology))) {}

task<void> DenseDelivery::run(Channel channel, const Batch& batch, const float* rows) {
  kernels::host::fill_zero(sums_.data(), sums_.size());
  const RowGroups& groups = batch.groups();
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    const std::int64_t row = groups.keys()[i];
    std::copy_n(rows + i * width_, width_, sums_.data() + row * width_);
    sums_[rows_ * width_ + row] = 1;
  }
  const StageScope stage = channel.stage(Stage::allreduce);
  co_await ring_->run(channel, sums_.data());
}

std::int64_t DenseDelivery::step(const Slice& slice, const RowOptimizer& optimizer) const {
  std::int64_t stepped = 0;
  for (std::uint32_t row = 0; row < static_cast<std::uint64_t>(rows_); ++row) {
    if (sums_[rows_ * width_ + row] == 0) continue;
    optimizer.apply(slice.state(), &row, 1, width_, sums_.data() + row * width_);
    ++stepped;
  }
  return stepped;
}

}  // namespace weir::embedding
