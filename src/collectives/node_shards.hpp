// node_shards.hpp: the in-node steps of hierarchical algorithms (CommLib Algorithm 2, section 5.3). The elements are cut into as
// many shards as the smallest node has ranks. Shard s belongs to the rank of local rank s on every node. Other ranks of larger
// nodes give their part and receive the result.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/buffer.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/host_space.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// Maps the shards of [0, count) to their owners.
class ShardMap {
 public:
  ShardMap(const Topology& topology, std::int64_t count);
  /// Maps shards in other groups than nodes. This rank owns shard `mine`, or no shard if that is -1. `members` and `owners` take
  /// the place of node() and rail(), and must outlive the object.
  ShardMap(std::int64_t count, int shards, int mine, std::span<const int> members, std::span<const int> owners)
      : count_(count), shards_(shards), mine_(mine), node_(members), rail_(owners) {}

  [[nodiscard]] int shards() const { return shards_; }
  /// Returns my own shard, or -1 for ranks that own none.
  [[nodiscard]] int mine() const { return mine_; }
  [[nodiscard]] std::int64_t begin(int shard) const {
    return static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(count_), shard, shards_));
  }
  [[nodiscard]] std::int64_t size(int shard) const { return begin(shard + 1) - begin(shard); }
  /// Returns the part of k entries that `shard` has in iteration `iteration`. It is proportional to the shard's size, and at most
  /// all of it. The parts of all shards add up to k. The remainder goes to another shard each iteration: with k > 0, every shard
  /// that has elements has had a part within shards() iterations.
  [[nodiscard]] std::int64_t part_of(std::int64_t k, int shard, std::int64_t iteration) const;
  /// Return the ranks of my node, in the order of their local ranks, and the owners of my shard on all nodes.
  [[nodiscard]] std::span<const int> node() const { return node_; }
  [[nodiscard]] std::span<const int> rail() const { return rail_; }
  /// Returns where each shard begins, and where the last one ends.
  [[nodiscard]] std::vector<std::int64_t> bounds() const {
    std::vector<std::int64_t> all;
    for (int shard = 0; shard <= shards(); ++shard) all.push_back(begin(shard));
    return all;
  }

 private:
  std::int64_t count_;
  int shards_;
  int mine_;
  std::span<const int> node_, rail_;
};

/// Dense steps: sums my shard over the node, and gathers a whole array from all shards. `node` is the channel of the node's ranks.
/// Data goes through memory that the node's ranks share, or by messages if they share no memory.
template <class T>
class NodeReduceScatter {
 public:
  /// `in_place`: sums replace gradients, and messages are sent from there. Otherwise no message uses a gradient's memory.
  NodeReduceScatter(const ShardMap& map, const ExchangeSpec& spec, bool in_place) : map_(map), threads_(spec.threads) {
    if (map.node().size() == 1) return;
    shared_ = spec.shared;
    if (shared_) return;
    if (map.mine() >= 0) staging_ = Buffer<T>(std::min(map.size(0), chunk) * window);
    if (!in_place) copy_ = Buffer<T>(spec.count);  // messages that a timeout leaves in flight may outlive the caller's gradient
  }

  /// 1. Publishes the other owners' shards of `gradient`, and copies my own to `own`, from which reduce() reads it. If `own` is
  /// nullptr, reduce() reads the gradient, which saves a pass. Between publish and reduce, all ranks of the node must have
  /// synchronised, for example by a control message.
  void publish(int me, const T* gradient, T* own) {
    own_ = my_size() > 0 ? gradient + map_.begin(me) : nullptr;
    if (own != nullptr && own_ != nullptr) {
      copy_values(threads_, own_, own, my_size());
      own_ = own;
    }
    T* const shown = shared_ ? memory(me) : copy_.data();
    published_ = shown != nullptr ? shown : gradient;
    if (shown == nullptr) return;
    for (int other = 0; other < map_.shards(); ++other) {
      if (other != me) copy_values(threads_, gradient + map_.begin(other), shown + map_.begin(other), map_.size(other));
    }
    sync_shared_memory();
  }

  /// 2. Sets shard[0 .. size) on owners to the sum over the node's ranks of gradient[begin .. begin + size). `shard` may be the
  /// memory of my own part. Sums in the order me, me - 1, me - 2, ... of local ranks, cyclically.
  task<void> reduce(Channel node, T* shard) {
    if (shared_) {
      reduce_shared(node, shard);
      co_return;
    }
    const int me = node.rank(), ranks = node.size();
    const std::int64_t in_count = my_size();
    for (int s = 1; s < ranks; ++s) {
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      const std::int64_t out_count = to < map_.shards() ? map_.size(to) : 0;
      const std::int64_t steps = (std::max(in_count, out_count) + chunk - 1) / chunk;
      for (std::int64_t step = 0; step < steps + window; ++step) {
        Pair& pair = in_flight_[static_cast<std::size_t>(step % window)];
        if (step >= window) {
          co_await node.done(pair);
          const std::int64_t first = (step - window) * chunk;
          if (const std::int64_t size = part(in_count, first); size > 0) {
            if (s == 1) begin_sum(shard, first, size);
            kernels::host::add(slot(step), shard + first, size);
          }
        }
        pair = {};
        if (step >= steps) continue;
        const std::int64_t first = step * chunk, in = part(in_count, first), out = part(out_count, first);
        if (in > 0) pair[0] = node.receive(slot(step), bytes(in), from, Traffic::payload);
        if (out > 0) pair[1] = node.send(published_ + map_.begin(to) + first, bytes(out), to, Traffic::payload);
      }
    }
  }

