// Machines: files and their errors, the search for files, and measurement.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/splitmix.hpp"
#include "collectives/allreduce.hpp"
#include "model/calibrate.hpp"
#include "model/choose.hpp"
#include "model/exchange_cost.hpp"
#include "model/lookup.hpp"
#include "model/machine.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"

namespace weir::test {
namespace {

using Json = nlohmann::ordered_json;

/// This test's own folder, and an environment in which no other machine file is found.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("weir_test_model." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
    setenv("XDG_CONFIG_HOME", (path_ / "config").c_str(), 1);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Returns the built-in machine as JSON, with `change` applied.
template <class Change>
std::string changed(Change change) {
  Json json = Json::parse(format_machine(builtin_machine()));
  change(json);
  return json.dump();
}

template <class Change>
void refuses(Change change, const std::string& text) {
  CAPTURE(text);
  REQUIRE_THROWS_WITH(parse_machine(changed(change), "m.json"), ContainsSubstring("'m.json'") && ContainsSubstring(text));
}

Machine named(const std::string& host) {
  Machine machine = builtin_machine();
  machine.provenance.host = host;
  return machine;
}

constexpr double least = 1e-18, most = 1e18;

struct Figure {
  double* value;
  bool may_be_zero = false;
};

/// Returns every figure of a machine with all levels.
std::vector<Figure> figures_of(Machine& machine) {
  std::vector<Figure> figures = {{&machine.mpi_allreduce_factor}};
  for (std::size_t level = 1; level < level_count; ++level) {
    Link& link = machine.links[level].value();
    for (double* value : {&link.latency, &link.overhead}) figures.push_back({value, true});
    for (double* value : {&link.bandwidth, &link.exchange, &link.shared}) figures.push_back({value});
  }
  Rates& rates = machine.rates;
  for (double* value :
       {&rates.add, &rates.select, &rates.cut, &rates.fill, &rates.scatter, &rates.merge, &rates.encode, &rates.decode})
    figures.push_back({value});
  return figures;
}

/// Returns a machine with all levels, and 1 for every figure.
Machine round_machine() {
  Machine machine = builtin_machine();
  for (std::size_t level = 1; level < level_count; ++level) machine.links[level] = Link{};
  for (const Figure& figure : figures_of(machine)) *figure.value = 1;
  return machine;
}

/// Runs `body` as every rank's task.
template <class Result>
Result run_task(Communicator& comm, task<Result> (*body)(Channel, void*), void* argument) {
  Result result;
  const auto run = [](Channel channel, task<Result> (*of)(Channel, void*), void* given, Result& into) -> task<void> {
    into = co_await of(channel, given);
  };
  comm.state()->run_blocking("test", 0, [&](Channel channel) { return run(channel, body, argument, result); });
  return result;
}

FoundMachine agree(Communicator& comm, const Settings& settings) {
  comm.state()->settings = settings;
  comm.state()->machine.reset();
  return comm.state()->agreed_machine();
}

}  // namespace

TEST_CASE("a machine survives its file bit for bit") {
  const Folder folder;
  Machine machine = builtin_machine();
  machine.provenance = {"host", "2026-01-01T00:00:00Z", "an MPI \"quoted\"", "1.2.3", "weir calibrate", 8, 4};
  machine.links[static_cast<std::size_t>(Level::l3)] = Link{1e-7 / 3, 0, 1e9 / 3, 2e9 / 7, 1e11 / 7};
  machine.mpi_allreduce_factor = 4.0 / 3;
  write_machine(machine, folder.file("m.json"));
  REQUIRE(read_machine(folder.file("m.json")) == machine);
}

TEST_CASE("levels that were not measured cost what their neighbours do") {
  const Machine& machine = builtin_machine();
  REQUIRE(machine.link(Level::l3) == machine.link(Level::socket));
  REQUIRE(machine.link(Level::self) == machine.link(Level::socket));
  REQUIRE(machine.link(Level::switch_group) == machine.link(Level::system));
  REQUIRE_FALSE(machine.has(Level::switch_group));
  REQUIRE(machine.has(Level::system));
  Machine sparse;
  REQUIRE_THROWS_WITH(sparse.link(Level::node), ContainsSubstring("no level at all"));
  const Link near{.latency = 1}, far{.latency = 2};
  sparse.links[static_cast<std::size_t>(Level::l3)] = near;
  REQUIRE(sparse.link(Level::system) == near);
  REQUIRE(sparse.link(Level::node) == near);
  sparse.links[static_cast<std::size_t>(Level::switch_group)] = far;
  REQUIRE(sparse.link(Level::node) == near);
  REQUIRE(sparse.link(Level::system) == far);
  sparse.links[static_cast<std::size_t>(Level::l3)].reset();
  REQUIRE(sparse.link(Level::numa) == far);
}

TEST_CASE("ranks that share cores compute in turns, and messages wait for theirs") {
  const Machine& own = builtin_machine();
  REQUIRE(with_shared_cores(own, 1) == own);
  const Machine shared = with_shared_cores(own, 4);
  REQUIRE(shared.rates.merge == own.rates.merge / 4);
  REQUIRE(shared.link(Level::node).latency > own.link(Level::node).latency);
  REQUIRE(shared.link(Level::node).overhead == 4 * own.link(Level::node).overhead);
  REQUIRE(shared.link(Level::node).bandwidth == own.link(Level::node).bandwidth);
}

TEST_CASE("bad machine files are refused, and the text says where and why") {
  REQUIRE_THROWS_WITH(parse_machine("{\"schema\": 1,", "m.json"), ContainsSubstring("machine file 'm.json' is not JSON"));
  REQUIRE_THROWS_WITH(parse_machine("", "m.json"), ContainsSubstring("is not JSON"));
  REQUIRE_THROWS_WITH(parse_machine("[1]", "m.json"), ContainsSubstring("its content is [1]: it must be an object"));
  refuses([](Json& j) { j["schema"] = 2; }, "key schema is 2: it must be 1; run `weir calibrate` anew");
  refuses([](Json& j) { j.erase("schema"); }, "key schema is missing: it must be 1");
  refuses([](Json& j) { j.erase("levels"); }, "key levels is missing: it must be an object with at least one of l3, numa");
  refuses([](Json& j) { j["levels"] = Json::object(); }, "key levels is empty: it must have at least one of l3, numa");
  refuses([](Json& j) { j["levels"]["rack"] = 1; }, "key levels.rack is not known in schema 1");
  refuses([](Json& j) { j["levels"]["node"] = 3; }, "key levels.node is 3: it must be an object");
  refuses([](Json& j) { j["levels"]["node"].erase("shared"); },
          "key levels.node.shared is missing: it must be a number from 1e-18 to 1e+18 (bytes/s)");
  refuses([](Json& j) { j["levels"]["node"]["bandwidth"] = -1; },
          "key levels.node.bandwidth is -1: it must be a number from 1e-18 to 1e+18");
  refuses([](Json& j) { j["levels"]["node"]["bandwidth"] = 0; },
          "key levels.node.bandwidth is 0: it must be a number from 1e-18 to 1e+18");
  refuses([](Json& j) { j["levels"]["node"]["latency"] = -1e-6; },
          "key levels.node.latency is -1e-06: it must be 0 or a number from 1e-18 to 1e+18 (seconds)");
  refuses([](Json& j) { j["levels"]["node"]["latancy"] = 1; }, "key levels.node.latancy is not known");
  refuses([](Json& j) { j["rates"]["select"] = "fast"; },
          "key rates.select is \"fast\": it must be a number from 1e-18 to 1e+18 (elements/s)");
  refuses([](Json& j) { j["rates"]["add"] = std::numeric_limits<double>::quiet_NaN(); },
          "key rates.add is null: it must be a number from");
  refuses([](Json& j) { j["mpi_allreduce_factor"] = 0; }, "key mpi_allreduce_factor is 0");
  refuses([](Json& j) { j["provenance"]["host"] = 1; }, "key provenance.host is 1: it must be a text");
  refuses([](Json& j) { j["provenance"]["ranks"] = 1.5; }, "key provenance.ranks is 1.5: it must be a whole number");
  refuses([](Json& j) { j["speed"] = 1; }, "key speed is not known");
  std::string huge = format_machine(builtin_machine());
  huge.replace(huge.find("60000000000.0"), 13, "1e999");
  REQUIRE_THROWS_WITH(parse_machine(huge, "m.json"), ContainsSubstring("'m.json'"));

  Machine nonsense = named("here");
  nonsense.rates.merge = std::numeric_limits<double>::infinity();
  REQUIRE_THROWS_WITH(format_machine(nonsense), ContainsSubstring("rates.merge"));
  const Folder folder;
  REQUIRE_THROWS_WITH(read_machine(folder.file("none.json")), ContainsSubstring("none.json' cannot be read"));
  REQUIRE_THROWS_WITH(read_machine(folder.file(".")), ContainsSubstring("cannot be read"));
  REQUIRE_THROWS_WITH(write_machine(builtin_machine(), folder.file("no/such/m.json")), ContainsSubstring("cannot be written"));
  try {
    static_cast<void>(read_machine(folder.file("none.json")));
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_ARGUMENT);
  }
}

