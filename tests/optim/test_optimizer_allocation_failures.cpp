// Memory runs out on one rank, at every allocation in making an operator or an optimizer and in its first run. Every rank ends with
// the same result, and the communicator still works.
#include <weir/optim.hpp>

#include "support/failing_calls.hpp"

namespace weir::test {
namespace {

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "node:3 rank:1", 0}};

void check(const std::string& what, const std::function<void(Communicator&)>& make_and_run) {
  for (const FailingRank& machine : machines) {
    fail_every_allocation(what, machine.ranks, machine.victim, machine.description, [&](FailingCalls& calls, Communicator& comm) {
      const auto call = [&] { make_and_run(comm); };
      if (calls.fail(comm.rank(), what, {}, {}, call) == FailingCalls::Verdict::wrong) return;
      calls.call(comm.rank(), "another one afterwards", {}, {}, {FailingCalls::Verdict::right}, call);
    });
  }
}

TEST_CASE("memory runs out while an operator is made and runs", "[failures]") {
  const std::vector<OperatorPart> parts(5, {.seconds = 1e-3, .result_bytes = 8});
  for (const bool variable : {false, true}) {
    check("an operator", [&](Communicator& comm) {
      std::array<std::byte, 40> results{};
      ParallelOperator work(comm, {.division = OperatorDivision::all, .variable = variable}, parts);
      work.run([](int, std::span<std::byte> result) { return std::ssize(result); }, results);
    });
  }
}

TEST_CASE("memory runs out while an optimizer is made and steps", "[failures]") {
  static const std::vector<OptimizedLayer> layers = {{.name = "one with a name that is allocated", .count = 70},
                                                     {.name = "bias", .count = 5}};
  for (const OptimizerRule rule : {OptimizerRule::lars, OptimizerRule::lamb}) {
    check("an optimizer", [&](Communicator& comm) {
      std::array<float, 75> w{};
      const std::array<float*, 2> weights = {w.data(), w.data() + 70};
      const std::array<const float*, 2> gradients = {w.data(), w.data() + 70};
      LayerOptimizer optimizer(comm, {.rule = rule, .update = OperatorDivision::all}, layers);
      optimizer.step(weights, gradients, 0.1);
    });
  }
}

}  // namespace
}  // namespace weir::test