  /// Sends every owner's `data[begin .. begin + size)` to all ranks of the node.
  task<void> allgather(Channel node, T* data) {
    const int me = node.rank(), ranks = node.size();
    if (shared_) {
      if (my_size() > 0) std::copy_n(data + map_.begin(me), my_size(), memory(me) + map_.begin(me));
      sync_shared_memory();
      words_ = {};
      co_await allreduce_control(node, words_.data(), 1, 0, words_.data() + 1);
      sync_shared_memory();
      for (int s = 1; s < ranks; ++s) {
        const int from = (me + s) % ranks;
        if (from < map_.shards()) std::copy_n(memory(from) + map_.begin(from), map_.size(from), data + map_.begin(from));
      }
      co_return;
    }
    for (int s = 1; s < ranks; ++s) {
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      Pair pair;
      if (from < map_.shards()) pair[0] = node.receive(data + map_.begin(from), bytes(map_.size(from)), from, Traffic::payload);
      if (map_.mine() >= 0) pair[1] = node.send(data + map_.begin(me), bytes(map_.size(me)), to, Traffic::payload);
      co_await node.done(pair);
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return staging_.bytes() + copy_.bytes() + (shared_ ? bytes(map_.begin(map_.shards())) : 0);
  }

 private:
  using Pair = std::array<Request, 2>;
  // A chunk is added while it is in the second-level cache and the next ones are in flight.
  static constexpr std::int64_t chunk = 65536, window = 4;

  [[nodiscard]] static std::int64_t part(std::int64_t count, std::int64_t first) {
    return std::clamp<std::int64_t>(count - first, 0, chunk);
  }
  [[nodiscard]] static std::int64_t bytes(std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); }
  [[nodiscard]] T* slot(std::int64_t step) { return staging_.data() + step % window * std::min(map_.size(0), chunk); }

  [[nodiscard]] std::int64_t my_size() const { return map_.mine() < 0 ? 0 : map_.size(map_.mine()); }
  [[nodiscard]] T* memory(int member) const { return reinterpret_cast<T*>(shared_.of(member)); }

  /// Starts the first sum of a chunk from my own values while they are in the cache.
  void begin_sum(T* shard, std::int64_t first, std::int64_t size) const {
    if (own_ != shard) std::copy_n(own_ + first, size, shard + first);
  }

  void reduce_shared(Channel node, T* shard) {
    sync_shared_memory();
    if (map_.mine() < 0) return;
    const int me = node.rank(), ranks = node.size();
    const std::int64_t begin = map_.begin(me);
    threads_.run_ranges(my_size(), least_of_pass, line, [&](PartRange mine) {
      for (std::int64_t first = mine.begin; first < mine.end; first += chunk) {
        const std::int64_t size = part(mine.end, first);
        begin_sum(shard, first, size);
        for (int s = 1; s < ranks; ++s) kernels::host::add(memory((me - s + ranks) % ranks) + begin + first, shard + first, size);
      }
    });
  }

  ShardMap map_;
  Threads threads_;
  SharedMemory shared_;
  const T* own_ = nullptr;        // my own shard of the gradient
  const T* published_ = nullptr;  // the memory that messages are sent from
  Buffer<T> copy_;                // a copy of gradients that must not be read later
  Buffer<T> staging_;
  std::array<std::uint64_t, 2> words_{};
  std::array<Pair, window> in_flight_;
};

/// How all owners' messages reach all ranks of a group: each directly to every other, or by recursive doubling, in which no rank
/// sends its own more than log2 P times. The first suits links within a node. The second suits networks, and shards of unequal
/// weight.
enum class Gathering { direct, doubling };

/// Sparse step: gathers all shards' updates on all ranks of the node.
template <class T, class Space = HostSpace<T>>
class NodeAllgather {
 public:
  /// `capacity` bounds the entries of each shard's update, `total` those of all together. `spec` is the whole one, before sharding.
  NodeAllgather(const ShardMap& map, std::int64_t capacity, std::int64_t total, const ExchangeSpec& spec,
                Gathering gathering = Gathering::direct)
      : map_(map),
        gathering_(gathering),
        spec_(spec),
        wire_{spec.wire_format, WireValues::native},
        space_(spec, total, map.shards()),
        cards_(map.node().size()),
        scratch_(map.node().size()),
        offset_(map.node().size() + 1),
        requests_(map.node().size() + at(map.shards())),
        messages_(coo::block_bytes<T>(total) + 8 * map.shards() + coo::block_bytes<T>(capacity)),
        staging_(space_, messages_.bytes()),
        indices_(total),
        values_(total) {}

