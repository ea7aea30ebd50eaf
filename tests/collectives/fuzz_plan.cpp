// A seeded fuzzer of allreduce plans on virtual ranks: any machine, algorithm, selection, wire and input, several plans in flight,
// started in another order on every rank, with wrong calls and NaN among them. It compares with the oracle bit for bit if there is
// one, and always checks the contract: the same bits on all ranks, nothing lost, the same errors.
#include <fmt/format.h>

#include <cstdio>

#include "fuzz_plan_cases.hpp"
#include "fuzz_plan_record.hpp"
#include "support/fuzz_loop.hpp"
#include "support/inproc_ranks.hpp"

namespace weir::test {
namespace {

using Plans = std::vector<std::unique_ptr<FuzzedPlan>>;

/// One rank's part: starts, polls and waits in its own order. It waits for a plan's run only after it has started as many runs of
/// all other plans. Then all ranks have started every run that any rank waits for.
class RankOfJob {
 public:
  RankOfJob(const Communicator& comm, const std::vector<PlanCase>& cases, const Plans& plans, bool clash, Dice dice)
      : comm_(comm), cases_(cases), plans_(plans), clash_(clash), dice_(dice) {}

  void play() {
    for (std::size_t p = 0; p < plans_.size(); ++p)
      plans_[p]->make_plan(comm_, clash_ ? dice_.small(-3, 3) : cases_[p].config.priority);
    while (!done()) move(dice_.between(0, static_cast<std::int64_t>(plans_.size()) - 1));
    for (const std::size_t p : dice_.order(plans_.size())) plans_[p]->drop_plan(comm_.rank());
  }

 private:
  [[nodiscard]] std::size_t runs(std::size_t p) const { return cases_[p].runs.size(); }

  [[nodiscard]] bool done() const {
    for (std::size_t p = 0; p < plans_.size(); ++p) {
      if (plans_[p]->started(comm_.rank()) < runs(p) || plans_[p]->in_flight(comm_.rank())) return false;
    }
    return true;
  }

  void move(std::int64_t which) {
    const auto p = static_cast<std::size_t>(which);
    FuzzedPlan& plan = *plans_[p];
    const int rank = comm_.rank();
    if (!plan.in_flight(rank)) {
      if (plan.started(rank) < runs(p)) plan.start(rank);
    } else if (dice_.chance(70)) {
      plan.test(rank);
    } else if (others_have_started(plan.started(rank))) {
      plan.wait(rank);
    }
  }

  [[nodiscard]] bool others_have_started(std::size_t count) const {
    for (std::size_t q = 0; q < plans_.size(); ++q) {
      if (plans_[q]->started(comm_.rank()) < std::min(count, runs(q))) return false;
    }
    return true;
  }

  const Communicator& comm_;
  const std::vector<PlanCase>& cases_;
  const Plans& plans_;
  bool clash_;
  Dice dice_;
};

std::string run_case(std::uint64_t seed, bool talk) {
  const JobCase job = make_job(seed);
  if (talk) std::printf("%s", job.text().c_str());
  std::vector<Location> locations(static_cast<std::size_t>(job.ranks));
  if (!job.machine.empty()) locations = synthetic_machine(job.machine);
  if (!job.places.empty()) {
    const std::vector<Location> ordered = locations;
    for (std::size_t rank = 0; rank < locations.size(); ++rank) locations[rank] = ordered[job.places[rank]];
  }
  if (!job.members.empty()) {
    const std::vector<Location> of_communicator = locations;
    for (std::size_t rank = 0; rank < locations.size(); ++rank)
      locations[rank] = of_communicator[static_cast<std::size_t>(job.members[rank])];
  }
  std::vector<Plans> generations;
  for (const std::vector<PlanCase>& cases : job.generations) {
    Plans& plans = generations.emplace_back();
    for (const PlanCase& plan : cases) plans.push_back(FuzzedPlan::make(plan, locations));
  }
  try {
    run_ranks(job.ranks,
              [&](Communicator& all) {
                const Communicator comm = job.members.empty() ? all : all.subgroup(job.members);
                const Dice dice(seed + 1 + static_cast<std::uint64_t>(comm.rank()));
                for (std::size_t g = 0; g < generations.size(); ++g)
                  RankOfJob(comm, job.generations[g], generations[g], job.clash, dice).play();
              },
              {.seed = job.delays,
               .machine = job.machine,
               .places = job.places,
               .settings = {.timeout_seconds = 20, .shared_memory = job.shared_memory}});
  } catch (const std::exception& error) {
    return fmt::format("{}\n{}", error.what(), job.text());
  }
  for (const Plans& plans : generations) {
    for (const auto& plan : plans) {
      const std::string fault = plan->fault();
      if (!fault.empty()) return fmt::format("{}\n{}", fault, job.text());
    }
  }
  return "";
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) { return weir::test::fuzz_loop(argc, argv, weir::test::run_case); }
