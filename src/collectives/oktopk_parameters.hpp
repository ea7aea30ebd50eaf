// oktopk_parameters.hpp: the algorithm_parameters of oktopk and hi_oktopk.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "collectives/allreduce.hpp"

namespace weir {

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
                  .most = 3,
                  .doc = "how messages are arranged; automatic: the cheapest by the cost functions, for the k of each run",
                  .words = schedule_names},
    ParameterInfo{.name = "radix",
                  .value = 0,
                  .least = 0,
                  .most = 64,
                  .doc = "a power of two from 2 to 64, for schedule phased; 0: the cheapest by the cost functions"},
};

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

/// Throws Error(WEIR_ERR_ARGUMENT) where the spec cannot run by the schedule it asks for.
void check_oktopk(const ExchangeSpec& spec);

}  // namespace weir
