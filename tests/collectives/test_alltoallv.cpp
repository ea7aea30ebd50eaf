// Alltoallv: every byte encodes where it comes from and where it belongs.
#include <numeric>

#include "base/splitmix.hpp"
#include "collectives/alltoallv.hpp"
#include "collectives/control.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

using Make = std::unique_ptr<Alltoallv> (*)(const Topology&, Alltoallv::Capacity);
using Machine = std::vector<Location>;

std::uint64_t noise(std::uint64_t seed, int from, int to) {
  return splitmix64(seed ^ splitmix64(static_cast<std::uint64_t>(from) << 32 ^ static_cast<std::uint64_t>(to)));
}

std::int64_t sum(const std::vector<std::int64_t>& list) { return std::accumulate(list.begin(), list.end(), std::int64_t{0}); }

/// The number of bytes from every rank to every other in one run.
struct Sizes {
  Sizes(int number_of_ranks, const std::function<std::int64_t(int from, int to)>& bytes) : ranks(number_of_ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      sent_by.emplace_back();
      received_by.emplace_back();
      for (int peer = 0; peer < ranks; ++peer) {
        sent_by.back().push_back(bytes(rank, peer));
        received_by.back().push_back(bytes(peer, rank));
      }
    }
  }
  int ranks;
  std::vector<std::vector<std::int64_t>> sent_by, received_by;
};

/// Returns patterns: equal, random and mostly empty blocks, everything to one rank, a rank that sends nothing, one that receives
/// nothing, only to oneself, nothing, larger blocks.
std::vector<Sizes> all_sizes(int ranks, std::uint64_t seed) {
  const auto random = [=](int from, int to) { return static_cast<std::int64_t>(noise(seed, from, to) % 300); };
  return {Sizes(ranks, [](int, int) { return 24; }),
          Sizes(ranks, random),
          Sizes(ranks, [=](int from, int to) { return noise(seed + 1, from, to) % 4 == 0 ? random(from, to) : 0; }),
          Sizes(ranks, [=](int from, int to) { return to == ranks / 2 ? random(from, to) : 0; }),
          Sizes(ranks, [=](int from, int to) { return from == ranks - 1 ? 0 : random(from, to); }),
          Sizes(ranks, [=](int from, int to) { return to == 0 ? 0 : random(from, to); }),
          Sizes(ranks, [=](int from, int to) { return from == to ? random(from, to) : 0; }),
          Sizes(ranks, [](int, int) { return 0; }),
          Sizes(ranks, [=](int from, int to) { return 10 * random(from, to); })};
}

/// Returns exactly the room that these patterns need.
Alltoallv::Capacity capacity_for(const std::vector<Sizes>& runs) {
  Alltoallv::Capacity capacity;
  for (const Sizes& sizes : runs) {
    for (const auto& of_rank : sizes.sent_by) capacity.sent = std::max(capacity.sent, sum(of_rank));
    for (const auto& of_rank : sizes.received_by) capacity.received = std::max(capacity.received, sum(of_rank));
  }
  return capacity;
}

void append_block(std::vector<std::byte>& data, int from, int to, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) data.push_back(static_cast<std::byte>(noise(static_cast<std::uint64_t>(i), from, to)));
}

/// One rank's end of one run.
struct Exchange {
  Exchange(const Sizes& sizes, int rank)
      : out_bytes(sizes.sent_by[static_cast<std::size_t>(rank)]), in_bytes(sizes.received_by[static_cast<std::size_t>(rank)]) {
    for (int peer = 0; peer < sizes.ranks; ++peer) {
      append_block(out, rank, peer, out_bytes[static_cast<std::size_t>(peer)]);
      append_block(expected, peer, rank, in_bytes[static_cast<std::size_t>(peer)]);
    }
    constexpr std::byte untouched{0xa5};
    expected.resize(expected.size() + 16, untouched);  // beyond the end
    in.resize(expected.size(), untouched);
    run.tag = 1;
  }
  void perform(Engine& engine, const Topology& topology, Alltoallv& alltoallv) {
    {
      const FramePool::Scope scope(engine.frames());
      run.root = alltoallv.run(Channel(engine, topology, run, traffic), out.data(), out_bytes, in.data(), in_bytes);
    }
    engine.start(run);
    engine.drive(run);
    if (run.error) std::rethrow_exception(run.error);
  }
  std::vector<std::int64_t> out_bytes, in_bytes;
  std::vector<std::byte> out, in, expected;
  Run run;
  TrafficCount traffic;
};

/// Performs all runs, one after another, on the same object. Returns the traffic by run and rank.
std::vector<std::vector<TrafficCount>> check_runs(Make make, const Machine& machine, const std::vector<Sizes>& runs,
                                                  std::uint64_t seed) {
  const int ranks = static_cast<int>(machine.size());
  std::vector<std::vector<TrafficCount>> traffic(runs.size(), std::vector<TrafficCount>(machine.size()));
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              const Topology topology(machine, comm.rank());
              const auto alltoallv = make(topology, capacity_for(runs));
              for (std::size_t i = 0; i < runs.size(); ++i) {
                Exchange exchange(runs[i], comm.rank());
                exchange.perform(comm.state()->engine, topology, *alltoallv);
                check.that(exchange.in == exchange.expected, "run " + std::to_string(i) + " rank " + std::to_string(comm.rank()));
                traffic[i][static_cast<std::size_t>(comm.rank())] = exchange.traffic;
              }
            },
            {.seed = seed});
  REQUIRE(check.failure() == "");
  return traffic;
}