TEST_CASE("machine files nested without end are refused, whatever the nesting is in") {
  const auto nested = [](const std::string& before, const std::string& open, const std::string& close, std::size_t depth) {
    std::string text = before;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += '1';
    for (std::size_t i = 0; i < depth; ++i) text += close;
    if (!before.empty()) text += '}';
    return text;
  };
  for (const std::string before : {"", "{\"schema\": ", "{\"levels\": "}) {
    for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
      for (const std::size_t depth : {9, 1000, 100000}) {
        REQUIRE_THROWS_WITH(parse_machine(nested(before, open, close, depth), "m.json"),
                            ContainsSubstring("machine file 'm.json' is nested more than 8 deep"));
        REQUIRE_THROWS_WITH(parse_machine(nested(before, open, "", depth), "m.json"), ContainsSubstring("nested more than 8 deep"));
      }
    }
  }
  REQUIRE_THROWS_WITH(parse_machine(nested("", "[", "]", 8), "m.json"),
                      ContainsSubstring("[[[[[[[[1]]]]]]]]: it must be an object"));
}

TEST_CASE("figures outside their bounds are refused, those at the bounds accepted") {
  Machine machine = round_machine();
  for (const Figure& figure : figures_of(machine)) {
    for (const double wrong : {std::nextafter(least, 0.0), std::nextafter(most, 2 * most), 1e-320, 1e308, -1e-320, -1.0}) {
      *figure.value = wrong;
      REQUIRE_THROWS_WITH(format_machine(machine), ContainsSubstring("a number from 1e-18 to 1e+18"));
    }
    for (const double right : {least, most, 0.0, 1.0}) {
      if (right == 0 && !figure.may_be_zero) continue;
      *figure.value = right;
      REQUIRE(parse_machine(format_machine(machine), "m.json") == machine);
    }
  }
}

