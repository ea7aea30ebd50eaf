// test_state.cpp: a plan that continues from a saved state delivers and keeps the same as an uninterrupted plan, bit for bit. It
// refuses states that are not its own.
#include <limits>

#include "collectives/allreduce.hpp"
#include "model/machine.hpp"
#include "support/catch.hpp"
#include "support/plan_states.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

template <class T>
void going_on(const StateMachine& machine, const AllreduceConfig& config, int saved_after) {
  REQUIRE(plan_going_on<HostPlace<T>>(machine, config, saved_after) == "");
}

}  // namespace

TEST_CASE("every algorithm, threshold and wire value goes on from a saved state", "[state]") {
  int number = 0;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    for (const StateMachine& machine : state_machines) {
      AllreduceConfig config = config_of<float>(row);
      if (!row.sparse()) {
        if (left_out()) continue;
        going_on<float>(machine, config, 3);
        continue;
      }
      for (const std::string& threshold : all_thresholds) {
        for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
          if (left_out()) continue;
          set_threshold(config, threshold);
          config.wire_values = values;
          going_on<float>(machine, config, 1 + number++ % 5);
        }
      }
    }
  }
}

TEST_CASE("an exchange by switch group goes on from a saved state", "[state][switches]") {
  const AllreduceRow& row = find_allreduce("hi_oktopk");
  int number = 0;
  for (const StateMachine& machine : {StateMachine{4, "switch:2 node:2 rank:1"}, StateMachine{10, "switches:2,3 rank:2"}}) {
    for (const std::string& threshold : all_thresholds) {
      for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
        if (left_out()) continue;
        AllreduceConfig config = config_of<float>(row);
        set_threshold(config, threshold);
        config.wire_values = values;
        going_on<float>(machine, config, 1 + number++ % 5);
      }
    }
    for (const std::int64_t n : {0, 1, 2, 5}) {
      AllreduceConfig config = config_of<double>(row);
      config.count = n;
      config.k = std::min<std::int64_t>(n, 2);
      going_on<double>(machine, config, 3);
    }
  }
}

TEST_CASE("float64, no error feedback, and hardly any elements go on from a saved state", "[state]") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.sparse()) continue;
    for (const StateMachine& machine : state_machines) {
      for (const std::string threshold : {"exact", "reuse", "sidco"}) {
        if (left_out()) continue;
        AllreduceConfig config = config_of<double>(row);
        set_threshold(config, threshold);
        going_on<double>(machine, config, 3);
      }
      AllreduceConfig config = config_of<float>(row);
      config.error_feedback = Feedback::none;
      going_on<float>(machine, config, 4);
      for (const std::int64_t n : {0, 1, 2}) {
        config = config_of<float>(row);
        config.count = config.k = n;
        going_on<float>(machine, config, 3);
      }
    }
  }
}

