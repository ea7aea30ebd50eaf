// test_subgroups.cpp: communicators of some ranks of another one.
#include <algorithm>
#include <numeric>
#include <optional>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t count = 600;

using List = std::vector<int>;

bool has(const List& list, int rank) { return std::find(list.begin(), list.end(), rank) != list.end(); }

/// Returns the ranks from `first` below `end` in steps.
List every(int first, int end, int step = 1) {
  List list;
  for (int rank = first; rank < end; rank += step) list.push_back(rank);
  return list;
}

float value_of(int rank, std::int64_t i, int round) { return static_cast<float>((i * 7 + rank * 5 + round) % 13) - 6; }

/// A dense plan whose sums are known, since `list` says which ranks take part.
class Summing {
 public:
  Summing(const Communicator& comm, List list, const std::string& algorithm, int me)
      : list_(std::move(list)),
        me_(me),
        plan_(comm, {.count = count, .density = 1, .algorithm = algorithm, .average = false, .name = algorithm}),
        x_(static_cast<std::size_t>(count)) {}

  Operation start(int round) {
    round_ = round;
    for (std::int64_t i = 0; i < count; ++i) x_[static_cast<std::size_t>(i)] = value_of(me_, i, round);
    return plan_.start(x_);
  }
  [[nodiscard]] bool right() const {
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (const int rank : list_) sum += value_of(rank, i, round_);
      if (x_[static_cast<std::size_t>(i)] != sum) return false;
    }
    return true;
  }
  bool run(int round) {
    start(round).wait();
    return right();
  }

 private:
  List list_;
  int me_, round_ = 0;
  AllreducePlan plan_;
  std::vector<float> x_;
};

/// Makes the subgroup of `list` if this rank is in it, and checks that it is right.
std::optional<Communicator> checked_subgroup(const Communicator& comm, const List& list, RankCheck& check) {
  if (!has(list, comm.rank())) return {};
  Communicator sub = comm.subgroup(list);
  check.that(sub.size() == static_cast<int>(list.size()), "size");
  check.that(sub.rank() < sub.size() && list[static_cast<std::size_t>(sub.rank())] == comm.rank(), "rank");
  for (int peer = 0; peer < sub.size(); ++peer)
    check.that(sub.level(peer) == comm.level(list[static_cast<std::size_t>(peer)]), "level");
  for (const std::string algorithm : {"oktopk", "dense_ring", "hitopk"})
    check.that(Summing(sub, list, algorithm, comm.rank()).run(1), algorithm);
  return sub;
}

std::vector<float> gradient_of(int rank, int round) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>((i * 37 + rank * 101 + round * 17) % 257) / 16 - 8;
  return x;
}

/// Returns the updates of a few runs of a sparse plan.
std::vector<float> updates(const Communicator& comm, int input_rank) {
  AllreducePlan plan(comm, {.count = count, .density = 0.05});
  std::vector<float> all;
  for (int round = 0; round < 4; ++round) {
    std::vector<float> x = gradient_of(input_rank, round);
    plan.run(x);
    all.insert(all.end(), x.begin(), x.end());
  }
  return all;
}

}  // namespace