TEST_CASE("no figures within their bounds make a cost infinite or NaN") {
  std::uint64_t seed = 1;
  const auto below = [&seed](std::size_t bound) { return static_cast<int>(splitmix64(seed++) % bound); };
  const auto one_of = [&below](const auto& list) { return list[static_cast<std::size_t>(below(list.size()))]; };
  Allowed allowed{.algorithms = {}, .values = WireValues::bfloat16};
  for (const AllreduceRow& row : allreduce_registry()) allowed.algorithms.push_back(row.name);
  Machine machine = round_machine();
  for (int turn = 0; turn < 3000; ++turn) {
    for (const Figure& figure : figures_of(machine))
      *figure.value = figure.may_be_zero && below(2) == 0 ? 0 : one_of(std::array{least, 1.0, most});
    Problem problem;
    problem.count = one_of(std::array<std::int64_t, 6>{0, 1, 2, 1000003, (std::int64_t{1} << 32) - 1, std::int64_t{1} << 48});
    problem.k = std::min(problem.count, one_of(std::array<std::int64_t, 5>{0, 1, problem.count / 100,
                                                                           problem.count - problem.count / 100, problem.count}));
    problem.value_bytes = one_of(std::array{4, 8});
    problem.nodes = 1 + below(below(8) == 0 ? 1000 : 9);
    problem.smallest_node = 1 + below(9);
    problem.largest_node = problem.smallest_node + (problem.nodes == 1 ? 0 : below(3));
    problem.ranks = (problem.nodes - 1) * problem.smallest_node + problem.largest_node;
    problem.shared_memory = below(2) == 0;
    problem.inside = static_cast<Level>(1 + below(4));
    problem.across = static_cast<Level>(5 + below(2));
    CAPTURE(turn, problem.count, problem.k, problem.nodes, problem.smallest_node, problem.largest_node);
    const std::vector<Candidate> list = choose(machine, problem, allowed);
    for (std::size_t i = 0; i < list.size(); ++i) {
      CAPTURE(list[i].algorithm);
      REQUIRE(std::isfinite(list[i].cost.seconds()));
      REQUIRE(list[i].cost.seconds() >= list[i == 0 ? 0 : i - 1].cost.seconds());
    }
    const model::Setting setting(machine, problem);
    REQUIRE(std::isfinite(model::direct_alltoallv(setting, setting.bytes).seconds));
    REQUIRE(std::isfinite(model::by_node_alltoallv(setting, setting.bytes).seconds));
  }
}