  /// `mine` is my shard's outcome, undivided, with indices relative to the shard. For ranks without a shard it holds at most an
  /// input error. Returns the outcome of all shards together, divided. Input errors of any shard reach every rank.
  task<SparseOutcome<T>> run(Channel node, const SparseOutcome<T>& mine) {
    const int me = node.rank(), ranks = node.size();
    Card card{mine.input_error, static_cast<std::uint64_t>(mine.update.count), mine.counted};
    co_await allgather_control(node, reinterpret_cast<const std::byte*>(&card), sizeof(Card),
                               reinterpret_cast<std::byte*>(cards_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
    SparseOutcome<T> all;
    for (const Card& other : cards_) {
      all.input_error = std::max(all.input_error, other.input_error);
      all.counted |= other.counted;
    }
    if (all.input_error) co_return all;

    // Doubling needs the blocks of ranks me, me + 1, ... in this order, cyclically, with mine in place. Otherwise mine is behind
    // those of the others.
    const bool doubling = gathering_ == Gathering::doubling;
    offset_[0] = 0;
    for (int i = 0; i < ranks; ++i) {
      const int from = doubling ? (me + i) % ranks : i;
      offset_[at(i) + 1] = offset_[at(i)] + (from < map_.shards() ? slot_bytes(from) : 0);
    }
    const Message message = staging_.at(messages_.data(), doubling ? 0 : offset_.back());
    if (map_.mine() >= 0 && mine.update.count > 0) {
      space_.encode(wire_, mine.update.indices, mine.update.values, mine.update.count, 0, range(me), message);
      space_.push(message, message_bytes(me));
    }
    co_await space_.done(node);

    if (doubling)
      co_await allgatherv(node, offset_, message.wire);
    else
      co_await exchange_directly(node, message);
    space_.pull(staging_.at(messages_.data(), 0), offset_.back());
    decode(me, mine.update, all);
    co_await space_.done(node);
    co_return all;
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return space_.memory_bytes() + messages_.bytes() + staging_.bytes() + indices_.bytes() + values_.bytes();
  }

 private:
  struct Card {
    ErrorReport input_error;
    std::uint64_t count = 0;
    std::uint32_t counted = 0;
  };
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::uint64_t range(int shard) const { return static_cast<std::uint64_t>(map_.size(shard)); }
  [[nodiscard]] std::int64_t count(int shard) const { return static_cast<std::int64_t>(cards_[at(shard)].count); }
  [[nodiscard]] std::int64_t message_bytes(int shard) const { return wire::message_bytes<T>(wire_, count(shard), range(shard)); }
  [[nodiscard]] std::int64_t slot_bytes(int shard) const { return wire::slot_bytes<T>(wire_, count(shard), range(shard)); }

  task<void> exchange_directly(Channel node, Message mine) {
    const int me = node.rank(), ranks = node.size();
    std::size_t posted = 0;
    for (int shard = 0; shard < map_.shards(); ++shard) {
      const Message incoming = staging_.at(messages_.data(), offset_[at(shard)]);
      if (shard != me && message_bytes(shard) > 0)
        requests_[posted++] = node.receive(incoming.wire, message_bytes(shard), shard, Traffic::payload);
    }
    if (map_.mine() >= 0 && count(me) > 0) {
      for (int s = 1; s < ranks; ++s)
        requests_[posted++] = node.send(mine.wire, message_bytes(me), (me + s) % ranks, Traffic::payload);
    }
    co_await node.done(std::span(requests_).first(posted));
  }

  void decode(int me, SparseVector<T> own, SparseOutcome<T>& all) {
    const int ranks = static_cast<int>(map_.node().size());
    std::int64_t total = 0;
    for (int shard = 0; shard < map_.shards(); ++shard) {
      const auto base = static_cast<std::uint32_t>(map_.begin(shard));
      if (shard == me) {
        space_.copy_shifted(own, base, {values_.data() + total, indices_.data() + total});
      } else {
        const int place = gathering_ == Gathering::doubling ? (shard - me + ranks) % ranks : shard;
        space_.decode(wire_, messages_.data() + offset_[at(place)], message_bytes(shard), count(shard), base, range(shard),
                      indices_.data() + total, values_.data() + total);
      }
      total += count(shard);
    }
    space_.divide({values_.data(), nullptr, total}, spec_);
    all.update = {indices_.data(), values_.data(), total};
  }

  ShardMap map_;
  Gathering gathering_;
  ExchangeSpec spec_;
  wire::Wire wire_;  // sums of rounded values are not rounded again, since links in a node are fast
  Space space_;
  std::vector<Card> cards_, scratch_;
  std::vector<std::int64_t> offset_;  // of the blocks in messages_
  std::vector<Request> requests_;
  typename Space::template Array<std::byte> messages_;
  typename Space::StagingBuffer staging_;
  typename Space::template Array<std::uint32_t> indices_;
  typename Space::template Array<T> values_;
};

}  // namespace weir