void check_both(const Machine& machine, std::uint64_t seed) {
  const std::vector<Sizes> runs = all_sizes(static_cast<int>(machine.size()), seed);
  check_runs(make_direct_alltoallv, machine, runs, seed);
  check_runs(make_by_node_alltoallv, machine, runs, seed);
}

/// Rank r is on node node_of(r).
Machine placed(int ranks, const std::function<std::uint64_t(int)>& node_of) {
  Machine machine(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) store_name(machine[static_cast<std::size_t>(rank)].host, std::to_string(node_of(rank)));
  return machine;
}

Machine interleaved(int ranks, int nodes) {
  return placed(ranks, [=](int rank) { return static_cast<std::uint64_t>(rank % nodes); });
}

/// Returns the bytes between nodes, summed over their ranks: [from node][to node].
std::vector<std::vector<std::int64_t>> between_nodes(const Sizes& sizes, const Topology& topology) {
  const auto nodes = static_cast<std::size_t>(topology.node_count());
  std::vector<std::vector<std::int64_t>> bytes(nodes, std::vector<std::int64_t>(nodes));
  for (int from = 0; from < sizes.ranks; ++from) {
    for (int to = 0; to < sizes.ranks; ++to)
      bytes[static_cast<std::size_t>(topology.node_of(from))][static_cast<std::size_t>(topology.node_of(to))] +=
          sizes.sent_by[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  return bytes;
}

struct Total {
  std::int64_t across = 0, messages_across = 0, payload = 0, control = 0;
  std::int64_t payload_received = 0, control_received = 0;
};

Total total_of(const std::vector<TrafficCount>& traffic) {
  Total total;
  for (const TrafficCount& count : traffic) {
    for (const Level level : {Level::switch_group, Level::system}) {
      total.across += count.bytes_sent[static_cast<std::size_t>(level)];
      total.messages_across += count.messages_sent[static_cast<std::size_t>(level)];
    }
    total.payload += count.kind_sent[static_cast<std::size_t>(Traffic::payload)];
    total.control += count.kind_sent[static_cast<std::size_t>(Traffic::control)];
    total.payload_received += count.kind_received[static_cast<std::size_t>(Traffic::payload)];
    total.control_received += count.kind_received[static_cast<std::size_t>(Traffic::control)];
  }
  return total;
}

}  // namespace

TEST_CASE("alltoallv: blocks arrive where they belong, whatever the placement", "[alltoallv]") {
  for (const int ranks : {1, 2, 3, 5, 7, 33}) {
    for (const std::uint64_t seed : {0, 5}) {
      CAPTURE(ranks, seed);
      check_both(Machine(static_cast<std::size_t>(ranks)), seed);
      check_both(interleaved(ranks, ranks), seed);
      check_both(interleaved(ranks, 2), seed);
      check_both(interleaved(ranks, 3), seed);
      check_both(placed(ranks, [=](int rank) { return noise(seed, rank, ranks) % 4; }), seed);
      check_both(placed(ranks, [=](int rank) { return noise(seed, rank, 0) % static_cast<std::uint64_t>(ranks); }), seed);
    }
  }
}

TEST_CASE("alltoallv: nodes of different sizes, more nodes than ranks on them, switches", "[alltoallv]") {
  for (const char* machine :
       {"nodes:3,1,2", "nodes:1,4", "nodes:5,1,1,1,1,1,1", "node:4 rank:2", "switch:2 node:2 rank:3", "node:2 rank:5"}) {
    for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
      CAPTURE(machine, seed);
      check_both(synthetic_machine(machine), seed);
    }
  }
}

TEST_CASE("alltoallv: direct traffic is the blocks and nothing else", "[alltoallv]") {
  const Machine machine = synthetic_machine("nodes:3,1,2");
  const std::vector<Sizes> runs = all_sizes(6, 3);
  const auto traffic = check_runs(make_direct_alltoallv, machine, runs, 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t rank = 0; rank < machine.size(); ++rank) {
      std::int64_t messages = 0, blocks = 0;
      for (std::size_t peer = 0; peer < machine.size(); ++peer) {
        messages += peer != rank && runs[i].sent_by[rank][peer] > 0;
        blocks += peer == rank ? 0 : runs[i].sent_by[rank][peer];
      }
      const TrafficCount& count = traffic[i][rank];
      REQUIRE(std::accumulate(count.messages_sent.begin(), count.messages_sent.end(), std::int64_t{0}) == messages);
      REQUIRE(count.kind_sent == std::array<std::int64_t, 2>{blocks, 0});
    }
  }
}

