// test_resume.cpp: a run that continues from a file delivers and keeps the same as an uninterrupted run, bit for bit.
#include <weir/checkpoint.hpp>
#include <weir/observer.hpp>

#include "collectives/allreduce.hpp"
#include "support/catch.hpp"
#include "support/plan_states.hpp"
#include "support/table_training.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Returns the fault, or "". After `saved_after` runs a file is saved, and the run continues. Another job restores the file.
template <class T>
std::string going_on(const StateMachine& machine, const AllreduceConfig& config, int saved_after, std::int64_t compression = 0) {
  constexpr int runs = 6;
  const TemporaryFolder folder;
  const RankOptions options{.seed = 11, .machine = machine.description};
  std::vector<std::vector<Run<T>>> kept(static_cast<std::size_t>(machine.ranks));
  RankCheck check;
  run_ranks(
      machine.ranks,
      [&](Communicator& comm) {
        AllreducePlan plan(comm, config);
        Checkpoint checkpoint(comm, {.folder = folder.path(), .compression = compression});
        checkpoint.add("gradient", plan);
        check.that(!checkpoint.restore(), "something is restored from an empty folder");
        for (int t = 0; t < runs; ++t) {
          if (t == saved_after) {
            Operation save = checkpoint.save(t);
            save.wait();
          }
          Run<T> run = run_once<HostPlace<T>>(plan, comm, t);
          if (t >= saved_after) kept[static_cast<std::size_t>(comm.rank())].push_back(std::move(run));
        }
      },
      options);
  run_ranks(
      machine.ranks,
      [&](Communicator& comm) {
        const auto& mine = kept[static_cast<std::size_t>(comm.rank())];
        AllreducePlan plan(comm, config);
        if (saved_after % 2 == 1) run_once<HostPlace<T>>(plan, comm, 77);  // restoring removes every trace of it
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        checkpoint.add("gradient", plan);
        check.that(checkpoint.restore() == saved_after, "the step that is restored");
        for (int t = saved_after; t < runs; ++t)
          check.that(run_once<HostPlace<T>>(plan, comm, t) == mine[static_cast<std::size_t>(t - saved_after)],
                     "run " + std::to_string(t) + ", rank " + std::to_string(comm.rank()));
      },
      options);
  return check.failure().empty() ? "" : text_of(machine, config) + ": " + check.failure();
}

}  // namespace

TEST_CASE("every algorithm and threshold goes on from a file", "[checkpoint]") {
  int number = 0;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    for (const StateMachine& machine : state_machines) {
      AllreduceConfig config = config_of<float>(row);
      for (const std::string& threshold : all_thresholds) {
        if (left_out() || (!row.sparse() && threshold != "exact")) continue;
        set_threshold(config, threshold);
        REQUIRE(going_on<float>(machine, config, 1 + number % 4, number % 3 == 2 ? 1 : 0) == "");
        ++number;
      }
    }
  }
  for (const StateMachine& machine : {StateMachine{4, "switch:2 node:2 rank:1"}, StateMachine{10, "switches:2,3 rank:2"}}) {
    AllreduceConfig config = config_of<float>(find_allreduce("hi_oktopk"));
    for (const std::string& threshold : all_thresholds) {
      set_threshold(config, threshold);
      REQUIRE(going_on<float>(machine, config, 1 + number++ % 4) == "");
    }
  }
}

/// Counts the messages that saves send.
class SaveMessages final : public Observer {
 public:
  void message(const RunInfo& run, const MessageInfo& message) noexcept override {
    if (message.sent && run.name.ends_with(": save")) ++sent;
  }
  std::int64_t sent = 0;
};

TEST_CASE("a save is six collectives once ranks know each other's outlines, seven with compression", "[checkpoint]") {
  const std::int64_t compression = GENERATE(0, 4);
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 1000});
    Checkpoint checkpoint(comm, {.folder = folder.path(), .compression = compression});
    checkpoint.add("gradient", plan);
    const auto messages = std::make_shared<SaveMessages>();
    comm.add_observer(messages);
    for (int step = 0; step < 4; ++step) {
      messages->sent = 0;
      checkpoint.save(step).wait();
      // In an agreement each of two ranks sends one message. Rank 0 gathers and scatters a size and a blob. If writing takes
      // longer, ranks agree to wait for another second.
      if (step > 0)
        check.at_most(messages->sent, (compression == 0 ? 6 : 7) + static_cast<std::int64_t>(checkpoint.statistics().seconds_save),
                      "messages");
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
