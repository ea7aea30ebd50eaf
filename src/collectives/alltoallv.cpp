#include "collectives/alltoallv.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/buffer.hpp"
#include "base/error.hpp"

namespace weir {
namespace {

[[nodiscard]] std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Appends a block at `end`. Returns where the next block goes.
std::byte* append(const std::byte* block, std::int64_t bytes, std::byte* end) {
  if (bytes > 0) std::memcpy(end, block, static_cast<std::size_t>(bytes));
  return end + bytes;
}

/// The blocks of all ranks, one after another.
template <class Byte>
class Blocks {
 public:
  explicit Blocks(int ranks) : first_(ranks + 1) {}

  void set(Byte* data, std::span<const std::int64_t> bytes, std::int64_t capacity) {
    data_ = data;
    first_[0] = 0;
    std::partial_sum(bytes.begin(), bytes.end(), first_.data() + 1);
    const std::int64_t total = first_[first_.size() - 1];
    if (total > capacity) fail(WEIR_ERR_INTERNAL, "blocks of {} bytes exceed the {} planned", total, capacity);
  }
  [[nodiscard]] Byte* of(int rank) const { return data_ + first_[rank]; }
  [[nodiscard]] std::int64_t bytes(int rank) const { return first_[rank + 1] - first_[rank]; }
  [[nodiscard]] std::int64_t bytes(std::span<const int> ranks) const {
    std::int64_t sum = 0;
    for (const int rank : ranks) sum += bytes(rank);
    return sum;
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return first_.bytes(); }

 private:
  Byte* data_ = nullptr;
  Buffer<std::int64_t> first_;
};

class DirectAlltoallv final : public Alltoallv {
 public:
  DirectAlltoallv(const Topology& topology, Capacity capacity) : capacity_(capacity), out_(topology.size()), in_(topology.size()) {}

  task<void> run(Channel channel, const std::byte* out, std::span<const std::int64_t> out_bytes, std::byte* in,
                 std::span<const std::int64_t> in_bytes) override {
    const int me = channel.rank(), ranks = channel.size();
    const StageScope stage = channel.stage(Stage::alltoallv);
    out_.set(out, out_bytes, capacity_.sent);
    in_.set(in, in_bytes, capacity_.received);
    append(out_.of(me), out_.bytes(me), in_.of(me));
    for (int s = 1; s < ranks + direct_alltoallv_window; ++s) {
      Pair& pair = in_flight_[at(s % direct_alltoallv_window)];
      if (s > direct_alltoallv_window) co_await channel.done(pair);
      pair = {};
      if (s >= ranks) continue;
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      if (in_.bytes(from) > 0) pair[0] = channel.receive(in_.of(from), in_.bytes(from), from, Traffic::payload);
      if (out_.bytes(to) > 0) pair[1] = channel.send(out_.of(to), out_.bytes(to), to, Traffic::payload);
    }
  }
  [[nodiscard]] std::int64_t memory_bytes() const override { return out_.memory_bytes() + in_.memory_bytes(); }

 private:
  using Pair = std::array<Request, 2>;

  Capacity capacity_;
  Blocks<const std::byte> out_;
  Blocks<std::byte> in_;
  std::array<Pair, direct_alltoallv_window> in_flight_;
};

/// Maps ranks to nodes, and says where messages leave and enter a node.
class NodeMap {
 public:
  explicit NodeMap(const Topology& topology) : mine_(topology.node_of(topology.rank())), members_(at(topology.node_count())) {
    for (int rank = 0; rank < topology.size(); ++rank) members_[at(topology.node_of(rank))].push_back(rank);
  }

  [[nodiscard]] int nodes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int mine() const { return mine_; }
  /// Returns the node's ranks, ascending; the index is the local rank.
  [[nodiscard]] std::span<const int> members(int node) const { return members_[at(node)]; }
  [[nodiscard]] int size(int node) const { return static_cast<int>(members(node).size()); }
  /// Returns the local rank, on node `here`, through which all traffic with node `there` passes. Other nodes use other ranks in
  /// turn.
  [[nodiscard]] int gateway(int here, int there) const { return (there < here ? there : there - 1) % size(here); }
  /// Returns true if the blocks of the node's ranks are contiguous.
  [[nodiscard]] bool contiguous(int node) const { return members(node).back() - members(node).front() == size(node) - 1; }

 private:
  int mine_;
  std::vector<std::vector<int>> members_;
};

/// Memory of one run, handed out front to back, so that a run touches only what it uses.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::int64_t bytes) : memory_(bytes) {}
  void clear() { used_ = 0; }
  [[nodiscard]] std::byte* take(std::int64_t bytes) {
    if (bytes > memory_.size() - used_)
      fail(WEIR_ERR_INTERNAL, "messages of {} bytes exceed the {} planned", used_ + bytes, memory_.size());
    used_ += bytes;
    return memory_.data() + used_ - bytes;
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return memory_.bytes(); }

