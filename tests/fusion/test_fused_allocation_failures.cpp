// Memory runs out on one rank, at every allocation in making a FusedAllreduce and in its iterations. Every rank gets the right
// updates or the same error, and the communicator still works.
#include <optional>

#include "fusion/fused_inputs.hpp"
#include "support/failing_calls.hpp"

namespace weir::test {
namespace {

using Verdict = FailingCalls::Verdict;

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "node:3 rank:1", 0}};
// The other schemes have the same allocations as these, in construction and in iterations.
constexpr std::array schemes = {FusionScheme::behind, FusionScheme::ahead, FusionScheme::ahead_inter, FusionScheme::ahead_fitted};

const std::vector<FusedTensor> tensors = {
    {.name = "first", .count = 90}, {.name = "bias", .count = 10, .dense = true}, {.name = "last", .count = 60, .optional = true}};

/// All entries are delivered and are integers, so that updates are the same for any division.
FusionConfig config_of(FusionScheme scheme) {
  return {.scheme = scheme, .buffer_bytes = 300, .density = 1, .algorithm = "topk_allgather", .average = false, .name = "net"};
}

/// From this iteration on there is nothing to send, so that `ahead` fills no buffer.
constexpr int idle = 7;

std::vector<float> gradient(const Communicator& comm, int t) {
  std::int64_t count = 0;
  for (const FusedTensor& tensor : tensors) count += tensor.count;
  if (t >= idle) return std::vector<float>(static_cast<std::size_t>(count));
  return make_input<float>(Input::integers, count, comm.rank(), comm.size(), t);
}

/// Runs one iteration on the tensors, which lie one after another in `g`.
void iterate(FusedAllreduce& fused, std::vector<float>& g) {
  std::int64_t end = std::ssize(g);
  for (int i = fused.size() - 1; i >= 0; --i) {
    end -= fused.description(i).count;
    fused.ready_raw(i, g.data() + end, fused.description(i).count);
  }
  fused.wait_all();
}

/// Returns the updates without failures: right[t] for iteration t.
std::vector<std::vector<float>> right_updates(const FailingRank& machine, const FusionConfig& config, int iterations,
                                              int first = 0) {
  std::vector<std::vector<float>> right(static_cast<std::size_t>(iterations));
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              FusedAllreduce fused(comm, config, tensors);
              for (int t = 0; t < iterations; ++t) {
                std::vector<float> g = gradient(comm, first + t);
                iterate(fused, g);
                if (comm.rank() == 0) right[static_cast<std::size_t>(t)] = g;
              }
            },
            {.machine = machine.description});
  return right;
}

/// Checks that the communicator can make a FusedAllreduce and iterate.
void check_usable(FailingCalls& calls, const Communicator& comm, const FusionConfig& config, const std::vector<float>& right,
                  int first = 0) {
  std::vector<float> g = gradient(comm, first);
  calls.call(comm.rank(), "another one afterwards", g, right, {Verdict::right}, [&] {
    FusedAllreduce fused(comm, config, tensors);
    iterate(fused, g);
  });
}

void check_making(const FailingRank& machine, const FusionConfig& config) {
  const auto right = right_updates(machine, config, 1);
  const auto make = [&](FailingCalls& calls, const Communicator& comm) {
    std::vector<float> g = gradient(comm, 0);
    std::optional<FusedAllreduce> fused;
    const Verdict made = calls.fail(comm.rank(), "making it", {}, {}, [&] { fused.emplace(comm, config, tensors); });
    if (made == Verdict::wrong) return;
    if (made == Verdict::split) return calls.note("it was made on some ranks only");
    if (made == Verdict::right)
      calls.call(comm.rank(), "its iteration", g, right[0], {Verdict::right}, [&] { iterate(*fused, g); });
    check_usable(calls, comm, config, right[0]);
  };
  fail_every_allocation("making " + name_of(config.scheme), machine.ranks, machine.victim, machine.description, make);
}

/// Lets iteration `failing`, with gradients from `first` on, fail.
void check_iteration(const FailingRank& machine, const FusionConfig& config, int failing, int first = 0) {
  const auto right = right_updates(machine, config, failing + 2, first);
  const auto right_of = [&](int t) { return right[static_cast<std::size_t>(t)]; };
  const auto run = [&](FailingCalls& calls, const Communicator& comm) {
    FusedAllreduce fused(comm, config, tensors);
    std::vector<float> g;
    for (int t = 0; t < failing; ++t) {
      g = gradient(comm, first + t);
      iterate(fused, g);
    }
    g = gradient(comm, first + failing);
    std::vector<float> next_g = gradient(comm, first + failing + 1);
    const Verdict ran = calls.fail(comm.rank(), "the iteration", g, right_of(failing), [&] { iterate(fused, g); });
    if (ran == Verdict::wrong) return;
    const Verdict next = calls.call(comm.rank(), "the next iteration", next_g, right_of(failing + 1),
                                    {ran == Verdict::right ? Verdict::right : Verdict::refused}, [&] { iterate(fused, next_g); });
    if (next == Verdict::wrong) return;
    check_usable(calls, comm, config, right[0], first);
  };
  fail_every_allocation("iteration " + std::to_string(failing) + " of " + name_of(config.scheme), machine.ranks, machine.victim,
                        machine.description, run);
}

}  // namespace

TEST_CASE("memory runs out while tensors are fused", "[failures]") {
  for (const FusionScheme scheme : schemes) {
    DYNAMIC_SECTION(name_of(scheme)) {
      for (const FailingRank& machine : machines) check_making(machine, config_of(scheme));
    }
  }
}

TEST_CASE("memory runs out in the first iteration", "[failures]") {
  for (const FusionScheme scheme : schemes) {
    DYNAMIC_SECTION(name_of(scheme)) {
      for (const FailingRank& machine : machines) {
        check_iteration(machine, config_of(scheme), 0);
        check_iteration(machine, config_of(scheme), 0, idle);
      }
    }
  }
}

TEST_CASE("memory runs out while tensors are divided anew", "[failures]") {
  constexpr int first_round = 5;  // one warm, five measured: this is the last
  for (const FailingRank& machine : machines) check_iteration(machine, config_of(FusionScheme::ahead_fitted), first_round);
}

}  // namespace weir::test
