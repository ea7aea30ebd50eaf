#include "collectives/control.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "model/steps.hpp"

namespace weir {

int allreduce_control_messages(int ranks) {
  const int doubling = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  return std::has_single_bit(static_cast<unsigned>(ranks)) ? doubling : doubling + 1;
}

namespace {

void combine(const std::uint64_t* other, std::uint64_t* data, std::int64_t count, std::int64_t maxima) {
  for (std::int64_t i = 0; i < maxima; ++i) data[i] = std::max(data[i], other[i]);
  for (std::int64_t i = maxima; i < count; ++i) data[i] += other[i];
}

}  // namespace

int alltoall_control_messages(int ranks) {
  return ranks <= model::most_direct_words ? ranks - 1 : static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

task<void> allreduce_control(Channel channel, std::uint64_t* data, std::int64_t count, std::int64_t maxima,
                             std::uint64_t* scratch) {
  const int rank = channel.rank();
  const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(channel.size())));
  const int extra = channel.size() - doubling;
  const std::int64_t bytes = count * 8;

  if (rank >= doubling) {
    co_await channel.done(channel.send(data, bytes, rank - doubling, Traffic::control));
    co_await channel.done(channel.receive(data, bytes, rank - doubling, Traffic::control));
    co_return;
  }
  if (rank < extra) {
    co_await channel.done(channel.receive(scratch, bytes, rank + doubling, Traffic::control));
    combine(scratch, data, count, maxima);
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    const int partner = rank ^ distance;
    std::array<Request, 2> both;
    both[0] = channel.receive(scratch, bytes, partner, Traffic::control);
    both[1] = channel.send(data, bytes, partner, Traffic::control);
    co_await channel.done(both);
    combine(scratch, data, count, maxima);
  }
  if (rank < extra) co_await channel.done(channel.send(data, bytes, rank + doubling, Traffic::control));
}

task<void> allgather_control(Channel channel, const std::byte* mine, std::int64_t bytes, std::byte* all, std::byte* scratch) {
  const int rank = channel.rank();
  const int size = channel.size();
  std::memcpy(scratch, mine, static_cast<std::size_t>(bytes));
  for (int distance = 1; distance < size; distance *= 2) {
    const std::int64_t part = std::min(distance, size - distance) * bytes;
    std::array<Request, 2> both;
    both[0] = channel.receive(scratch + distance * bytes, part, (rank + distance) % size, Traffic::control);
    both[1] = channel.send(scratch, part, (rank - distance + size) % size, Traffic::control);
    co_await channel.done(both);
  }
  // `scratch` starts with my own block; `all` starts with rank 0's.
  const std::int64_t tail = (size - rank) * bytes;
  std::memcpy(all + rank * bytes, scratch, static_cast<std::size_t>(tail));
  std::memcpy(all, scratch + tail, static_cast<std::size_t>(rank * bytes));
}

task<void> broadcast_control(Channel channel, std::byte* data, std::int64_t bytes, int root) {
  const int size = channel.size();
  const int place = (channel.rank() - root + size) % size;  // in the tree, whose root has position 0
  int below = 1;                                            // distance to the farthest child, doubled
  while (below < size && (place & below) == 0) below *= 2;
  if (place != 0) co_await channel.done(channel.receive(data, bytes, (place - below + root) % size, Traffic::control));
  for (int distance = below / 2; distance > 0; distance /= 2) {
    if (place + distance >= size) continue;
    co_await channel.done(channel.send(data, bytes, (place + distance + root) % size, Traffic::control));
  }
}

template <class Word>
ControlAlltoall<Word>::ControlAlltoall(int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  if (ranks <= model::most_direct_words) {
    requests_.resize(2 * all);
  } else {
    for (std::vector<Word>* const words : {&words_, &sent_, &received_}) words->resize(all);
  }
}

template <class Word>
task<void> ControlAlltoall<Word>::run(Channel channel, const Word* out, Word* in) {
  return channel.size() <= model::most_direct_words ? run_directly(channel, out, in) : run_by_bruck(channel, out, in);
}

template <class Word>
task<void> ControlAlltoall<Word>::run_directly(Channel channel, const Word* out, Word* in) {
  const int me = channel.rank(), ranks = channel.size();
  in[me] = out[me];
  std::size_t posted = 0;
  for (int s = 1; s < ranks; ++s) {
    const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
    requests_[posted++] = channel.receive(&in[from], sizeof(Word), from, Traffic::control);
    requests_[posted++] = channel.send(&out[to], sizeof(Word), to, Traffic::control);
  }
  co_await channel.done(std::span(requests_).first(posted));
}

template <class Word>
task<void> ControlAlltoall<Word>::run_by_bruck(Channel channel, const Word* out, Word* in) {
  const int me = channel.rank(), ranks = channel.size();
  // words_[i] is for the rank i places behind this one. Those with a bit of i set move on by as many places.
  for (int i = 0; i < ranks; ++i) words_[static_cast<std::size_t>(i)] = out[(me + i) % ranks];
  for (int places = 1; places < ranks; places *= 2) {
    std::int64_t count = 0;
    for (int i = places; i < ranks; ++i) {
      if ((i & places) != 0) sent_[static_cast<std::size_t>(count++)] = words_[static_cast<std::size_t>(i)];
    }
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(Word));
    std::array<Request, 2> both;
    both[0] = channel.receive(received_.data(), bytes, (me - places + ranks) % ranks, Traffic::control);
    both[1] = channel.send(sent_.data(), bytes, (me + places) % ranks, Traffic::control);
    co_await channel.done(both);
    count = 0;
    for (int i = places; i < ranks; ++i) {
      if ((i & places) != 0) words_[static_cast<std::size_t>(i)] = received_[static_cast<std::size_t>(count++)];
    }
  }
  for (int i = 0; i < ranks; ++i) in[(me - i + ranks) % ranks] = words_[static_cast<std::size_t>(i)];
}

template class ControlAlltoall<std::uint32_t>;
template class ControlAlltoall<std::int64_t>;

}  // namespace weir