 private:
  Buffer<std::byte> memory_;
  std::int64_t used_ = 0;
};

/// Sends one message each way between two nodes, between their gateways to each other. Before that, ranks tell the gateways of
/// their node what each rank has for every rank of the other node, and how much it expects from there.
///
/// Messages between two ranks match in the order posted, and are awaited in it. Inside a node that order is: sizes, blocks to be
/// gathered, the block for the receiver itself, blocks from other nodes. Those of several nodes follow the order of routes_, which
/// is the same on all ranks of the node.
class ByNodeAlltoallv final : public Alltoallv {
 public:
  ByNodeAlltoallv(const Topology& topology, Capacity capacity)
      : capacity_(capacity),
        map_(topology),
        members_(map_.members(map_.mine())),
        me_(topology.local_rank(topology.rank())),
        out_(topology.size()),
        in_(topology.size()),
        sent_sizes_first_(members_.size() + 1) {
    make_routes();
    lay_out_sizes();
    for (const Route& route : routes_) {
      if (route.gateway == me_) crossings_.emplace_back(route, members_.size());
    }
    size_receives_.resize(members_.size());
    neighbour_receives_.resize(members_.size());
    slice_receives_.resize(routes_.size());
    // Each neighbour gets sizes, a block and a slice per crossing. Each route has one message.
    sends_.reserve(members_.size() * (2 + crossings_.size()) + routes_.size());
    arena_ = Arena(arena_bytes());
  }

  task<void> run(Channel channel, const std::byte* out, std::span<const std::int64_t> out_bytes, std::byte* in,
                 std::span<const std::int64_t> in_bytes) override {
    const Channel node = channel.group(members_);
    out_.set(out, out_bytes, capacity_.sent);
    in_.set(in, in_bytes, capacity_.received);
    arena_.clear();
    sends_.clear();

    // 1. Ranks tell the gateways of their node what to expect. Everything that needs no answer is sent at once.
    StageScope stage = channel.stage(Stage::alltoallv_sizes);
    exchange_sizes(node);
    send_to_gateways(node);
    send_to_neighbours(node);
    co_await channel.done(size_receives_);
    for (Crossing& crossing : crossings_) receive_for(crossing, node, channel);
    receive_from_neighbours(node);
    receive_from_gateways(node);

    // 2. Gateways join the node's blocks for another node and send them across.
    stage.next(Stage::alltoallv_gather);
    for (Crossing& crossing : crossings_) {
      co_await channel.done(crossing.gathers);
      send_across(crossing, channel);
    }

    // 3. Gateways pass on to the ranks of their node what has arrived for them.
    stage.next(Stage::alltoallv_scatter);
    for (Crossing& crossing : crossings_) {
      co_await channel.done(crossing.arrival);
      scatter(crossing, node);
    }

    stage.next(Stage::alltoallv_rest);
    co_await channel.done(neighbour_receives_);
    co_await channel.done(slice_receives_);
    unpack_slices();
    co_await channel.done(sends_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return arena_.memory_bytes() + out_.memory_bytes() + in_.memory_bytes() + sent_sizes_.bytes() + received_sizes_.bytes();
  }

 private:
  /// The way to and from another node.
  struct Route {
    int node = 0;
    int gateway = 0;                   ///< a local rank of my node
    int peer = 0;                      ///< rank: that node's gateway to mine
    std::int64_t first_word = 0;       ///< offset of its sizes in a message of sizes
    const std::byte* slice = nullptr;  ///< my blocks from there, still to be unpacked
  };

  /// A route whose gateway is this rank.
  struct Crossing {
    Crossing(const Route& of_route, std::size_t ranks) : route(&of_route), gathered(ranks), gathers(ranks) {}
    const Route* route;
    std::vector<const std::byte*> gathered;  ///< by local rank: its blocks for the other node
    std::vector<Request> gathers;
    std::int64_t leaving = 0;
    const std::byte* arrived = nullptr;
    Request arrival;
  };

  /// In round r nodes A and (r - A) mod N send to each other, so each node has one partner.
  void make_routes() {
    const int mine = map_.mine(), nodes = map_.nodes();
    for (int round = 0; round < nodes; ++round) {
      const int node = (round - mine + nodes) % nodes;
      if (node == mine) continue;
      Route& route = routes_.emplace_back();
      route.node = node;
      route.gateway = map_.gateway(mine, node);
      route.peer = map_.members(node)[at(map_.gateway(node, mine))];
    }
  }

  /// Lays out the one message from each rank to each gateway. For each of the gateway's routes it holds the bytes for every rank of
  /// the other node, and the bytes from that node.
  void lay_out_sizes() {
    std::vector<std::int64_t> words(members_.size());
    for (Route& route : routes_) {
      route.first_word = words[at(route.gateway)];
      words[at(route.gateway)] += map_.size(route.node) + 1;
    }
    std::partial_sum(words.begin(), words.end(), sent_sizes_first_.begin() + 1);
    sent_sizes_ = Buffer<std::int64_t>(sent_sizes_first_.back());
    received_sizes_ = Buffer<std::int64_t>(words[at(me_)] * ranks());
  }

  [[nodiscard]] std::int64_t arena_bytes() const {
    std::int64_t bytes = 0;
    if (!crossings_.empty()) bytes += (2 * ranks() - 1) * capacity_.sent + ranks() * capacity_.received;
    const bool packed =
        std::any_of(routes_.begin(), routes_.end(), [this](const Route& route) { return !map_.contiguous(route.node); });
    if (packed) bytes += capacity_.sent + capacity_.received;
    return bytes;
  }

  /// Returns how many ranks my node has.
  [[nodiscard]] int ranks() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] std::int64_t words_for(int gateway) const {
    return sent_sizes_first_[at(gateway) + 1] - sent_sizes_first_[at(gateway)];
  }
  /// Returns what local rank `rank` sends to every rank of the other node, for a route whose gateway is this rank.
  [[nodiscard]] std::span<const std::int64_t> bytes_out(int rank, const Route& route) const {
    return {received_sizes_of(rank, route), at(map_.size(route.node))};
  }
  /// Returns what that rank expects from all ranks of the other node.
  [[nodiscard]] std::int64_t bytes_in(int rank, const Route& route) const {
    return received_sizes_of(rank, route)[map_.size(route.node)];
  }
  [[nodiscard]] const std::int64_t* received_sizes_of(int rank, const Route& route) const {
    return received_sizes_.data() + rank * words_for(me_) + route.first_word;
  }

