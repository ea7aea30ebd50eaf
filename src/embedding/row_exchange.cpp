#include "embedding/row_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "codec/parts.hpp"
#include "collectives/allgatherv.hpp"
#include "kernels/kernels.hpp"

namespace weir::embedding {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::span<const std::uint32_t> within(std::span<const std::uint32_t> rows, const Part& part) {
  return embedding::within(rows, part.first_row, part.rows);
}

/// Writes `columns` elements of each of `rows` of x, rounded to what travels; returns the bytes.
std::int64_t pack_rows(const float* x, std::int64_t stride, std::span<const std::uint32_t> rows, std::int64_t columns,
                       WireValues values, std::byte* out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t row_bytes = columns * wire::bytes_of_value<float>(values);
  if (values == WireValues::native) {
    kernels::host::gather_rows(x, stride, rows.data(), count, columns, reinterpret_cast<float*>(out), columns);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      wire::pack_values(values, x + rows[static_cast<std::size_t>(i)] * stride, columns, out + i * row_bytes);
  }
  return count * row_bytes;
}

std::unique_ptr<Alltoallv> make_alltoallv(const RowExchangeSetup& setup, Alltoallv::Capacity capacity) {
  return setup.by_node ? make_by_node_alltoallv(*setup.topology, capacity) : make_direct_alltoallv(*setup.topology, capacity);
}

constexpr std::int64_t element = sizeof(float);

}  // namespace

RowFetch::RowFetch(const RowExchangeSetup& setup) : setup_(setup) {
  if (setup.exchange->replicated()) return;
  const auto ranks = at(setup.topology->size());
  const std::int64_t served = setup.most_served();
  alltoallv_ = make_alltoallv(setup, {setup.served_bytes(), setup.asked_bytes()});
  out_bytes_.resize(ranks);
  in_bytes_.resize(ranks);
  served_ = Buffer<std::uint32_t>(served);
  out_ = Buffer<std::byte>(served * setup.partition->part(setup.topology->rank()).columns * element);
  in_ = Buffer<std::byte>(setup.asked_bytes());
  widened_ = Buffer<float>(setup.most_asked() * setup.partition->width());
}

task<void> RowFetch::run(Channel channel, const Batch& batch, Slice& slice, WireValues values, float* vectors) {
  if (setup_.exchange->replicated()) {
    const std::int64_t width = setup_.partition->width();
    kernels::host::gather_rows<float>(slice.values(), width, batch.position_of_token(), batch.tokens(), width, vectors, width);
    co_return;
  }
  serve(batch, slice, values);
  expect(batch, values);
  channel.step("exchange vectors");
  co_await alltoallv_->run(channel, out_.data(), out_bytes_, in_.data(), in_bytes_);
  expand(batch, values, vectors);
}

void RowFetch::serve(const Batch& batch, Slice& slice, WireValues values) {
  const Part& part = slice.part();
  const std::int64_t row_bytes = part.columns * wire::bytes_of_value<float>(values);
  std::int64_t count = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const auto rows = within(batch.rows(rank), part);
    for (const std::uint32_t row : rows) served_[count++] = row - static_cast<std::uint32_t>(part.first_row);
    out_bytes_[at(rank)] = static_cast<std::int64_t>(rows.size()) * row_bytes;
  }
  pack_rows(slice.values(), part.columns, {served_.data(), static_cast<std::size_t>(count)}, part.columns, values, out_.data());
}

void RowFetch::expect(const Batch& batch, WireValues values) {
  const auto own = batch.rows(setup_.topology->rank());
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    in_bytes_[at(rank)] = static_cast<std::int64_t>(within(own, part).size()) * part.columns * wire::bytes_of_value<float>(values);
  }
}

void RowFetch::expand(const Batch& batch, WireValues values, float* vectors) {
  const std::int64_t width = setup_.partition->width(), rows = batch.groups().count();
  const float* in = reinterpret_cast<const float*>(in_.data());
  if (values != WireValues::native) {
    wire::unpack_values(values, in_.data(), rows * width, widened_.data());
    in = widened_.data();
  }
  const auto take = [&](std::int64_t first_column, std::int64_t columns) {
    kernels::host::gather_rows(in, columns, batch.row_of_token(), batch.tokens(), columns, vectors + first_column, width);
  };
  // Divided by rows, holders' blocks follow each other by position: they are one array of whole rows.
  if (setup_.exchange->division != Division::columns) return take(0, width);
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    take(part.first_column, part.columns);
    in += rows * part.columns;
  }
}

