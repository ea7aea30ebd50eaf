// test_topology.cpp: tests the properties of groups on made-up machines of many shapes, and on this machine.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "topology/gpus.hpp"
#include "topology/slurm.hpp"
#include "topology/topology.hpp"

using namespace weir;

namespace {

std::vector<std::string> shapes() {
  std::string uneven = "nodes:";
  for (int node = 0; node < 33; ++node) uneven += (node ? "," : "") + std::to_string(1 + node * 7 % 11);
  return {"rank:1",
          "rank:5",
          "rank:257",
          "node:257 rank:1",
          "node:4 rank:3",
          "switch:3 node:2 rank:2",
          "nodes:3,1,2",
          "nodes:1",
          "nodes:1,256",
          uneven,
          "l3:8 rank:2",
          "switch:2 rank:3",
          "switches:2,1,4 rank:2",
          "switches:3,2 socket:2 rank:1",
          "switch:2 node:2 socket:2 rank:3",
          "switch:2 node:2 socket:2 numa:2 l3:2 rank:2",
          "node:3 numa:4 rank:1",
          "node:2 socket:1 numa:1 l3:1 rank:2"};
}

/// Returns the machine with its ranks dealt out like cards, so that no group has consecutive ranks.
std::vector<Location> shuffled(const std::vector<Location>& machine) {
  std::size_t step = 3;
  while (std::gcd(step, machine.size()) != 1) ++step;
  std::vector<Location> result;
  for (std::size_t i = 0; i < machine.size(); ++i) result.push_back(machine[i * step % machine.size()]);
  return result;
}

std::vector<int> to_vector(std::span<const int> ranks) { return {ranks.begin(), ranks.end()}; }

/// Sets an environment variable, and restores its old value.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    setenv(name, value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

std::string switch_seen(const std::string& address, const std::string& pattern, const std::string& job = "",
                        const std::string& conf = "/nowhere/slurm.conf") {
  const ScopedVariable set_job("SLURM_JOB_ID", job), set_conf("SLURM_CONF", conf);
  const ScopedVariable set_address("SLURM_TOPOLOGY_ADDR", address), set_pattern("SLURM_TOPOLOGY_ADDR_PATTERN", pattern);
  return std::string(stored_name(locate().switch_address));
}

std::string problem_with(const std::string& description) {
  try {
    (void)synthetic_machine(description);
  } catch (const Error& error) {
    CHECK(error.status() == WEIR_ERR_ARGUMENT);
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("every rank is in exactly one node, and groups agree on all ranks") {
  for (const std::string& shape : shapes()) {
    for (const auto& machine : {synthetic_machine(shape), shuffled(synthetic_machine(shape))}) {
      INFO(shape);
      const int size = static_cast<int>(machine.size());
      std::vector<int> seen_in_node(machine.size()), seen_in_transversal(machine.size());
      std::set<std::size_t> node_sizes;
      for (int rank = 0; rank < size; ++rank) {
        const Topology topology(machine, rank);
        REQUIRE(topology.rank() == rank);
        REQUIRE(topology.size() == size);
        const auto peers = to_vector(topology.node_peers()), across = to_vector(topology.local_rank_peers());
        const auto leaders = to_vector(topology.leaders());
        REQUIRE(std::is_sorted(peers.begin(), peers.end()));
        REQUIRE(std::is_sorted(across.begin(), across.end()));
        REQUIRE(std::is_sorted(leaders.begin(), leaders.end()));
        REQUIRE(static_cast<int>(leaders.size()) == topology.node_count());
        REQUIRE(peers.at(static_cast<std::size_t>(topology.local_rank(rank))) == rank);
        REQUIRE(leaders.at(static_cast<std::size_t>(topology.node_of(rank))) == peers.front());
        if (peers.front() == rank) {
          node_sizes.insert(peers.size());
          for (int peer : peers) ++seen_in_node[static_cast<std::size_t>(peer)];
        }
        if (across.front() == rank) {
          for (int peer : across) ++seen_in_transversal[static_cast<std::size_t>(peer)];
        }
        std::set<int> nodes_crossed;
        for (int peer : across) {
          REQUIRE(topology.local_rank(peer) == topology.local_rank(rank));
          REQUIRE(nodes_crossed.insert(topology.node_of(peer)).second);
        }
        REQUIRE(std::count(across.begin(), across.end(), rank) == 1);
        if (topology.local_rank(rank) == 0) REQUIRE(across == leaders);
      }
      CHECK(std::all_of(seen_in_node.begin(), seen_in_node.end(), [](int times) { return times == 1; }));
      CHECK(std::all_of(seen_in_transversal.begin(), seen_in_transversal.end(), [](int times) { return times == 1; }));
      CHECK(Topology(machine, 0).smallest_node() == static_cast<int>(*node_sizes.begin()));
      CHECK(Topology(machine, 0).largest_node() == static_cast<int>(*node_sizes.rbegin()));
    }
  }
}

TEST_CASE("levels are symmetric, and nested: a common friend is never nearer than the farther of two") {
  for (const std::string& shape : shapes()) {
    auto machine = shuffled(synthetic_machine(shape));
    for (std::size_t i = 0; i < machine.size(); i += 5) machine[i].l3 = -1;
    for (std::size_t i = 0; i < machine.size(); i += 7) machine[i].l3 = machine[i].numa = machine[i].socket = -1;
    for (std::size_t i = 0; i < machine.size(); i += 3) machine[i].switch_address = {};
    const Topology topology(machine, 0);
    const int size = topology.size(), step = size > 100 ? 5 : 1;
    INFO(shape);
    bool symmetric = true, nested = true;
    for (int a = 0; a < size; a += step) {
      REQUIRE(topology.level(a, a) == Level::self);
      for (int b = 0; b < size; b += step) {
        const Level between = topology.level(a, b);
        symmetric = symmetric && between == topology.level(b, a);
        nested = nested && (between == Level::self) == (a == b);
        nested = nested && (between <= Level::node) == (topology.node_of(a) == topology.node_of(b));
        for (int c = 0; c < size; c += step) nested = nested && between <= std::max(topology.level(a, c), topology.level(c, b));
      }
    }
    CHECK(symmetric);
    CHECK(nested);
  }
}

TEST_CASE("each level is found where the machine was made to have it") {
  const Topology topology(synthetic_machine("switch:2 node:2 socket:2 numa:2 l3:2 rank:2"), 0);
  REQUIRE(topology.size() == 64);
  CHECK(topology.level(0, 0) == Level::self);
  CHECK(topology.level(0, 1) == Level::l3);
  CHECK(topology.level(0, 2) == Level::numa);
  CHECK(topology.level(0, 4) == Level::socket);
  CHECK(topology.level(0, 8) == Level::node);
  CHECK(topology.level(0, 16) == Level::switch_group);
  CHECK(topology.level(0, 32) == Level::system);
  CHECK(topology.node_count() == 4);
  CHECK(topology.smallest_node() == topology.largest_node());

  const Topology sizes(synthetic_machine("nodes:3,1,2"), 2);
  CHECK(to_vector(sizes.node_peers()) == std::vector{0, 1, 2});
  CHECK(to_vector(sizes.local_rank_peers()) == std::vector{2});
  CHECK(to_vector(sizes.leaders()) == std::vector{0, 3, 4});
  CHECK(sizes.level(0, 2) == Level::node);
  CHECK(sizes.level(0, 3) == Level::system);
  CHECK(sizes.smallest_node() == 1);
  CHECK(sizes.largest_node() == 3);
}

TEST_CASE("what is not known is not shared") {
  const Topology switches(synthetic_machine("switches:2,1 rank:2"), 5);
  CHECK(Topology(synthetic_machine("node:2 rank:2"), 0).switch_of(0) == -1);
  CHECK(switches.switch_count() == 2);
  CHECK(switches.switch_of(3) == 0);
  CHECK(switches.switch_of(4) == 1);
  CHECK(switches.level(0, 3) == Level::switch_group);
  CHECK(switches.level(3, 4) == Level::system);

  auto machine = synthetic_machine("node:2 rank:2");
  CHECK(Topology(machine, 0).level(0, 1) == Level::node);
  CHECK(Topology(machine, 0).level(0, 2) == Level::system);
  store_name(machine[1].switch_address, "spine.leaf0");
  store_name(machine[2].switch_address, "spine.leaf0");
  CHECK(Topology(machine, 0).level(0, 2) == Level::switch_group);
}

TEST_CASE("level names") {
  const std::vector<std::string_view> names{"self", "l3", "numa", "socket", "node", "switch", "system"};
  REQUIRE(names.size() == level_count);
  for (int level = 0; level < level_count; ++level)
    CHECK(level_name(static_cast<Level>(level)) == names[static_cast<std::size_t>(level)]);
  CHECK(level_name(static_cast<Level>(99)) == "unknown");
}

TEST_CASE("the tree shows what tells ranks apart, and nothing else") {
  const auto tree = [](const std::vector<Location>& machine) { return Topology(machine, 0).tree(); };
  CHECK(tree(synthetic_machine("rank:1")) == "node n0: rank 0\n");
  CHECK(tree(synthetic_machine("socket:1 numa:1 l3:1 rank:4")) == "node n0: ranks 0-3\n");
  CHECK(tree(synthetic_machine("switch:2 node:1 socket:2 l3:1 rank:2")) ==
        "switch spine.leaf0\n"
        "  node n0: ranks 0-3\n"
        "    socket 0: ranks 0-1\n"
        "    socket 1: ranks 2-3\n"
        "switch spine.leaf1\n"
        "  node n1: ranks 4-7\n"
        "    socket 0: ranks 4-5\n"
        "    socket 1: ranks 6-7\n");
  CHECK(tree(synthetic_machine("socket:1 numa:2 l3:2 rank:1")) ==
        "node n0: ranks 0-3\n"
        "  numa 0: ranks 0-1\n"
        "    l3 0: rank 0\n"
        "    l3 1: rank 1\n"
        "  numa 1: ranks 2-3\n"
        "    l3 2: rank 2\n"
        "    l3 3: rank 3\n");

  auto mixed = synthetic_machine("nodes:3,1,2");
  std::swap(mixed[1], mixed[5]);
  store_name(mixed[3].switch_address, "leaf7");
  mixed[2].socket = 1;
  CHECK(tree(mixed) ==
        "switch unknown\n"
        "  node n0: ranks 0, 2, 5\n"
        "    socket 1: rank 2\n"
        "  node n2: ranks 1, 4\n"
        "switch leaf7\n"
        "  node n1: rank 3\n");
}

TEST_CASE("bad descriptions say what is wrong and what would be right") {
  CHECK_THAT(problem_with(""), ContainsSubstring("the last level must be rank:count"));
  CHECK_THAT(problem_with("node:2"), ContainsSubstring("the last level must be rank:count"));
  CHECK_THAT(problem_with("node:2 rank"), ContainsSubstring("\"rank\" should look like level:count"));
  CHECK_THAT(problem_with("node:0 rank:2"), ContainsSubstring("\"0\" should be a number from 1 to"));
  CHECK_THAT(problem_with("node:-1 rank:2"), ContainsSubstring("\"-1\" should be a number"));
  CHECK_THAT(problem_with("node:2x rank:2"), ContainsSubstring("\"2x\" should be a number"));
  CHECK_THAT(problem_with("node: rank:2"), ContainsSubstring("\"\" should be a number"));
  CHECK_THAT(problem_with("node:99999999999999999999 rank:2"), ContainsSubstring("should be a number"));
  CHECK_THAT(problem_with("rack:2 rank:2"),
             ContainsSubstring("no level \"rack\"; the levels are switch, node, socket, numa, l3, rank"));
  CHECK_THAT(problem_with("socket:2 node:2 rank:2"),
             ContainsSubstring("\"node\" is given twice or too late; the order is switch, node"));
  CHECK_THAT(problem_with("rank:2 rank:2"), ContainsSubstring("\"rank\" is given twice or too late"));
  CHECK_THAT(problem_with("node:1048576 rank:2"), ContainsSubstring("more than 1048576 ranks"));
  CHECK_THAT(problem_with("nodes:"), ContainsSubstring("\"\" should be a number"));
  CHECK_THAT(problem_with("nodes:2,,1"), ContainsSubstring("\"\" should be a number"));
  CHECK_THAT(problem_with("nodes:1048576,1"), ContainsSubstring("more than 1048576 ranks"));
  CHECK_THAT(problem_with("switches: rank:1"), ContainsSubstring("\"\" should be a number"));
  CHECK_THAT(problem_with("switches:2,1"), ContainsSubstring("the last level must be rank:count"));
  CHECK_THAT(problem_with("switches:2,1 node:2 rank:1"), ContainsSubstring("come the levels inside a node"));
  CHECK_THAT(problem_with("switches:1048576 rank:2"), ContainsSubstring("more than 1048576 ranks"));
  CHECK_THAT(problem_with("switch:2 nodes:2,1"), ContainsSubstring("must stand alone"));
}

TEST_CASE("a topology refuses ranks it does not have") {
  CHECK_THROWS_AS(Topology({}, 0), Error);
  CHECK_THROWS_AS(Topology(synthetic_machine("rank:2"), 2), Error);
  CHECK_THROWS_AS(Topology(synthetic_machine("rank:2"), -1), Error);
  const Topology topology(synthetic_machine("rank:2"), 0);
  CHECK_THROWS_WITH(topology.level(0, 2), ContainsSubstring("rank 2 is outside 0 .. 1"));
  CHECK_THROWS_AS(topology.node_of(-1), Error);
  CHECK_THROWS_AS(topology.local_rank(2), Error);
}

TEST_CASE("names that do not fit stay different") {
  Location a, b;
  for (std::size_t length : {0u, 1u, 62u, 63u}) {
    store_name(a.host, std::string(length, 'x'));
    CHECK(stored_name(a.host) == std::string(length, 'x'));
  }
  const std::string head(60, 'h');
  for (const auto& [one, other] :
       {std::pair{head + "0.cluster", head + "1.cluster"}, {"0" + head + "-node", "1" + head + "-node"}}) {
    store_name(a.host, one);
    store_name(b.host, other);
    CHECK(stored_name(a.host).size() == 63);
    CHECK(stored_name(a.host).starts_with(one.substr(0, 54) + "~"));
    CHECK(stored_name(a.host) != stored_name(b.host));
    store_name(b.host, one);
    CHECK(a.host == b.host);
    CHECK(Topology({a, b}, 0).level(0, 1) == Level::node);
  }
}

TEST_CASE("this process can be located") {
  const Location here = locate();
  CHECK_FALSE(stored_name(here.host).empty());
  for (std::int32_t index : {here.socket, here.numa, here.l3}) CHECK(index >= -1);
  const Location again = locate();
  CHECK(here.host == again.host);
  CHECK((here.socket == again.socket && here.numa == again.numa && here.l3 == again.l3));
  CHECK(Topology({here, again}, 0).level(0, 1) <= Level::node);
}

TEST_CASE("SLURM's address gives the switches, on the node that it names") {
  const std::string host(stored_name(locate().host));
  CHECK(switch_seen("spine.leaf0." + host, "switch.switch.node") == "spine.leaf0");
  CHECK(switch_seen("leaf3." + host, "switch.node") == "leaf3");
  CHECK(switch_seen("leaf3." + host + ".example.org", "switch.node") == "leaf3");
  CHECK(switch_seen("s[0-1].s4." + host, "switch.switch.node") == "s[0-1].s4");
  CHECK(switch_seen(host, "node").empty());
  CHECK(switch_seen("spine.leaf0.another-" + host, "switch.switch.node").empty());
  CHECK(switch_seen("leaf0." + host, "switch.switch.node").empty());
  CHECK(switch_seen("spine.leaf0." + host, "").empty());
  CHECK(switch_seen("", "switch.node").empty());
  CHECK(switch_seen("", "").empty());
  const std::string deep = std::string(200, 's');
  CHECK(switch_seen(deep + "." + host, "switch.node").size() == 127);
}

TEST_CASE("lists of hosts as SLURM writes them") {
  const auto in = [](const char* list, const char* name) { return in_host_list(list, name); };
  CHECK(in("n1", "n1"));
  CHECK(in("a,n1,b", "n1"));
  CHECK(in("n[0-3]", "n0"));
  CHECK(in("n[0-3]", "n3"));
  CHECK(in("login,n[01-12,20]-ib", "n07-ib"));
  CHECK(in("login,n[01-12,20]-ib", "n20-ib"));
  CHECK(in("n[8-12]", "n10"));
  CHECK(in("r[0-1]n[00-15]", "r1n15"));
  for (const char* name : {"", "n", "n4", "n00", "n03", "n-1", "xn1", "n1x"}) CHECK_FALSE(in("n[0-3]", name));
  for (const char* name : {"n7-ib", "n13-ib", "n007-ib", "n07", "n07-ibx"}) CHECK_FALSE(in("login,n[01-12,20]-ib", name));
  for (const char* list : {"", ",", "[", "]", "n[", "n[]", "n[a-b]", "n[1", "n]1[", "n[3-1]", "n[99999999999999999999]"})
    CHECK_FALSE(in(list, "n1"));
}

TEST_CASE("topology.conf gives a node's switches, from the outermost in") {
  const std::string conf =
      "# two levels of switches\n"
      "SwitchName=leaf0 Nodes=n[0-1] LinkSpeed=10\n"
      "switchname=leaf1\tnodes=n2,n3 # the others\r\n"
      "SwitchName=row0 Switches=leaf[0-1]\n"
      "SwitchName=spine Switches=row0,row1";
  CHECK(switch_address_in(conf, "n1") == "spine.row0.leaf0");
  CHECK(switch_address_in(conf, "n3") == "spine.row0.leaf1");
  CHECK(switch_address_in(conf, "n4").empty());
  CHECK(switch_address_in(conf, "").empty());
  CHECK(switch_address_in("", "n1").empty());
  CHECK(switch_address_in("SwitchName=only Nodes=n1", "n1") == "only");
  CHECK(switch_address_in("SwitchName= Nodes=n1\nBlockName=b Nodes=n1\nNodes=n1", "n1").empty());
  CHECK(switch_address_in("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a", "n1") == "b.a");
}

TEST_CASE("where the environment has another node's address, or none, the job's topology.conf says") {
  const std::string host(stored_name(locate().host)), short_host = host.substr(0, host.find('.'));
  const auto folder = std::filesystem::temp_directory_path() / ("weir-topology-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "topology.conf") << "SwitchName=leaf1 Nodes=" << short_host << "\nSwitchName=spine Switches=leaf[0-1]\n";
  const std::string conf = folder / "slurm.conf";
  CHECK(switch_seen("spine.leaf0.another-" + host, "switch.switch.node", "17", conf) == "spine.leaf1");
  CHECK(switch_seen("", "", "17", conf) == "spine.leaf1");
  CHECK(switch_seen("spine.leaf0." + host, "switch.switch.node", "17", conf) == "spine.leaf0");
  CHECK(switch_seen("", "", "", conf).empty());          // no job
  CHECK(switch_seen(host, "node", "17", conf).empty());  // SLURM knows no switches
  CHECK(switch_seen("", "", "17", folder / "missing" / "slurm.conf").empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("ranks share the GPUs of their node evenly, each near its own where that can be", "[topology]") {
  const auto node = [](int gpus, int numa_nodes, const std::vector<int>& rank_numas, bool own_only = false) {
    std::vector<SeenGpus> ranks;
    for (std::size_t r = 0; r < rank_numas.size(); ++r) {
      SeenGpus seen;
      seen.numa = rank_numas[r];
      for (int g = 0; g < gpus; ++g) {
        if (own_only && g != static_cast<int>(r)) continue;
        SeenGpu& gpu = seen.gpus[static_cast<std::size_t>(seen.count++)];
        gpu.bus_id[0] = static_cast<char>('a' + g);
        gpu.numa = g * numa_nodes / gpus;
      }
      ranks.push_back(seen);
    }
    return assign_gpus(ranks);
  };
  using Numbers = std::vector<int>;
  CHECK(node(4, 2, {0, 0, 1, 1}) == Numbers{0, 1, 2, 3});
  CHECK(node(4, 2, {1, 1, 0, 0}) == Numbers{2, 3, 0, 1});
  CHECK(node(4, 2, {0, 1, 0, 1}) == Numbers{0, 2, 1, 3});
  CHECK(node(4, 2, {0, 0, 0, 0}) == Numbers{0, 1, 2, 3});
  CHECK(node(2, 2, {1, 1, 1, 1}) == Numbers{1, 0, 1, 0});
  CHECK(node(4, 4, {-1, -1}) == Numbers{0, 1});
  CHECK(node(4, 2, {0, 1, 1, 0}, true) == Numbers{0, 0, 0, 0});  // as SLURM binds GPUs: each rank sees one
  CHECK(node(0, 1, {0, 0}) == Numbers{-1, -1});
  CHECK(assign_gpus({}).empty());
}

TEST_CASE("a PCI device that is not there is on no NUMA node", "[topology]") { CHECK(numa_of_pci_device("ffff:ff:1f.7") == -1); }

namespace {

/// Returns the cores from `first` to `last`.
CoreSet cores(int first, int last) {
  CoreSet set;
  for (int core = first; core <= last; ++core) set.insert(core);
  return set;
}

/// Returns the free core of each rank as text, for example "7", or the reason why it has none.
std::vector<std::string> free_cores(const std::string& machine, const std::vector<CoreSet>& sets) {
  std::vector<Location> locations = synthetic_machine(machine);
  for (std::size_t rank = 0; rank < locations.size(); ++rank) locations[rank].cores = sets[rank % sets.size()];
  std::vector<std::string> texts;
  for (int rank = 0; rank < static_cast<int>(locations.size()); ++rank) {
    const FreeCore place = free_core(Topology(locations, rank), rank);
    CHECK((place.core >= 0) == place.why.empty());
    texts.push_back(place.core >= 0 ? std::to_string(place.core) : (place.first ? "first: " : "") + place.why);
  }
  return texts;
}

}  // namespace

TEST_CASE("a set of cores says what is in it") {
  CoreSet set;
  REQUIRE((set.empty() && set.from_above(0) == -1));
  for (const int core : {0, 63, 64, 1023}) set.insert(core);
  REQUIRE(set.count() == 4);
  REQUIRE((set.contains(63) && set.contains(64) && !set.contains(62)));
  REQUIRE((set.from_above(0) == 1023 && set.from_above(1) == 64 && set.from_above(3) == 0 && set.from_above(4) == -1));
  REQUIRE((set.overlaps(cores(60, 63)) && !set.overlaps(cores(1, 62))));
}

TEST_CASE("ranks per core, of the fullest node", "[topology]") {
  const auto most = [](const std::string& machine, const std::vector<CoreSet>& sets) {
    std::vector<Location> locations = synthetic_machine(machine);
    for (std::size_t rank = 0; rank < locations.size(); ++rank) locations[rank].cores = sets[rank % sets.size()];
    return ranks_per_core(Topology(locations, 0));
  };
  CHECK(most("rank:1", {cores(0, 7)}) == 1);
  CHECK(most("rank:8", {cores(0, 7)}) == 1);
  CHECK(most("rank:9", {cores(0, 7)}) == 2);
  CHECK(most("rank:8", {cores(0, 1)}) == 4);
  CHECK(most("node:2 rank:4", {cores(0, 1)}) == 2);
  CHECK(most("rank:4", {cores(0, 0), cores(1, 1)}) == 2);
  CHECK(most("rank:4", {cores(0, 0), cores(1, 1), cores(2, 2), cores(3, 3)}) == 1);
  CHECK(most("rank:4", {CoreSet()}) == 1);
}

TEST_CASE("ranks divide the cores that they share", "[topology]") {
  const auto own = [](const std::string& machine, const std::vector<CoreSet>& sets, bool progress_threads) {
    std::vector<Location> locations = synthetic_machine(machine);
    for (std::size_t rank = 0; rank < locations.size(); ++rank) locations[rank].cores = sets[rank % sets.size()];
    std::vector<int> counts;
    for (int rank = 0; rank < static_cast<int>(locations.size()); ++rank)
      counts.push_back(own_cores(Topology(locations, rank), rank, progress_threads));
    return counts;
  };
  using Counts = std::vector<int>;
  CHECK(own("rank:1", {cores(0, 7)}, false) == Counts{8});
  CHECK(own("rank:1", {cores(0, 7)}, true) == Counts{7});
  CHECK(own("rank:1", {cores(0, 0)}, true) == Counts{1});
  CHECK(own("rank:3", {cores(0, 7)}, false) == Counts{2, 2, 2});
  CHECK(own("rank:3", {cores(0, 7)}, true) == Counts{1, 1, 1});
  CHECK(own("rank:4", {cores(0, 1)}, false) == Counts{1, 1, 1, 1});
  CHECK(own("node:2 rank:2", {cores(0, 3)}, false) == Counts{2, 2, 2, 2});
  CHECK(own("rank:4", {cores(0, 7), cores(8, 11)}, false) == Counts{4, 2, 4, 2});
  // Nothing is guessed.
  CHECK(own("rank:2", {cores(0, 7), cores(4, 11)}, false) == Counts{1, 1});
  CHECK(own("rank:2", {{}}, false) == Counts{1, 1});
  CHECK(own("rank:2", {cores(0, 7), {}}, false) == Counts{1, 1});
}

TEST_CASE("ranks divide the quota of a control group that they share", "[topology]") {
  const auto own = [](const std::vector<CpuQuota>& quotas, bool progress_threads) {
    std::vector<Location> locations = synthetic_machine("rank:4");
    for (std::size_t rank = 0; rank < locations.size(); ++rank) {
      locations[rank].cores = cores(0, 31);
      locations[rank].quota = quotas[rank % quotas.size()];
    }
    return own_cores(Topology(locations, 1), 1, progress_threads);
  };
  CHECK(own({{0, 0}}, false) == 8);
  CHECK(own({{100, 1}}, false) == 8);
  CHECK(own({{16, 1}}, false) == 4);
  CHECK(own({{16, 1}}, true) == 4);
  CHECK(own({{2.5, 1}}, false) == 1);
  CHECK(own({{4, 1}, {4, 2}, {4, 3}, {4, 4}}, false) == 4);
}

TEST_CASE("hosts of one name that were started at different times are different nodes", "[topology]") {
  std::vector<Location> locations = synthetic_machine("rank:4");
  for (std::size_t rank = 0; rank < locations.size(); ++rank) store_name(locations[rank].boot, rank < 3 ? "a" : "b");
  const Topology topology(locations, 0);
  CHECK(topology.node_count() == 2);
  CHECK(topology.node_of(2) == 0);
  CHECK(topology.node_of(3) == 1);
}

TEST_CASE("progress threads get cores from above, where ranks have two or more each") {
  using Texts = std::vector<std::string>;
  // Unbound ranks of a node share all its cores.
  CHECK(free_cores("rank:1", {cores(0, 1)}) == Texts{"1"});
  CHECK(free_cores("rank:2", {cores(0, 3)}) == Texts{"3", "2"});
  CHECK(free_cores("rank:3", {cores(8, 14)}) == Texts{"14", "13", "12"});
  CHECK(free_cores("rank:1", {cores(3, 3)}) == Texts{"first: 1 rank shares 1 core: none is free"});
  CHECK(free_cores("rank:2", {cores(0, 2)}) ==
        Texts{"first: 2 ranks share 3 cores: none is free", "2 ranks share 3 cores: none is free"});
  // Each node has its own cores.
  CHECK(free_cores("node:2 rank:2", {cores(0, 3)}) == Texts{"3", "2", "3", "2"});
  CHECK(free_cores("nodes:1,3", {cores(0, 3)}) == Texts{"3", "first: 3 ranks share 4 cores: none is free",
                                                        "3 ranks share 4 cores: none is free",
                                                        "3 ranks share 4 cores: none is free"});
  // Bound to sockets, to two cores each, to one.
  CHECK(free_cores("rank:4", {cores(0, 7), cores(8, 15)}) == Texts{"7", "15", "6", "14"});
  CHECK(free_cores("rank:3", {cores(0, 1), cores(2, 3), cores(4, 5)}) == Texts{"1", "3", "5"});
  CHECK(free_cores("rank:2", {cores(0, 0), cores(1, 1)}) ==
        Texts{"first: 1 rank shares 1 core: none is free", "first: 1 rank shares 1 core: none is free"});
  // Nothing is guessed.
  CHECK(free_cores("rank:2", {cores(0, 7), cores(4, 11)}) ==
        Texts{"first: ranks 0 and 1 share some of their cores, not all: none is known to be free",
              "first: ranks 1 and 0 share some of their cores, not all: none is known to be free"});
  CHECK(free_cores("rank:2", {{}}) ==
        Texts{"first: which cores rank 0 may use is not known", "first: which cores rank 1 may use is not known"});
  CHECK(free_cores("rank:2", {cores(0, 7), {}}) ==
        Texts{"which cores rank 1 may use is not known", "first: which cores rank 1 may use is not known"});
}

TEST_CASE("this process knows its cores, and a thread can be bound to one of them") {
  const Location here = locate();
  if (here.cores.empty()) return;  // hwloc sees none
  bool bound = false;
  std::thread([&] { bound = bind_this_thread(here.cores.from_above(0)); }).join();
  CHECK(bound);
  CHECK_FALSE(bind_this_thread(CoreSet::most));
  CHECK(locate().cores == here.cores);  // one thread alone was bound
}