  void exchange_sizes(Channel node) {
    for (const Route& route : routes_) {
      std::int64_t* word = sent_sizes_.data() + sent_sizes_first_[at(route.gateway)] + route.first_word;
      for (const int rank : map_.members(route.node)) *word++ = out_.bytes(rank);
      *word = in_.bytes(map_.members(route.node));
    }
    std::copy_n(sent_sizes_.data() + sent_sizes_first_[at(me_)], words_for(me_), received_sizes_.data() + me_ * words_for(me_));
    for (int s = 1; s < ranks(); ++s) {
      const int to = (me_ + s) % ranks(), from = (me_ - s + ranks()) % ranks();
      const std::int64_t out = words_for(to), in = words_for(me_);
      if (in > 0) size_receives_[at(from)] = node.receive(received_sizes_.data() + from * in, 8 * in, from, Traffic::control);
      if (out > 0) sends_.push_back(node.send(sent_sizes_.data() + sent_sizes_first_[at(to)], 8 * out, to, Traffic::control));
    }
  }

  void send_to_gateways(Channel node) {
    for (const Route& route : routes_) {
      const std::int64_t bytes = out_.bytes(map_.members(route.node));
      if (bytes == 0 || route.gateway == me_) continue;
      sends_.push_back(node.send(pack(route.node, bytes), bytes, route.gateway, Traffic::payload));
    }
  }

  [[nodiscard]] const std::byte* pack(int to_node, std::int64_t bytes) {
    const std::span<const int> members = map_.members(to_node);
    if (map_.contiguous(to_node)) return out_.of(members.front());
    std::byte* const packed = arena_.take(bytes);
    std::byte* end = packed;
    for (const int rank : members) end = append(out_.of(rank), out_.bytes(rank), end);
    return packed;
  }

  void send_to_neighbours(Channel node) {
    const int self = members_[at(me_)];
    append(out_.of(self), out_.bytes(self), in_.of(self));
    for (int s = 1; s < ranks(); ++s) {
      const int to = (me_ + s) % ranks(), rank = members_[at(to)];
      if (out_.bytes(rank) > 0) sends_.push_back(node.send(out_.of(rank), out_.bytes(rank), to, Traffic::payload));
    }
  }

  void receive_from_neighbours(Channel node) {
    for (int s = 1; s < ranks(); ++s) {
      const int from = (me_ - s + ranks()) % ranks(), rank = members_[at(from)];
      neighbour_receives_[at(from)] = {};
      if (in_.bytes(rank) == 0) continue;
      neighbour_receives_[at(from)] = node.receive(in_.of(rank), in_.bytes(rank), from, Traffic::payload);
    }
  }

