// The volume bounds of Ok-Topk, in every iteration, for P = 2, 3, 4, 5, 8, 16, 33; and the count guard of mode `reuse`.
#include <bit>

#include "collectives/oktopk_volume.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/counters.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

constexpr int iterations = 7;

void check_volume(int ranks, std::int64_t n, std::int64_t k, Input input, const std::string& threshold, bool roughly_agreeing) {
  if (left_out()) return;
  INFO("P " << ranks << " n " << n << " k " << k << " input " << input_name(input) << " " << threshold);
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n,
                                        .k = k,
                                        .algorithm_parameters = "boundary_period=4,schedule=direct",
                                        .threshold = threshold,
                                        .threshold_parameters = period_of(threshold, 100)});
              for (int t = 0; t < iterations; ++t) {
                plan.run_sparse(make_input<float>(input, n, comm.rank(), ranks, t));
                const Statistics& s = plan.statistics();
                const std::int64_t sent = s.payload_bytes_sent / 4, received = s.payload_bytes_received / 4;
                // The paper's assumption gives 6 k (P - 1) / P; any input gives 6 k.
                const std::int64_t slack = oktopk_payload_words(0, ranks);
                const std::int64_t bound = (roughly_agreeing ? 6 * k * (ranks - 1) / ranks : 6 * k) + slack;
                const std::string where = "iteration " + std::to_string(t) + " rank " + std::to_string(comm.rank());
                check.at_most(sent, bound, where + " words sent");
                check.at_most(received, bound, where + " words received");
                check.at_most(std::max(s.control_bytes_sent, s.control_bytes_received) / 4,
                              oktopk_control_words<float>(ranks, ExchangeSchedule::direct), where + " control words");
                if (threshold == "reuse") {
                  check.at_most(4 * s.selected_local, 5 * k, where + " local count");
                  check.at_most(4 * s.selected_global, 5 * k, where + " global count");
                  if (input == Input::heavy_tailed) {
                    check.at_most(4 * k, 5 * s.selected_local, where + " local count, low side");
                    check.at_most(4 * k, 5 * s.selected_global, where + " global count, low side");
                  }
                }
              }
            },
            {.seed = static_cast<std::uint64_t>(ranks)});
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("6k(P-1)/P words where coordinates roughly agree", "[oktopk][volume]") {
  for (const int ranks : {2, 3, 4, 5, 8, 16, 33}) {
    for (const std::string threshold : {"exact", "reuse"}) check_volume(ranks, 40009, 1003, Input::heavy_tailed, threshold, true);
  }
}

TEST_CASE("6k words on any input", "[oktopk][volume]") {
  for (const int ranks : {2, 3, 4, 5, 8, 16, 33}) {
    for (const Input input : all_inputs()) {
      check_volume(ranks, 20011, 401, input, "exact", false);
      check_volume(ranks, 20011, 401, input, "reuse", false);
    }
  }
}

TEST_CASE("6k words where ranks contribute more than k", "[oktopk][volume]") {
  for (const int ranks : {2, 5, 16}) {
    for (const Input input : all_inputs()) check_volume(ranks, 20011, 401, input, "gaussian", false);
  }
}

TEST_CASE("6k words with few entries", "[oktopk][volume]") {
  for (const int ranks : {2, 5, 33}) {
    for (const std::int64_t k : {1, 2, 7}) {
      for (const Input input : {Input::constant, Input::jumping, Input::elsewhere})
        check_volume(ranks, 1000, k, input, "exact", false);
    }
  }
}

namespace {

/// Calls check(plan, iteration) after each run of a plan by these schedule and radix.
template <class Check>
void check_runs(int ranks, std::int64_t n, std::int64_t k, Input input, ExchangeSchedule schedule, int radix, Check check) {
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm,
                                 {.count = n, .k = k, .algorithm_parameters = "boundary_period=4," + by_schedule(schedule, radix)});
              for (int t = 0; t < iterations; ++t) {
                const Counters before = counters_of(plan);
                plan.run_sparse(make_input<float>(input, n, comm.rank(), ranks, t));
                const Counters after = counters_of(plan);
                check(plan.statistics(), t, counted(before, after, "recut"), counted(before, after, "balanced"));
              }
            },
            {.seed = static_cast<std::uint64_t>(ranks)});
}

std::int64_t messages(const Statistics& s) {
  std::int64_t sum = 0;
  for (const std::int64_t of_level : s.messages_sent) sum += of_level;
  return sum;
}

}  // namespace

TEST_CASE("the stated bounds of phases and of one round on any input", "[oktopk][volume]") {
  RankCheck check;
  for (const int ranks : {2, 3, 5, 8, 13, 33}) {
    for (const Input input : all_inputs()) {
      for (const auto& [schedule, radix] : {std::pair{ExchangeSchedule::phased, 2},
                                            {ExchangeSchedule::phased, 4},
                                            {ExchangeSchedule::phased, 16},
                                            {ExchangeSchedule::one_round, 0}}) {
        if (left_out()) continue;
        constexpr std::int64_t k = 101;
        const std::int64_t bound = 4 * oktopk_payload_words(k, ranks, schedule, radix);
        check_runs(ranks, 5003, k, input, schedule, radix, [&, radix = radix](const Statistics& s, int t, bool, bool) {
          const std::string where = input_name(input) + " P " + std::to_string(ranks) + " radix " + std::to_string(radix) +
                                    " iteration " + std::to_string(t);
          check.at_most(s.payload_bytes_sent, bound, where + " bytes sent");
          check.at_most(s.payload_bytes_received, bound, where + " bytes received");
        });
      }
    }
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("messages of each schedule where coordinates roughly agree", "[oktopk][volume]") {
  RankCheck check;
  constexpr std::int64_t n = 40009, k = 2003;
  constexpr int numbers[] = {2, 3, 4, 5, 8, 16, 33};
  const auto by = [&](int ranks, ExchangeSchedule schedule, int radix, const auto& look) {
    if (!left_out(4)) check_runs(ranks, n, k, Input::heavy_tailed, schedule, radix, look);
  };
  for (const int ranks : numbers) {
    const int gather = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    by(ranks, ExchangeSchedule::one_round, 0, [&](const Statistics& s, int t, bool, bool) {
      check.that(messages(s) == gather, "one round, P " + std::to_string(ranks) + " iteration " + std::to_string(t));
    });
  }
  for (const int ranks : numbers) {
    by(ranks, ExchangeSchedule::direct, 0, [&](const Statistics& s, int t, bool, bool balanced) {
      if (t % 4 == 0 || balanced) return;
      check.at_most(messages(s), std::int64_t{oktopk_direct_messages(ranks, 3)},
                    "direct, P " + std::to_string(ranks) + " iteration " + std::to_string(t));
    });
  }
  for (const int radix : {2, 4, 8}) {
    for (const int ranks : numbers) {
      by(ranks, ExchangeSchedule::phased, radix, [&](const Statistics& s, int t, bool recut, bool balanced) {
        if (t % 4 == 0) return;  // boundaries are averaged
        const std::string where =
            "P " + std::to_string(ranks) + " radix " + std::to_string(radix) + " iteration " + std::to_string(t);
        check.at_most(messages(s), std::int64_t{oktopk_phased_messages(ranks, radix, 3)}, where);
        check.that(!recut && !balanced, where + ": nothing is out of balance");
      });
    }
  }
  // On 256 and on 1,024 ranks.
  REQUIRE(oktopk_phased_messages(256, 4, 3) == 60);
  REQUIRE(oktopk_phased_messages(1024, 4, 3) == 75);
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