TEST_CASE("WEIR_MACHINE comes before the host's own file, and that before the built-in machine") {
  const Folder folder;
  REQUIRE(find_machine({}).origin == "built in");
  REQUIRE(find_machine({}).machine == builtin_machine());

  const std::string own = own_machine_file();
  REQUIRE(own.starts_with(folder.file("config/weir/machines/")));
  std::filesystem::create_directories(std::filesystem::path(own).parent_path());
  write_machine(named("own"), own);
  REQUIRE(find_machine({}).origin == own);
  REQUIRE(find_machine({}).machine.provenance.host == "own");

  write_machine(named("set"), folder.file("set.json"));
  REQUIRE(find_machine({.machine = folder.file("set.json")}).machine.provenance.host == "set");
  REQUIRE_THROWS_WITH(find_machine({.machine = folder.file("none.json")}), ContainsSubstring("none.json"));

  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  unsetenv("XDG_CONFIG_HOME");
  setenv("HOME", "/somewhere", 1);
  REQUIRE(own_machine_file().starts_with("/somewhere/.config/weir/machines/"));
  unsetenv("HOME");
  REQUIRE(own_machine_file().empty());
  REQUIRE(find_machine({}).origin == "built in");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST_CASE("rank 0's machine counts on all ranks") {
  const Folder folder;
  write_machine(named("first"), folder.file("first.json"));
  write_machine(named("other"), folder.file("other.json"));
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      Settings settings{.machine = folder.file(comm.rank() == 0 ? "first.json" : comm.rank() == 1 ? "other.json" : "none.json")};
      const FoundMachine found = agree(comm, settings);
      if (found.machine != named("first") || found.origin != folder.file("first.json")) throw std::runtime_error("not rank 0's");
    });
  }
  std::mutex mutex;
  int refused = 0;
  run_ranks(3, [&](Communicator& comm) {
    Settings settings{.machine = folder.file(comm.rank() == 0 ? "none.json" : "first.json")};
    try {
      agree(comm, settings);
    } catch (const Error& error) {
      const std::scoped_lock lock(mutex);
      refused += std::string(error.what()).find("none.json' cannot be read") != std::string::npos;
    }
  });
  REQUIRE(refused == 3);
}

TEST_CASE("a calibration measures every level that has a pair, alike on all ranks") {
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(5,
            [&](Communicator& comm) {
              Settings settings{.calibrate = comm.rank() == 0};  // rank 0's settings decide here, too
              const FoundMachine found = agree(comm, settings);
              const std::scoped_lock lock(mutex);
              texts.push_back(found.origin + format_machine(found.machine));
            },
            {.machine = "nodes:3,2"});
  REQUIRE(texts.size() == 5);
  for (const std::string& text : texts) REQUIRE(text == texts[0]);
  REQUIRE(texts[0].starts_with("measured"));
  const Machine machine = parse_machine(texts[0].substr(8), "measured");
  REQUIRE(machine.has(Level::node));
  REQUIRE(machine.has(Level::system));
  REQUIRE_FALSE(machine.has(Level::socket));
  REQUIRE((machine.provenance.ranks == 5 && machine.provenance.nodes == 2));
}

TEST_CASE("one rank alone keeps the built-in links and measures its rates") {
  run_ranks(1, [](Communicator& comm) {
    const auto measure = [](Channel channel, void*) { return calibrate(channel, 0.1, nullptr); };
    const Machine machine = run_task<Machine>(comm, measure, nullptr);
    if (machine.links != builtin_machine().links || machine.rates == builtin_machine().rates) throw std::runtime_error("wrong");
    const auto nonsense = [](Channel channel, void*) { return calibrate(channel, 0, nullptr); };
    bool refused = false;
    try {
      run_task<Machine>(comm, nonsense, nullptr);
    } catch (const Error& error) {
      refused = std::string(error.what()).find("0 seconds was asked for") != std::string::npos;
    }
    if (!refused) throw std::runtime_error("0 seconds were accepted");
  });
}

}  // namespace weir::test
