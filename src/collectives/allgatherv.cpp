#include "collectives/allgatherv.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace weir {

std::uint64_t allgatherv_max_sent(const std::vector<std::uint64_t>& sizes, std::vector<std::uint64_t>& prefix) {
  const std::size_t ranks = sizes.size();
  prefix[0] = 0;
  for (std::size_t i = 0; i < 2 * ranks; ++i) prefix[i + 1] = prefix[i] + sizes[i % ranks];
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::uint64_t sent = 0;
    for (std::size_t distance = 1; distance < ranks; distance *= 2)
      sent += prefix[rank + std::min(distance, ranks - distance)] - prefix[rank];
    most = std::max(most, sent);
  }
  return most;
}

std::uint64_t balanced_max_sent(const std::vector<std::uint64_t>& sizes) {
  const int ranks = static_cast<int>(sizes.size());
  const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  std::uint64_t most = 0, begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::uint64_t end = begin + sizes[static_cast<std::size_t>(rank)];
    const std::uint64_t kept_begin = std::clamp(part_begin(total, rank, ranks), begin, end);
    const std::uint64_t kept_end = std::clamp(part_begin(total, rank + 1, ranks), begin, end);
    most = std::max(most, end - begin - (kept_end - kept_begin));
    begin = end;
  }
  return most + total - total / static_cast<std::uint64_t>(ranks);
}

task<void> allgatherv(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory) {
  const int rank = channel.rank();
  const int size = channel.size();
  for (int distance = 1; distance < size; distance *= 2) {
    const auto from = static_cast<std::size_t>(distance);
    const auto part = static_cast<std::size_t>(std::min(distance, size - distance));
    std::array<Request, 2> both;
    both[0] =
        channel.receive(memory + offset[from], offset[from + part] - offset[from], (rank + distance) % size, Traffic::payload);
    both[1] = channel.send(memory, offset[part], (rank - distance + size) % size, Traffic::payload);
    co_await channel.done(both);
  }
}

task<void> allgatherv_ring(Channel channel, const std::vector<std::int64_t>& offset, std::byte* memory) {
  const int rank = channel.rank();
  const int size = channel.size();
  for (std::size_t s = 0; s + 1 < static_cast<std::size_t>(size); ++s) {
    std::array<Request, 2> both;
    both[0] = channel.receive(memory + offset[s + 1], offset[s + 2] - offset[s + 1], (rank + 1) % size, Traffic::payload);
    both[1] = channel.send(memory + offset[s], offset[s + 1] - offset[s], (rank + size - 1) % size, Traffic::payload);
    co_await channel.done(both);
  }
}

task<void> allgatherv_ring_in_place(Channel channel, const std::vector<std::int64_t>& begin, std::byte* memory) {
  const int rank = channel.rank();
  const int size = channel.size();
  for (int s = 0; s + 1 < size; ++s) {
    const auto out = static_cast<std::size_t>((rank + s) % size), in = static_cast<std::size_t>((rank + s + 1) % size);
    std::array<Request, 2> both;
    both[0] = channel.receive(memory + begin[in], begin[in + 1] - begin[in], (rank + 1) % size, Traffic::payload);
    both[1] = channel.send(memory + begin[out], begin[out + 1] - begin[out], (rank + size - 1) % size, Traffic::payload);
    co_await channel.done(both);
  }
}

}  // namespace weir