  /// Receives my node's blocks for the other node, and the other node's blocks for mine.
  void receive_for(Crossing& crossing, Channel node, Channel channel) {
    const Route& route = *crossing.route;
    std::int64_t arriving = 0;
    crossing.leaving = 0;
    for (int from = 0; from < ranks(); ++from) {
      arriving += bytes_in(from, route);
      const std::span<const std::int64_t> sizes = bytes_out(from, route);
      const std::int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      crossing.leaving += bytes;
      crossing.gathers[at(from)] = {};
      if (bytes == 0 || from == me_) continue;
      std::byte* const gathered = arena_.take(bytes);
      crossing.gathered[at(from)] = gathered;
      crossing.gathers[at(from)] = node.receive(gathered, bytes, from, Traffic::payload);
    }
    crossing.arrival = {};
    if (arriving == 0) return;
    std::byte* const arrived = arena_.take(arriving);
    crossing.arrived = arrived;
    crossing.arrival = channel.receive(arrived, arriving, route.peer, Traffic::payload);
  }

  void receive_from_gateways(Channel node) {
    for (std::size_t i = 0; i < routes_.size(); ++i) {
      Route& route = routes_[i];
      const std::int64_t bytes = in_.bytes(map_.members(route.node));
      slice_receives_[i] = {};
      route.slice = nullptr;
      if (bytes == 0 || route.gateway == me_) continue;
      std::byte* slice = in_.of(map_.members(route.node).front());
      if (!map_.contiguous(route.node)) route.slice = slice = arena_.take(bytes);
      slice_receives_[i] = node.receive(slice, bytes, route.gateway, Traffic::payload);
    }
  }

  /// Orders blocks by destination, then by source, so that the blocks for one rank are contiguous.
  void send_across(Crossing& crossing, Channel channel) {
    if (crossing.leaving == 0) return;
    const Route& route = *crossing.route;
    const std::span<const int> destinations = map_.members(route.node);
    std::byte* const message = arena_.take(crossing.leaving);
    std::byte* end = message;
    for (std::size_t to = 0; to < destinations.size(); ++to) {
      for (int from = 0; from < ranks(); ++from) {
        const std::int64_t bytes = bytes_out(from, route)[to];
        const std::byte*& gathered = crossing.gathered[at(from)];
        end = append(from == me_ ? out_.of(destinations[to]) : gathered, bytes, end);
        if (from != me_) gathered += bytes;
      }
    }
    sends_.push_back(channel.send(message, crossing.leaving, route.peer, Traffic::payload));
  }

  void scatter(const Crossing& crossing, Channel node) {
    const Route& route = *crossing.route;
    const std::byte* slice = crossing.arrived;
    for (int to = 0; to < ranks(); ++to) {
      const std::int64_t bytes = bytes_in(to, route);
      if (to == me_)
        unpack(slice, route.node);
      else if (bytes > 0)
        sends_.push_back(node.send(slice, bytes, to, Traffic::payload));
      slice += bytes;
    }
  }

  void unpack_slices() {
    for (const Route& route : routes_) {
      if (route.slice != nullptr) unpack(route.slice, route.node);
    }
  }

  void unpack(const std::byte* slice, int from_node) {
    for (const int rank : map_.members(from_node)) {
      append(slice, in_.bytes(rank), in_.of(rank));
      slice += in_.bytes(rank);
    }
  }

  Capacity capacity_;
  NodeMap map_;
  std::span<const int> members_;  // of my node
  int me_;                        // local rank
  Blocks<const std::byte> out_;
  Blocks<std::byte> in_;
  std::vector<Route> routes_;
  std::vector<Crossing> crossings_;
  std::vector<std::int64_t> sent_sizes_first_;        // words of sent_sizes_ before those for each gateway
  Buffer<std::int64_t> sent_sizes_, received_sizes_;  // my sizes, by gateway; the sizes from the node's ranks for me
  std::vector<Request> size_receives_, neighbour_receives_, slice_receives_, sends_;
  Arena arena_;
};

}  // namespace

std::unique_ptr<Alltoallv> make_direct_alltoallv(const Topology& topology, Alltoallv::Capacity capacity) {
  return std::make_unique<DirectAlltoallv>(topology, capacity);
}

std::unique_ptr<Alltoallv> make_by_node_alltoallv(const Topology& topology, Alltoallv::Capacity capacity) {
  if (topology.node_count() == 1 || topology.largest_node() == 1) return make_direct_alltoallv(topology, capacity);
  return std::make_unique<ByNodeAlltoallv>(topology, capacity);
}

}  // namespace weir
