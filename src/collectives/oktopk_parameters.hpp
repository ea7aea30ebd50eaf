// oktopk_parameters.hpp: the algorithm_parameters of oktopk and hi_oktopk.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "collectives/allreduce.hpp"

namespace weir {

/// How ranks exchange in oktopk, and in the exchanges of hi_oktopk. Every schedule delivers the same bits.
///   direct     every rank sends to every other: Ok-Topk section 3.1.1, at most 3 k entries a rank
///   phased     split and reduce digit by digit of the rank number: about `radix` log P messages instead of P
///   one_round  every rank gathers every selection, sums and cuts it: log P messages, for small k P
///   shared     no messages: ranks of one node read each other's entries in shared memory
enum class ExchangeSchedule : std::uint8_t { automatic, direct, phased, one_round, shared };
inline constexpr std::array<std::string_view, 5> schedule_names = {"automatic", "direct", "phased", "one_round", "shared"};
[[nodiscard]] constexpr std::string_view name_of(ExchangeSchedule schedule) {
  return schedule_names[static_cast<std::size_t>(schedule)];
}

/// The most entries of all ranks together that every rank sums and cuts itself in the schedule shared, or among which it looks for
/// the cut. That takes less time than another meeting.
inline constexpr std::int64_t few_in_node = 2048;

inline constexpr std::array oktopk_parameters = {
    window_parameter,
    ParameterInfo{.name = "boundary_period",
                  .value = 64,
                  .least = 1,
                  .most = 0x1p48,
                  .doc = "runs between two agreements on the regions (tau of Ok-Topk Algorithm 1)"},
    ParameterInfo{.name = "balance_trigger",
                  .value = 4,
                  .least = 1,
                  .most = std::numeric_limits<double>::infinity(),
                  .doc = "ranks balance what they gather when the largest part exceeds this many times the mean",
                  .whole = false},
    ParameterInfo{.name = "schedule",
                  .value = 0,
                  .least = 0,
                  .most = 4,
                  .doc = "how ranks exchange; automatic: shared where a plan can have it, otherwise the cheapest by the cost "
                         "functions, for the k of each run",
                  .words = schedule_names},
    ParameterInfo{.name = "radix",
                  .value = 0,
                  .least = 0,
                  .most = 64,
                  .doc = "a power of two from 2 to 64, for schedule phased; 0: the cheapest by the cost functions"},
};

inline constexpr std::array oktopk_counters = {
    CounterInfo{"global_rethresholded", "runs that computed a new global threshold, with threshold = reuse"},
    CounterInfo{"recut", "runs that cut the regions anew, because they were unbalanced"},
    CounterInfo{"balanced", "runs in which ranks balanced what they gathered"},
};
/// The bits of SparseOutcome::counted.
inline constexpr std::uint32_t counted_rethresholded = 1, counted_recut = 2, counted_balanced = 4;

struct OkTopkParameters {
  int window;
  std::int64_t boundary_period;
  double balance_trigger;
  ExchangeSchedule schedule;
  int radix;

  explicit OkTopkParameters(const Parameters& given)
      : window(static_cast<int>(given.whole("window"))),
        boundary_period(given.whole("boundary_period")),
        balance_trigger(given["balance_trigger"]),
        schedule(static_cast<ExchangeSchedule>(given.whole("schedule"))),
        radix(static_cast<int>(given.whole("radix"))) {}
};

/// Throws Error(WEIR_ERR_ARGUMENT) if the spec cannot run with the schedule that it asks for.
void check_oktopk(const ExchangeSpec& spec);

}  // namespace weir