TEST_CASE("subgroups: all ranks, some, reversed, disjoint ones at once, overlapping and nested ones") {
  for (const int ranks : {1, 2, 3, 5, 7, 33}) {
    for (const std::uint64_t seed : {0, 7}) {
      CAPTURE(ranks, seed);
      RankCheck check;
      run_ranks(
          ranks,
          [&](Communicator& comm) {
            const int rank = comm.rank();
            const List all = every(0, ranks);
            checked_subgroup(comm, all, check);
            checked_subgroup(comm, List(all.rbegin(), all.rend()), check);
            checked_subgroup(comm, {ranks / 2}, check);
            checked_subgroup(comm, {ranks / 2}, check);
            checked_subgroup(comm, every(rank % 3, ranks, 3), check);  // three at once
            const auto low = checked_subgroup(comm, every(0, (ranks + 1) / 2 + 1 > ranks ? ranks : (ranks + 1) / 2 + 1), check);
            const auto high = checked_subgroup(comm, every(ranks / 2, ranks), check);  // some ranks are in both
            if (low) {  // of the half, every second rank, the last one first; of these, all but the first
              List nested = every(0, low->size(), 2);
              std::reverse(nested.begin(), nested.end());
              if (has(nested, low->rank())) {
                const Communicator inner = low->subgroup(nested);
                check.that(nested[static_cast<std::size_t>(inner.rank())] == rank, "nested rank");
                check.that(Summing(inner, nested, "oktopk", rank).run(2), "nested sum");
                if (inner.size() > 1 && inner.rank() > 0) {
                  const Communicator innermost = inner.subgroup(every(1, inner.size()));
                  check.that(Summing(innermost, List(nested.begin() + 1, nested.end()), "dense_ring", rank).run(3), "innermost");
                }
              }
            }
            check.that(Summing(comm, all, "oktopk", rank).run(4), "the parent afterwards");
          },
          {.seed = seed, .settings = {.timeout_seconds = 120, .log = LogLevel::error}});
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a subgroup's runs are those of a communicator of as many ranks, bit for bit") {
  const List list = {5, 0, 3, 6};
  std::vector<std::vector<float>> of_subgroup(4), of_world(4);
  run_ranks(7, [&](Communicator& comm) {
    if (!has(list, comm.rank())) return;
    const Communicator sub = comm.subgroup(list);
    of_subgroup[static_cast<std::size_t>(sub.rank())] = updates(sub, sub.rank());
  });
  run_ranks(4, [&](Communicator& comm) { of_world[static_cast<std::size_t>(comm.rank())] = updates(comm, comm.rank()); });
  REQUIRE(of_subgroup == of_world);
}

TEST_CASE("plans of a communicator and of its subgroups run at the same time") {
  for (const int ranks : {2, 3, 5, 7, 33}) {
    CAPTURE(ranks);
    RankCheck check;
    run_ranks(ranks,
              [&](Communicator& comm) {
                const int rank = comm.rank();
                const List all = every(0, ranks), half = every(rank % 2, ranks, 2),
                           pair = every(rank / 2 * 2, std::min(ranks, rank / 2 * 2 + 2));
                const Communicator halves = comm.subgroup(half), pairs = comm.subgroup(pair);
                Summing first(comm, all, "oktopk", rank), second(halves, half, "dense_ring", rank),
                    third(pairs, pair, "hi_oktopk", rank), fourth(halves, half, "oktopk", rank);
                for (int round = 0; round < 5; ++round) {
                  std::vector<Operation> operations;
                  operations.push_back(first.start(round));
                  operations.push_back(second.start(round + 1));
                  operations.push_back(third.start(round + 2));
                  operations.push_back(fourth.start(round + 3));
                  if (round % 2 == 1) std::reverse(operations.begin(), operations.end());
                  // A subgroup is made while runs are in flight, and these go on.
                  const std::optional<Communicator> beside = round == 2 ? std::optional(comm.subgroup(half)) : std::nullopt;
                  for (Operation& operation : operations) operation.wait();
                  check.that(first.right() && second.right() && third.right() && fourth.right(), "round " + std::to_string(round));
                  if (beside) check.that(Summing(*beside, half, "oktopk", rank).run(9), "the one made meanwhile");
                }
              },
              {.seed = 3});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a communicator and its subgroups end in any order") {
  RankCheck check;
  run_ranks(5,
            [&](Communicator& comm) {
              const List list = {3, 1, 4};
              std::optional<Communicator> parent(comm.subgroup(every(0, 5)));
              std::optional<Communicator> child, grandchild;
              if (has(list, comm.rank())) child.emplace(parent->subgroup(list));
              if (child && child->rank() < 2) grandchild.emplace(child->subgroup({1, 0}));
              parent.reset();
              std::optional<Summing> summing;
              if (child) summing.emplace(*child, list, "oktopk", comm.rank());
              if (child && child->rank() != 2) child.reset();  // its plan keeps it
              if (grandchild) check.that(Summing(*grandchild, {1, 3}, "dense_ring", comm.rank()).run(1), "grandchild");
              if (summing) check.that(summing->run(2), "child");
              summing.reset();
              child.reset();
              if (grandchild) check.that(Summing(*grandchild, {1, 3}, "oktopk", comm.rank()).run(3), "grandchild alone");
            },
            {.seed = 11});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a subgroup keeps the nodes, switches, settings and machine of its communicator") {
  RankCheck check;
  run_ranks(12,
            [&](Communicator& comm) {
              const auto& parent = *comm.state();
              comm.state()->agreed_machine();
              const Communicator node = comm.subgroup(comm.group(Level::node)), rail = comm.subgroup(every(comm.rank() % 3, 12, 3));
              check.that(node.state()->topology.node_count() == 1 && node.size() == 3, "node");
              check.that(rail.state()->topology.node_count() == 4 && rail.state()->topology.switch_count() == 2, "rail");
              check.that(rail.level(rail.rank() ^ 1) == Level::switch_group, "switch");
              for (const Communicator& sub : {node, rail}) {
                const auto& state = *sub.state();
                check.that(state.settings.timeout_seconds == parent.settings.timeout_seconds && !state.settings.shared_memory,
                           "settings");
                check.that(state.machine && state.machine->origin == parent.machine->origin, "machine");
              }
            },
            {.machine = "switch:2 node:2 rank:3", .settings = {.timeout_seconds = 77, .shared_memory = false}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a wrong list is the same error on all ranks of the list, and the next one works") {
  SameErrors errors(4);
  run_ranks(4, [&](Communicator& comm) {
    const int rank = comm.rank();
    const auto expect = [&](weir_status status, const std::string& part, const List& list) {
      errors.expect(rank, status, part, [&] { static_cast<void>(comm.subgroup(list)); });
    };
    expect(WEIR_ERR_ARGUMENT, "subgroup: the list is empty", {});
    expect(WEIR_ERR_ARGUMENT, "subgroup: rank 0: the list has rank 4: the communicator has ranks 0 to 3", {0, 1, 2, 3, 4});
    expect(WEIR_ERR_ARGUMENT, "subgroup: rank 2: the list has rank -1: the communicator has ranks 0 to 3",
           rank == 2 ? List{3, 2, 1, 0, -1} : List{3, 2, 1, 0});
    expect(WEIR_ERR_ARGUMENT, "subgroup: rank 3: the list has rank 0 twice", rank == 3 ? List{0, 3, 0, 1, 2} : List{0, 3, 1, 2});
    expect(WEIR_ERR_MISMATCH, "subgroup: ranks disagree about the list: rank 0 has 0, 1, 2, 3; rank 2 has 1, 0, 2, 3",
           rank == 2 ? List{1, 0, 2, 3} : List{0, 1, 2, 3});
    expect(WEIR_ERR_MISMATCH, "subgroup: ranks disagree about the list: rank 0 has 3, 1, 2, 0; rank 1 has 0, 1",
           rank == 1 ? List{0, 1} : List{3, 1, 2, 0});
    RankCheck& check = errors.check();
    const std::string text = "subgroup: rank " + std::to_string(rank) + " is not in its own list (";
    try {
      static_cast<void>(comm.subgroup({(rank + 1) % 4}));
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_ARGUMENT && std::string(error.what()).starts_with(text), error.what());
    }
    try {
      static_cast<void>(detail::make_subgroup(comm.state(), List{0, 1, 2, 3}, rank == 1 ? "no address" : nullptr));
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(std::string(error.what()) == "subgroup: rank 1: no address", error.what());
    }
    checked_subgroup(comm, {2, 0, 3, 1}, check);
  });
  REQUIRE(errors.failure() == "");
}

TEST_CASE("ranks that stay away are named, the others end together, and plans of the communicator go on") {
  for (const List& absent : {List{2}, List{0}, List{1, 3}}) {
    CAPTURE(absent);
    RankCheck check;
    run_ranks(4,
              [&](Communicator& comm) {
                const List all = every(0, 4);
                Summing plan(comm, all, "oktopk", comm.rank());
                set_timeout(comm, 2);
                if (!has(absent, comm.rank())) {
                  std::string text;
                  try {
                    static_cast<void>(comm.subgroup({1, 0, 3, 2}));
                  } catch (const Error& error) {
                    text = error.what();
                    check.that(error.status() == WEIR_ERR_TIMEOUT, text);
                  }
                  const std::string whom = absent.size() == 1 ? "for rank " + std::to_string(absent[0]) : "for ranks 1, 3";
                  check.that(text.find(whom) != std::string::npos, "'" + text + "' does not name who is missing");
                }
                set_timeout(comm, 120);
                check.that(plan.run(1), "a plan made before");
                check.that(Summing(comm, all, "dense_ring", comm.rank()).run(2), "a plan made later");
                if (!has(absent, comm.rank()) && (comm.rank() == 0 || has(absent, 0))) {
                  try {
                    static_cast<void>(comm.subgroup({comm.rank()}));
                    check.that(false, "no error");
                  } catch (const Error& error) {
                    check.that(error.status() == WEIR_ERR_STATE, error.what());
                  }
                }
              },
              {.settings = {.timeout_seconds = 120, .log = LogLevel::error}});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("many subgroups one after another") {
  RankCheck check;
  run_ranks(3,
            [&](Communicator& comm) {
              for (int round = 0; round < 100; ++round) {
                const int left_out = round % 3;
                List list = {0, 1, 2};
                std::erase(list, left_out);
                if (round % 2 == 1) std::reverse(list.begin(), list.end());
                if (comm.rank() == left_out) continue;
                const Communicator sub = comm.subgroup(list);
                check.that(Summing(sub, list, "oktopk", comm.rank()).run(round), "round " + std::to_string(round));
              }
            },
            {.seed = 5});
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
