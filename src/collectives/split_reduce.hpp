// split_reduce.hpp: split and reduce (Ok-Topk section 3.1.1): region j of all ranks' sparse vectors is summed at rank j.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/merge_tree.hpp"
#include "collectives/regions.hpp"

namespace weir {

template <class T, class Space>
class SplitReduce {
 public:
  struct Setup {
    int ranks = 1;
    std::int64_t largest_local = 0;    ///< most entries of a rank's vector
    std::int64_t region_capacity = 0;  ///< most entries of all ranks together in one region
    int window = 4;                    ///< exchanges in flight
    wire::Wire wire;
  };
  /// `space` must outlive the object.
  SplitReduce(Space& space, const Setup& setup)
      : setup_(setup),
        space_(space),
        tree_(space, setup.ranks, setup.region_capacity),
        counts_(setup.ranks),
        out_counts_(at(setup.ranks)),
        in_counts_(at(setup.ranks)),
        first_(at(setup.ranks + 1)),
        out_offset_(at(setup.ranks + 1)),
        requests_(at(2 * setup.ranks)),
        outgoing_(coo::block_bytes<T>(setup.largest_local) + 8 * setup.ranks),
        outgoing_landing_(space, outgoing_.bytes()),
        incoming_landing_(space, tree_.landing_bytes()) {}

  /// `counts[j]` entries of `local` lie in region j. After that reduced() is the sum of my region.
  task<void> run(Channel channel, SparseVector<T> local, const Boundaries& boundaries, const std::uint64_t* counts) {
    const int me = channel.rank(), ranks = setup_.ranks;
    const StageScope stage = channel.stage(Stage::split_reduce);
    first_[0] = 0;
    for (int j = 0; j < ranks; ++j) {
      out_counts_[at(j)] = static_cast<std::uint32_t>(counts[j]);
      first_[at(j) + 1] = first_[at(j)] + out_counts_[at(j)];
    }
    co_await counts_.run(channel, out_counts_.data(), in_counts_.data());
    tree_.begin(in_counts_.data());
    if (tree_.total() > setup_.region_capacity)
      fail(WEIR_ERR_INTERNAL, "a region of {} entries exceeds the {} planned", tree_.total(), setup_.region_capacity);

    out_offset_[1] = 0;
    for (int s = 1; s < ranks; ++s) {
      const int to = (me + s) % ranks;
      out_offset_[at(s) + 1] = out_offset_[at(s)] + wire::slot_bytes<T>(setup_.wire, out_counts_[at(to)], range(boundaries, to));
    }
    if constexpr (Space::asynchronous) {
      for (int s = 1; s < ranks; ++s) encode(s, (me + s) % ranks, local, boundaries);
      space_.push(outgoing(), out_offset_.back());
      co_await space_.done(channel);
    }

    // Destinations rotate, so that the ranks do not all send to one rank at once. A window of exchanges is in flight, and arrived
    // messages are reduced meanwhile.
    const std::uint64_t my_range = range(boundaries, me);
    for (int s = 0; s < ranks + setup_.window; ++s) {
      const int to = (me + s) % ranks, from = (me - s + 2 * ranks) % ranks;
      if (s == 0) {
        keep_own_region(local, me, static_cast<std::uint32_t>(boundaries[at(me)]));
      } else if (s < ranks) {
        const std::int64_t in = wire::message_bytes<T>(setup_.wire, in_counts_[at(from)], my_range);
        const std::int64_t out = wire::message_bytes<T>(setup_.wire, out_counts_[at(to)], range(boundaries, to));
        requests_[at(2 * s)] =
            in > 0 ? channel.receive(tree_.incoming(from, incoming_landing_).wire, in, from, Traffic::payload) : Request{};
        if constexpr (!Space::asynchronous) encode(s, to, local, boundaries);
        const Message message = outgoing() + out_offset_[at(s)];
        requests_[at(2 * s + 1)] = out > 0 ? channel.send(message.wire, out, to, Traffic::payload) : Request{};
      }
      const int finished = s - setup_.window;
      if (finished < 1 || finished >= ranks) continue;
      co_await channel.done(requests_[at(2 * finished)]);
      reduce((me - finished + ranks) % ranks, my_range);
      co_await channel.done(requests_[at(2 * finished + 1)]);
    }
  }

  /// Returns the sum, with indices relative to my region. Valid until the next run.
  [[nodiscard]] coo::Segment<T> reduced() { return tree_.root(); }
  /// Returns other memory with room for as many entries and select_padding more.
  [[nodiscard]] coo::Segment<T> spare() { return tree_.spare(); }
  /// Returns the memory of the sum, for messages once it is no longer needed.
  [[nodiscard]] Message spent() { return tree_.spent_root(incoming_landing_); }
  /// Returns the memory of messages that have all been sent, with room for largest_local entries in P messages.
  [[nodiscard]] Message outgoing() { return outgoing_landing_.at(outgoing_.data(), 0); }
  /// Returns the number of entries sent to others.
  [[nodiscard]] std::uint32_t sent(int me) const { return static_cast<std::uint32_t>(first_.back() - out_counts_[at(me)]); }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return tree_.memory_bytes() + outgoing_.bytes() + outgoing_landing_.bytes() + incoming_landing_.bytes();
  }

 private:
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] static std::uint64_t range(const Boundaries& boundaries, int region) {
    return boundaries[at(region) + 1] - boundaries[at(region)];
  }

  /// Encodes message s, for rank `to`.
  void encode(int s, int to, SparseVector<T> local, const Boundaries& boundaries) {
    space_.encode(setup_.wire, local.indices + first_[at(to)], local.values + first_[at(to)], out_counts_[at(to)],
                  static_cast<std::uint32_t>(boundaries[at(to)]), range(boundaries, to), outgoing() + out_offset_[at(s)]);
  }

  void keep_own_region(SparseVector<T> local, int me, std::uint32_t base) {
    const SparseVector<T> own{local.indices + first_[at(me)], local.values + first_[at(me)], out_counts_[at(me)]};
    if (own.count == 0) return;
    space_.copy_shifted(own, 0 - base, tree_.leaf(me));
    tree_.arrived(me);
  }

  void reduce(int from, std::uint64_t my_range) {
    const std::int64_t count = in_counts_[at(from)];
    if (count == 0) return;
    const coo::Segment<T> leaf = tree_.leaf(from);
    const Message message = tree_.incoming(from, incoming_landing_);
    const std::int64_t bytes = wire::message_bytes<T>(setup_.wire, count, my_range);
    space_.pull(message, bytes);
    space_.decode(setup_.wire, message.local, bytes, count, 0, my_range, leaf.indices, leaf.values);
    tree_.arrived(from);
  }

  Setup setup_;
  Space& space_;
  MergeTree<T, Space> tree_;
  ControlAlltoall<std::uint32_t> counts_;
  std::vector<std::uint32_t> out_counts_, in_counts_;
  std::vector<std::uint64_t> first_;      // my entries before each region
  std::vector<std::int64_t> out_offset_;  // of message s in outgoing_
  std::vector<Request> requests_;
  typename Space::template Array<std::byte> outgoing_;
  typename Space::StagingBuffer outgoing_landing_, incoming_landing_;
};

}  // namespace weir
