// Automatic choice: the same on every rank, explained, and nothing lost while candidates take turns.
#include <cmath>
#include <set>

#include "model/machine.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/machine_file.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

struct Chosen {
  std::string algorithm, explanation;
};

/// Returns the choice of every rank's plan. Only rank 0 has the file's path.
std::vector<Chosen> choices(int ranks, const std::string& machine, const AllreduceConfig& config, const std::string& file) {
  std::vector<Chosen> list(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) {
              if (comm.rank() == 0) comm.state()->settings.machine = file;
              const AllreducePlan plan(comm, config);
              list[static_cast<std::size_t>(comm.rank())] = {plan.config().algorithm, plan.explanation()};
            },
            {.machine = machine});
  return list;
}

}  // namespace

TEST_CASE("auto is the same on every rank, and explained", "[auto]") {
  const MachineFile file(format_machine(builtin_machine()));
  for (const std::string machine : {"node:4 rank:1", "node:2 rank:2"}) {
    for (const double density : {0.001, 0.01, 1.0}) {
      const auto list = choices(4, machine, {.count = 1 << 20, .density = density, .algorithm = "auto"}, file.name());
      for (const Chosen& chosen : list) {
        CHECK(chosen.algorithm == list[0].algorithm);
        CHECK(chosen.explanation == list[0].explanation);
        CHECK_THAT(chosen.explanation, ContainsSubstring("by the figures of " + file.name() + ":"));
        CHECK_THAT(chosen.explanation, ContainsSubstring("> " + chosen.algorithm));
      }
      CHECK((list[0].algorithm.substr(0, 5) == "dense") == (density == 1.0));
    }
  }
  const auto sparse = choices(2, "node:2 rank:1", {.count = 1 << 20, .density = 1, .algorithm = "auto_sparse"}, file.name());
  CHECK(sparse[0].algorithm.substr(0, 5) != "dense");
}

TEST_CASE("auto takes a packed algorithm that sends less, with one rank on each node, too", "[auto]") {
  const MachineFile file(format_machine(builtin_machine()));
  for (const std::string machine : {"node:4 rank:1", "node:4 rank:2"}) {
    const auto list = choices(machine == "node:4 rank:1" ? 4 : 8, machine,
                              {.count = 1 << 22, .algorithm = "auto", .compressor = "block_quantise|none"}, file.name());
    CHECK(list[0].algorithm == "packed_reduce_scatter");
  }
}

TEST_CASE("auto on tiny problems and a single rank", "[auto]") {
  const MachineFile file(format_machine(builtin_machine()));
  for (const int ranks : {1, 3}) {
    for (const std::int64_t n : {0, 1, 5}) {
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        comm.state()->settings.machine = file.name();
        AllreducePlan plan(comm, {.count = n, .density = 1, .algorithm = "auto", .average = false});
        std::vector<float> x(static_cast<std::size_t>(n), 2);
        plan.run(x);
        check.that(x == std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(2 * ranks)), "sum");
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a bad machine file is an error on every rank alike", "[auto]") {
  const MachineFile file("{\"schema\": 99}");
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    if (comm.rank() == 0) comm.state()->settings.machine = file.name();
    try {
      const AllreducePlan plan(comm, {.count = 100, .algorithm = "auto"});
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_ARGUMENT && std::string(error.what()).find(file.name()) != std::string::npos,
                 error.what());
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("candidates take turns, nothing is lost, and all ranks keep the same one", "[auto]") {
  const MachineFile file(format_machine(slow_cores()));
  constexpr int ranks = 4;
  constexpr std::int64_t n = 30000;
  const int trials = GENERATE(1, 2, 5, 9);
  // On uneven nodes a rank alone on its node keeps all elements, with every candidate.
  const std::string machine = GENERATE("node:2 rank:2", "nodes:3,1");
  const int first_skipped = GENERATE(2, 3);
  const int iterations = 6 * trials + 4;
  const auto skipped = [&](int t) { return t % 5 == first_skipped; };
  using Vector = std::vector<float>;
  struct Step {
    Vector update, residual;
    std::string algorithm;
    std::int64_t memory;
  };
  for (const bool in_place : {true, false}) {
    std::vector<std::vector<Step>> steps(ranks);
    run_ranks(ranks,
              [&](Communicator& comm) {
                comm.state()->settings.machine = file.name();
                AllreducePlan plan(comm, {.count = n,
                                          .algorithm = "auto_sparse",
                                          .algorithm_parameters = "schedule=direct",  // costs about as much as others
                                          .trial_iterations = trials,
                                          .average = false,
                                          .non_finite = NonFinite::skip});
                for (int t = 0; t < iterations; ++t) {
                  Vector g = make_input<float>(Input::heavy_tailed, n, comm.rank(), ranks, t), update(n);
                  if (skipped(t) && comm.rank() == 1) g[7] = std::numeric_limits<float>::quiet_NaN();
                  if (in_place) {
                    plan.run(g);
                    update = g;
                  } else {
                    plan.run_sparse(g);
                    const auto sparse = plan.sparse_result<float>();
                    for (std::size_t i = 0; i < sparse.indices.size(); ++i) update[sparse.indices[i]] = sparse.values[i];
                  }
                  Vector residual(n);
                  std::copy(plan.residual<float>().begin(), plan.residual<float>().end(), residual.begin() + plan.residual_begin());
                  steps[static_cast<std::size_t>(comm.rank())].push_back(
                      {update, residual, plan.config().algorithm, plan.memory_bytes()});
                }
              },
              {.seed = 3, .machine = machine});

    std::set<std::string> used;
    std::vector<double> lost(n), magnitude(n);
    for (std::size_t t = 0; t < static_cast<std::size_t>(iterations); ++t) {
      used.insert(steps[0][t].algorithm);
      for (const auto& of_rank : steps) {
        REQUIRE((of_rank[t].update == steps[0][t].update));
        REQUIRE(of_rank[t].algorithm == steps[0][t].algorithm);
      }
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        double kept = 0;
        for (int r = 0; r < ranks; ++r) {
          static thread_local std::vector<Vector> gradients;
          if (i == 0) {
            if (r == 0) gradients.clear();
            gradients.push_back(make_input<float>(Input::heavy_tailed, n, r, ranks, static_cast<int>(t)));
          }
          const auto rank = static_cast<std::size_t>(r);
          if (!skipped(static_cast<int>(t))) lost[i] += static_cast<double>(gradients[rank][i]);
          magnitude[i] += std::abs(static_cast<double>(gradients[rank][i]));
          kept += static_cast<double>(steps[rank][t].residual[i]);
        }
        lost[i] -= static_cast<double>(steps[0][t].update[i]);
        worst = std::max(worst, std::abs(lost[i] - kept) / (1e-6 * magnitude[i] + 1e-30));
      }
      REQUIRE(worst <= 1);
    }
    CHECK(used.size() >= 2);
    CHECK(steps[0].back().memory < steps[0].front().memory);
  }
}

}  // namespace weir::test