std::int64_t RowFetch::memory_bytes() const {
  return served_.bytes() + out_.bytes() + in_.bytes() + widened_.bytes() + (alltoallv_ ? alltoallv_->memory_bytes() : 0);
}

RowDelivery::RowDelivery(const RowExchangeSetup& setup)
    : setup_(setup),
      out_bytes_(at(setup.topology->size())),
      in_bytes_(out_bytes_.size()),
      offset_(out_bytes_.size() + 1),
      arrived_(setup.most_served() * setup.partition->part(setup.topology->rank()).columns),
      keys_(setup.most_served()) {
  in_ = Buffer<std::byte>(arrived_.bytes());
  if (setup.exchange->replicated()) return;
  alltoallv_ = make_alltoallv(setup, {setup.asked_bytes(), setup.served_bytes()});
  out_ = Buffer<std::byte>(setup.asked_bytes());
}

task<void> RowDelivery::run(Channel channel, const Batch& batch, bool is_prior, const float* rows, WireValues values) {
  expect(batch, is_prior, wire::bytes_of_value<float>(values));
  if (setup_.exchange->replicated()) {
    co_await allgather(channel, batch, is_prior, rows, values);
    co_return;
  }
  send_parts(batch, is_prior, rows, values);
  std::byte* const in = values == WireValues::native ? reinterpret_cast<std::byte*>(arrived_.data()) : in_.data();
  co_await alltoallv_->run(channel, out_.data(), out_bytes_, in, in_bytes_);
  if (values == WireValues::native) co_return;
  wire::unpack_values(values, in_.data(), key_count_ * setup_.partition->part(channel.rank()).columns, arrived_.data());
}

void RowDelivery::expect(const Batch& batch, bool is_prior, std::int64_t value_bytes) {
  const Part& mine = setup_.partition->part(setup_.topology->rank());
  key_count_ = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const auto rows = within(batch.part(rank, is_prior), mine);
    for (const std::uint32_t row : rows) keys_[key_count_++] = row - static_cast<std::uint32_t>(mine.first_row);
    in_bytes_[at(rank)] = static_cast<std::int64_t>(rows.size()) * mine.columns * value_bytes;
  }
}

void RowDelivery::send_parts(const Batch& batch, bool is_prior, const float* rows, WireValues values) {
  const auto positions = batch.part(setup_.topology->rank(), is_prior);
  const auto places = batch.own_part(is_prior);
  std::int64_t offset = 0;
  for (int rank = 0; rank < setup_.topology->size(); ++rank) {
    const Part& part = setup_.partition->part(rank);
    const auto theirs = within(positions, part);
    out_bytes_[at(rank)] = pack_rows(rows + part.first_column, setup_.partition->width(),
                                     places.subspan(static_cast<std::size_t>(theirs.data() - positions.data()), theirs.size()),
                                     part.columns, values, out_.data() + offset);
    offset += out_bytes_[at(rank)];
  }
}

task<void> RowDelivery::allgather(Channel channel, const Batch& batch, bool is_prior, const float* rows, WireValues values) {
  const int ranks = channel.size(), me = channel.rank();
  for (int i = 0; i < ranks; ++i) offset_[at(i + 1)] = offset_[at(i)] + in_bytes_[at((me + i) % ranks)];
  const std::int64_t width = setup_.partition->width();
  pack_rows(rows, width, batch.own_part(is_prior), width, values, in_.data());
  channel.step("gather rows");
  co_await allgatherv(channel, offset_, in_.data());
  float* out = arrived_.data();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t count = in_bytes_[at(rank)] / wire::bytes_of_value<float>(values);
    wire::unpack_values(values, in_.data() + offset_[at((rank - me + ranks) % ranks)], count, out);
    out += count;
  }
}

std::int64_t RowDelivery::memory_bytes() const {
  return out_.bytes() + in_.bytes() + arrived_.bytes() + keys_.bytes() + (alltoallv_ ? alltoallv_->memory_bytes() : 0);
}

}  // namespace weir::embedding
