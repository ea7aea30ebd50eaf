// node_pipeline.hpp: the in-node steps of dense sums in place, block by block through memory that the node's ranks share. A block
// is copied, summed and copied back while it is in the cache, and the pages in use stay few.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/node_cards.hpp"
#include "collectives/node_shards.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// The bytes of shared memory of each rank for the pipeline's cards.
constexpr std::int64_t pipeline_cards = NodeCards::memory_for(sizeof(ErrorReport));

/// Returns the elements of a shard that are summed in one step. What the ranks copy in a step stays in their caches, and shorter
/// blocks would not pay for the meeting. Ranks may have different numbers of threads, and all must have the same blocks.
[[nodiscard]] constexpr std::int64_t pipeline_block(int shards, std::int64_t value_bytes) {
  constexpr std::int64_t bytes_of_rank = std::int64_t{1} << 19, least = 4096;
  return std::max(least, bytes_of_rank / value_bytes / shards / line * line);
}

/// Returns the elements of shared memory that each rank needs for a shard: for two blocks, or for the largest shard if that is
/// less.
[[nodiscard]] constexpr std::int64_t pipeline_place(std::int64_t count, int shards, std::int64_t value_bytes) {
  const std::int64_t largest = (count + shards - 1) / shards;
  return std::min(2 * pipeline_block(shards, value_bytes), (largest + line - 1) / line * line);
}
/// Returns the bytes of shared memory that each rank needs: for its places, and for the cards behind them. No other algorithm may
/// use them: a rank that starts the next run may not yet write where others still read its sums.
[[nodiscard]] constexpr std::int64_t pipeline_bytes(std::int64_t count, int shards, std::int64_t value_bytes) {
  return shards * pipeline_place(count, shards, value_bytes) * value_bytes + pipeline_cards;
}

/// Sums shards over the ranks of a node as NodeReduceScatter does, with the same bits. In step t, every rank copies block t of the
/// other owners' shards to its shared memory, sums block t - 1 of its own shard, and takes block t - 2 of the others' sums. All
/// meet after each step. Two blocks of a shard share its place in the memory by turns.
///
/// A rank's terms are in the places of the others' shards, and its sums in that of its own shard, as in NodeReduceScatter: the next
/// run may begin with its terms while other ranks still read these sums.
template <class T>
class NodePipeline {
 public:
  NodePipeline(const ShardMap& map, const ExchangeSpec& spec)
      : map_(map), threads_(spec.threads), factor_(static_cast<T>(1) / static_cast<T>(spec.divisor)) {
    if (spec.shared && map.node().size() > 1) {
      shared_ = spec.shared.last(pipeline_bytes(spec.count, map.shards(), sizeof(T)));
      cards_.emplace(shared_.last(pipeline_cards), sizeof(ErrorReport), *spec.topology);
      cards_->clear();
    }
    block_ = pipeline_block(map.shards(), sizeof(T));
    place_ = pipeline_place(spec.count, map.shards(), sizeof(T));
    steps_ = (map.size(0) + block_ - 1) / block_;
  }

  /// Returns whether the ranks share memory.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(shared_); }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return map_.shards() * place_ * static_cast<std::int64_t>(sizeof(T)) + pipeline_cards;
  }

  /// Each owner's shard of `data` becomes the node's sum.
  task<void> reduce_scatter(Channel node, T* data) {
    for (std::int64_t step = 0; step <= steps_; ++step) {
      publish(node.rank(), data, step);
      finish(node, data, step - 1, {.sum = true});
      if (step < steps_) co_await meet(node);
    }
  }
  /// Every rank gets the owners' shards.
  task<void> allgather(Channel node, T* data) {
    for (std::int64_t step = 0; step <= steps_; ++step) {
      finish(node, data, step, {.show = true});
      take(node, data, step - 1);
      if (step < steps_) co_await meet(node);
    }
  }
  /// Does both, and divides by the divisor in between, unless some rank has an error: then `data` stays as it is. Returns the
  /// largest error of any rank, which all know once they have met for the first time. `mine` is this rank's own.
  task<ErrorReport> allreduce(Channel node, T* data, ErrorReport mine) {
    for (std::int64_t step = 0; step <= steps_ + 1; ++step) {
      if (!mine) publish(node.rank(), data, step);
      finish(node, data, step - 1, {.sum = true, .scale = factor_ != 1, .show = true});
      take(node, data, step - 2);
      if (step == 0) std::memcpy(cards_->mine(), &mine, sizeof mine);
      if (step <= steps_) co_await meet(node);
      if (step != 0) continue;
      for (int r = 0; r < node.size(); ++r) mine = std::max(mine, cards_->template of<ErrorReport>(r));
      if (mine) break;
    }
    co_return mine;
  }

 private:
  static constexpr std::int64_t tile = 2048;  // of sums, stays in the first-level cache

  struct Work {
    bool sum = false, scale = false, show = false;
  };

  /// Returns the part of a shard in a step, empty before the first step and after the last.
  [[nodiscard]] PartRange block(int shard, std::int64_t step) const {
    const std::int64_t begin = map_.begin(shard), end = begin + map_.size(shard);
    return {std::clamp(begin + step * block_, begin, end), std::clamp(begin + (step + 1) * block_, begin, end)};
  }
  /// Returns where member `member` of the node has that part.
  [[nodiscard]] T* place(int member, int shard, std::int64_t step) const {
    return reinterpret_cast<T*>(shared_.of(member)) + shard * place_ + step % 2 * block_;
  }

  void publish(int me, const T* data, std::int64_t step) {
    for (int s = 1; s <= map_.shards(); ++s) {
      const int shard = (me + s) % map_.shards();
      if (shard == me) continue;
      const PartRange part = block(shard, step);
      if (part.count() > 0) copy_values(threads_, data + part.begin, place(me, shard, step), part.count());
    }
  }
  /// Does what `work` says with my shard, tile by tile.
  void finish(Channel node, T* data, std::int64_t step, Work work) {
    const int me = node.rank(), ranks = node.size();
    if (map_.mine() < 0) return;
    const PartRange part = block(me, step);
    threads_.run_ranges(part.count(), least_of_pass, line, [&](PartRange mine) {
      for (std::int64_t at = mine.begin; at < mine.end; at += tile) {
        T* const values = data + part.begin + at;
        const std::int64_t count = std::min(tile, mine.end - at);
        if (work.sum) {
          for (int s = 1; s < ranks; ++s) kernels::host::add(place((me - s + ranks) % ranks, me, step) + at, values, count);
        }
        if (work.scale) kernels::host::scale(values, count, factor_);
        if (work.show) std::copy_n(values, count, place(me, me, step) + at);
      }
    });
  }
  void take(Channel node, T* data, std::int64_t step) {
    const int me = node.rank();
    for (int s = 1; s < node.size(); ++s) {
      const int from = (me + s) % node.size();
      if (from >= map_.shards()) continue;
      const PartRange part = block(from, step);
      if (part.count() > 0) copy_values(threads_, place(from, from, step), data + part.begin, part.count());
    }
  }
  /// Waits until the ranks of the node have done what they do in this step.
  [[nodiscard]] Channel::CompletionAwaiter meet(Channel node) {
    cards_->publish();
    return node.done(*cards_);
  }

  ShardMap map_;
  Threads threads_;
  SharedMemory shared_;
  T factor_;
  std::int64_t block_ = 0, place_ = 0, steps_ = 0;
  std::optional<NodeCards> cards_;
};

}  // namespace weir