TEST_CASE("a state goes into a plan of any other threshold", "[state]") {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& from : all_thresholds) {
    for (const std::string& to : all_thresholds) {
      if (!left_out()) pairs.emplace_back(from, to);
    }
  }
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreduceConfig config{.count = 701, .k = 30, .non_finite = NonFinite::skip};
    for (const auto& [from, to] : pairs) {
      set_threshold(config, from);
      AllreducePlan saved(comm, config);
      for (int t = 0; t < 3; ++t) run_once<HostPlace<float>>(saved, comm, t);
      std::vector<std::byte> state(static_cast<std::size_t>(saved.state_bytes()));
      saved.save_state(state);
      set_threshold(config, to);
      AllreducePlan restored(comm, config);
      restored.restore_state(state);
      check.that(std::ranges::equal(saved.residual<float>(), restored.residual<float>()), from + " to " + to);
      run_once<HostPlace<float>>(restored, comm, 3);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("samples of an array that is larger than they are go on from a saved state", "[state]") {
  for (const std::string& threshold : all_thresholds) {
    AllreduceConfig config = config_of<float>(find_allreduce("topk_allgather"));
    config.count = 200003;
    config.k = 500;
    set_threshold(config, threshold);
    going_on<float>(state_machines[0], config, 3);
  }
}

TEST_CASE("trials go on from a saved state: the same turns, and nothing is lost", "[state]") {
  const MachineFile file(format_machine(slow_cores()));
  for (const std::string algorithm : {"auto", "auto_sparse"}) {
    for (const std::int64_t trials : {1, 2, 4, 8}) {
      if (left_out(4)) continue;
      const AllreduceConfig config{.count = 40001,
                                   .density = algorithm == "auto" ? 0.08 : 0.02,
                                   .algorithm = algorithm,
                                   .trial_iterations = trials,
                                   .average = false,
                                   .non_finite = NonFinite::skip};
      INFO(algorithm << ", " << trials << " trials");
      CHECK(trials_going_on<HostPlace<float>>({config, 5, "nodes:2,3"}, file, trials == 2 ? 2 : 5) == "");
    }
  }
}

TEST_CASE("a plan whose trials have ended refuses the state of trials that go on", "[state]") {
  const MachineFile file(format_machine(slow_cores()));
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              comm.state()->settings.machine = file.name();
              AllreducePlan plan(
                  comm, {.count = 40001, .algorithm = "auto_sparse", .trial_iterations = 1, .non_finite = NonFinite::skip});
              const SavedState early = save_state(*plan.state());
              for (int t = 0; t < 15; ++t) run_once<HostPlace<float>>(plan, comm, t);
              const SavedState late = save_state(*plan.state());
              check.that(decided(late), "decided");
              try {
                restore_state(*plan.state(), early, "plan 'x'");
                check.that(false, "accepted");
              } catch (const Error& error) {
                check.that(std::string(error.what()).find("make a new plan to restore this state to") != std::string::npos,
                           error.what());
              }
              check.that(first_difference(save_state(*plan.state()), late) == "", "changed");
              restore_state(*plan.state(), late, "plan 'x'");
              run_once<HostPlace<float>>(plan, comm, 15);
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

namespace {

/// Returns the error's text, or "" if `saved` is accepted.
std::string refusal(AllreducePlan& plan, const SavedState& saved) {
  try {
    restore_state(*plan.state(), saved, "plan 'x'");
    return "";
  } catch (const Error& error) {
    return error.status() == WEIR_ERR_ARGUMENT ? error.what() : "other status";
  }
}

}  // namespace

TEST_CASE("a state that is spoilt or foreign is refused by name, and changes nothing", "[state]") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    RankCheck check;
    run_ranks(3,
              [&](Communicator& comm) {
                AllreduceConfig config = config_of<float>(row);
                AllreducePlan plan(comm, config), other(comm, config);
                for (int t = 0; t < 3; ++t) {
                  run_once<HostPlace<float>>(plan, comm, t);
                  run_once<HostPlace<float>>(other, comm, t);
                }
                const SavedState saved = save_state(*plan.state());
                check.that(accepted_spoilt(saved, [&](const SavedState& spoilt) { return refusal(plan, spoilt); }) == "",
                           accepted_spoilt(saved, [&](const SavedState& spoilt) { return refusal(plan, spoilt); }));
                const auto refused = [&](const SavedState& foreign, const std::string& field) {
                  const std::string text = refusal(plan, foreign);
                  check.that(text.find("does not fit plan 'x': field '" + field + "'") != std::string::npos,
                             field + ": " + (text.empty() ? "accepted" : text));
                };
                refused(with(saved, "rank", std::int64_t{comm.rank() + 1}), "rank");
                refused(with(saved, "ranks", std::int64_t{4}), "ranks");
                refused(with(saved, "delivered_runs", std::int64_t{9}), "delivered_runs");
                refused(with(saved, "step/algorithm", 'X'), "step/algorithm");
                if (saved.find("step/exchange/boundaries") != nullptr)
                  refused(with(saved, "step/exchange/boundaries", std::uint64_t{701}), "step/exchange/boundaries");
                if (saved.find("step/selector/sidco/stages") != nullptr)
                  refused(with(saved, "step/selector/sidco/stages", 0), "step/selector/sidco/stages");
                config.count = 702;
                AllreducePlan larger(comm, config);
                refused(save_state(*larger.state()), "count");
                check.that(first_difference(save_state(*plan.state()), saved) == "", "changed");
                for (int t = 3; t < 5; ++t)
                  check.that(run_once<HostPlace<float>>(plan, comm, t) == run_once<HostPlace<float>>(other, comm, t),
                             "goes on otherwise");
              },
              {.machine = "nodes:2,1"});
    INFO(row.name);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("what compressors keep is refused by name where it is spoilt, and then stays as it was", "[state]") {
  struct Kept {
    const char *algorithm, *compressor;
    Feedback feedback;
  };
  RankCheck check;
  for (const Kept& kept : {Kept{"oktopk", "top_k", Feedback::ef21}, Kept{"packed_allgather", "block_quantise", Feedback::ef21},
                           Kept{"oktopk", "dgc", Feedback::residual}, Kept{"packed_allgather", "signum", Feedback::none},
                           Kept{"dense_ring", "power_sgd", Feedback::residual}}) {
    run_ranks(2, [&](Communicator& comm) {
      AllreducePlan plan(
          comm,
          {.count = 100, .k = 10, .algorithm = kept.algorithm, .compressor = kept.compressor, .error_feedback = kept.feedback});
      for (int t = 0; t < 3; ++t) {
        std::vector<float> gradient = make_input<float>(Input::heavy_tailed, 100, comm.rank(), 2, t);
        plan.run(gradient);
      }
      const SavedState saved = save_state(*plan.state());
      const std::string accepted = accepted_spoilt(saved, [&](const SavedState& spoilt) { return refusal(plan, spoilt); });
      check.that(accepted.empty(), accepted);
      const auto refused = [&](const SavedState& foreign, const std::string& field) {
        const std::string text = refusal(plan, foreign);
        check.that(text.find("field '" + field + "'") != std::string::npos, field + ": " + (text.empty() ? "accepted" : text));
      };
      refused(with(saved, "encoded_runs", std::int64_t{9}), "encoded_runs");
      if (kept.feedback == Feedback::ef21) {
        refused(with(saved, "step/estimate_divisor", 0.0), "step/estimate_divisor");
        refused(with(saved, "step/estimate_divisor", std::numeric_limits<double>::infinity()), "step/estimate_divisor");
        SavedState unknown = with(saved, "step/estimate_divisor", 5.0);
        unknown.fields.push_back({"step/mood", StateType::int32, 1, Buffer<std::byte>(4)});
        refused(unknown, "step/mood");
      }
      const std::string difference = first_difference(save_state(*plan.state()), saved);
      check.that(difference.empty(), "a refused state changed " + difference);
    });
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("a plan that is running is neither saved nor restored", "[state]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 1000, .name = "x"});
    const SavedState fresh = save_state(*plan.state());
    auto gradient = make_input<float>(Input::heavy_tailed, 1000, comm.rank(), 2, 0);
    Operation operation = plan.start(gradient);
    for (const bool saves : {true, false}) {
      try {
        if (saves)
          static_cast<void>(save_state(*plan.state()));
        else
          restore_state(*plan.state(), fresh, "plan 'x'");
        check.that(false, "accepted");
      } catch (const Error& error) {
        check.that(error.status() == WEIR_ERR_BUSY && std::string(error.what()).find("plan 'x' is running") == 0, error.what());
      }
    }
    operation.wait();
    restore_state(*plan.state(), fresh, "plan 'x'");
    check.that(first_difference(save_state(*plan.state()), fresh) == "" && plan.sparse_result<float>().values.empty(),
               "a fresh plan's state");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("fields have paths, types and values", "[state]") {
  struct Subject {
    bool flag = true;
    WireValues kind = WireValues::float16;
    std::array<double, 2> pair{1, 2};
    std::vector<float> large{1, 2, 3};
    int copies = 0;
    void visit_state(StateVisitor& visitor) {
      visitor.value("flag", flag);
      const StateVisitor::Scope outer(visitor, "a");
      visitor.value("kind", kind);
      {
        const StateVisitor::Scope inner(visitor, "b");
        visitor.values("pair", std::span<double>(pair));
      }
      visitor.text("name", "weir");
      visitor.array("large", large.data(), 3, [this](void* to, const void* from, std::int64_t bytes) {
        ++copies;
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
      });
    }
  };
  Subject subject;
  const SavedState saved = save_state(subject);
  std::string list;
  for (const StateField& field : saved.fields)
    list += field.name + " " + std::string(state_type_name(field.type)) + " " + std::to_string(field.count) + "; ";
  CHECK(list == "flag bool 1; a/kind int32 1; a/b/pair float64 2; a/name text 4; a/large float32 3; ");
  Subject other{false, WireValues::native, {}, {0, 0, 0}, 0};
  restore_state(other, saved, "it");
  CHECK(other.flag);
  CHECK(other.kind == WireValues::float16);
  CHECK(other.pair == subject.pair);
  CHECK(other.large == subject.large);
  CHECK(other.copies == 1);
  CHECK_THROWS_WITH(restore_state(other, with(saved, "flag", std::uint8_t{2}), "it"),
                    "the state does not fit it: field 'flag': it holds bytes that are neither false (0) nor true (1)");
  CHECK(accepted_spoilt(saved, [&](const SavedState& spoilt) -> std::string {
          try {
            restore_state(other, spoilt, "it");
          } catch (const Error& error) {
            return error.what();
          }
          return "";
        }) == "");
}

}  // namespace weir::test
