// The volume bounds of Ok-Topk, in every iteration, for P = 2, 3, 4, 5, 8, 16, 33; and the count guard of mode `reuse`.
#include "collectives/oktopk_volume.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr int iterations = 7;

void check_volume(int ranks, std::int64_t n, std::int64_t k, Input input, Threshold threshold, bool roughly_agreeing) {
  if (left_out()) return;
  INFO("P " << ranks << " n " << n << " k " << k << " input " << input_name(input)
            << (threshold == Threshold::exact ? " exact" : " reuse"));
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n, .k = k, .threshold = threshold, .threshold_period = 100, .boundary_period = 4});
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
                check.at_most(std::max(s.control_bytes_sent, s.control_bytes_received) / 4, oktopk_control_words<float>(ranks),
                              where + " control words");
                if (threshold == Threshold::reuse) {
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
    for (const Threshold threshold : {Threshold::exact, Threshold::reuse})
      check_volume(ranks, 40009, 1003, Input::heavy_tailed, threshold, true);
  }
}

TEST_CASE("6k words on any input", "[oktopk][volume]") {
  for (const int ranks : {2, 3, 4, 5, 8, 16, 33}) {
    for (const Input input : all_inputs()) {
      check_volume(ranks, 20011, 401, input, Threshold::exact, false);
      check_volume(ranks, 20011, 401, input, Threshold::reuse, false);
    }
  }
}

TEST_CASE("6k words with few entries", "[oktopk][volume]") {
  for (const int ranks : {2, 5, 33}) {
    for (const std::int64_t k : {1, 2, 7}) {
      for (const Input input : {Input::constant, Input::jumping, Input::elsewhere})
        check_volume(ranks, 1000, k, input, Threshold::exact, false);
    }
  }
}

}  // namespace weir::test