TEST_CASE("alltoallv: by node, one message passes from node to node, and none where there is nothing to say", "[alltoallv]") {
  for (const Machine& machine : {synthetic_machine("nodes:3,1,2"), synthetic_machine("switch:2 node:2 rank:3"),
                                 synthetic_machine("node:2 rank:5"), interleaved(7, 3)}) {
    const Topology topology(machine, 0);
    const std::vector<Sizes> runs = all_sizes(topology.size(), 3);
    const auto traffic = check_runs(make_by_node_alltoallv, machine, runs, 0);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      CAPTURE(topology.tree(), i);
      std::int64_t across = 0, messages = 0, inside = 0, words = 0;
      const auto bytes = between_nodes(runs[i], topology);
      for (std::size_t from = 0; from < bytes.size(); ++from) {
        for (std::size_t to = 0; to < bytes.size(); ++to) {
          (from == to ? inside : across) += bytes[from][to];
          messages += from != to && bytes[from][to] > 0;
        }
      }
      for (int rank = 0; rank < topology.size(); ++rank) {
        inside -= runs[i].sent_by[static_cast<std::size_t>(rank)][static_cast<std::size_t>(rank)];
        const Topology here(machine, rank);
        words += here.size() - static_cast<std::int64_t>(here.node_peers().size()) + here.node_count() - 1;
      }
      const Total total = total_of(traffic[i]);
      REQUIRE(total.across == across);
      REQUIRE(total.messages_across == messages);
      REQUIRE(total.payload >= inside + across);
      REQUIRE(total.payload <= inside + 3 * across);  // to a gateway, between nodes, from a gateway
      REQUIRE(total.control <= 8 * words);
      REQUIRE(total.payload == total.payload_received);
      REQUIRE(total.control == total.control_received);
    }
  }
}

TEST_CASE("alltoallv: gateways share the work evenly", "[alltoallv]") {
  const Machine machine = synthetic_machine("node:7 rank:3");
  const std::vector<Sizes> runs = {Sizes(21, [](int, int) { return 8; })};
  const auto traffic = check_runs(make_by_node_alltoallv, machine, runs, 0);
  for (const TrafficCount& count : traffic[0]) {
    REQUIRE(count.messages_sent[static_cast<std::size_t>(Level::system)] == 2);
    REQUIRE(count.messages_received[static_cast<std::size_t>(Level::system)] == 2);
  }
}

TEST_CASE("alltoallv: nothing is allocated after the first run", "[alltoallv]") {
  for (const Make make : {make_direct_alltoallv, make_by_node_alltoallv}) {
    for (const Machine& machine : {synthetic_machine("switch:2 node:2 rank:3"), interleaved(7, 3)}) {
      const int ranks = static_cast<int>(machine.size());
      const std::vector<Sizes> runs(5, Sizes(ranks, [](int from, int to) { return 10 * from + to; }));
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        const Topology topology(machine, comm.rank());
        const auto alltoallv = make(topology, capacity_for(runs));
        std::vector<Exchange> exchanges;
        for (const Sizes& sizes : runs) exchanges.emplace_back(sizes, comm.rank());
        exchanges[0].perform(comm.state()->engine, topology, *alltoallv);
        const std::int64_t before = allocations_of_this_thread();
        for (std::size_t i = 1; i < exchanges.size(); ++i) exchanges[i].perform(comm.state()->engine, topology, *alltoallv);
        const std::int64_t allocations = allocations_of_this_thread() - before;
        check.that(allocations == 0, std::to_string(allocations) + " allocations");
        check.that(alltoallv->memory_bytes() > 0, "memory");
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("words go from every rank to every other, directly among few and by Bruck's way among many", "[alltoallv]") {
  constexpr int words_tag = 1000;
  for (const int ranks : {1, 2, 3, 5, 7, 33, 256, 257, 300, 512}) {
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      const auto all = static_cast<std::size_t>(ranks);
      std::vector<std::int64_t> out(all), in(all);
      ControlAlltoall<std::int64_t> alltoall(ranks);
      for (int to = 0; to < ranks; ++to) out[static_cast<std::size_t>(to)] = 1000 * comm.rank() + to;
      comm.state()->run_blocking("words", words_tag, [&](Channel channel) { return alltoall.run(channel, out.data(), in.data()); });
      for (int from = 0; from < ranks; ++from)
        check.that(in[static_cast<std::size_t>(from)] == 1000 * from + comm.rank(), "the word of rank " + std::to_string(from));
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("alltoallv: more than the capacity is refused", "[alltoallv]") {
  const Machine machine = synthetic_machine("node:2 rank:2");
  const std::vector<Sizes> planned = {Sizes(4, [](int, int) { return 8; })};
  const Sizes too_much(4, [](int, int) { return 9; });
  for (const Make make : {make_direct_alltoallv, make_by_node_alltoallv}) {
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      const Topology topology(machine, comm.rank());
      const auto alltoallv = make(topology, capacity_for(planned));
      Exchange exchange(too_much, comm.rank());
      try {
        exchange.perform(comm.state()->engine, topology, *alltoallv);
        check.that(false, "no error");
      } catch (const Error& error) {
        check.that(error.status() == WEIR_ERR_INTERNAL, error.what());
      }
    });
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
