#include "collectives/blobs.hpp"

namespace weir {
namespace {

constexpr std::int64_t word = sizeof(std::uint64_t);

std::int64_t length(const Blob& blob) { return static_cast<std::int64_t>(blob.size()); }

}  // namespace

task<void> BlobExchange::gather(Channel channel, const Blob& mine, std::vector<Blob>& all) {
  if (channel.rank() != 0) {
    size_ = mine.size();
    const Request size = channel.send(&size_, word, 0, Traffic::control);
    co_await channel.done(size);
    if (mine.empty()) co_return;
    const Request rest = channel.send(mine.data(), length(mine), 0, Traffic::control);
    co_await channel.done(rest);
    co_return;
  }
  const auto ranks = static_cast<std::size_t>(channel.size());
  all.resize(ranks);
  sizes_.resize(ranks);
  all[0] = mine;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const Request size = channel.receive(&sizes_[rank], word, static_cast<int>(rank), Traffic::control);
    co_await channel.done(size);
    all[rank].resize(sizes_[rank]);
    if (all[rank].empty()) continue;
    const Request rest = channel.receive(all[rank].data(), length(all[rank]), static_cast<int>(rank), Traffic::control);
    co_await channel.done(rest);
  }
}

task<void> BlobExchange::scatter(Channel channel, const std::vector<Blob>& parts, Blob& mine) {
  if (channel.rank() != 0) {
    const Request size = channel.receive(&size_, word, 0, Traffic::control);
    co_await channel.done(size);
    mine.resize(size_);
    if (mine.empty()) co_return;
    const Request rest = channel.receive(mine.data(), length(mine), 0, Traffic::control);
    co_await channel.done(rest);
    co_return;
  }
  const auto ranks = static_cast<std::size_t>(channel.size());
  sizes_.resize(ranks);
  mine = parts[0];
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    sizes_[rank] = parts[rank].size();
    const Request size = channel.send(&sizes_[rank], word, static_cast<int>(rank), Traffic::control);
    co_await channel.done(size);
    if (parts[rank].empty()) continue;
    const Request rest = channel.send(parts[rank].data(), length(parts[rank]), static_cast<int>(rank), Traffic::control);
    co_await channel.done(rest);
  }
}

/// Sends along a binomial tree: rank r receives from the rank that is r without its highest bit.
task<void> BlobExchange::broadcast(Channel channel, Blob& blob) {
  const int rank = channel.rank(), ranks = channel.size();
  int bit = 1;
  while (bit <= rank) bit *= 2;
  if (rank > 0) {
    const int from = rank - bit / 2;
    const Request size = channel.receive(&size_, word, from, Traffic::control);
    co_await channel.done(size);
    blob.resize(size_);
    if (!blob.empty()) {
      const Request rest = channel.receive(blob.data(), length(blob), from, Traffic::control);
      co_await channel.done(rest);
    }
  }
  size_ = blob.size();
  for (; rank + bit < ranks; bit *= 2) {
    const Request size = channel.send(&size_, word, rank + bit, Traffic::control);
    co_await channel.done(size);
    if (blob.empty()) continue;
    const Request rest = channel.send(blob.data(), length(blob), rank + bit, Traffic::control);
    co_await channel.done(rest);
  }
}

}  // namespace weir
