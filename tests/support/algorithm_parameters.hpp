// algorithm_parameters.hpp: parameters of algorithms for tests.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "collectives/allreduce.hpp"
#include "collectives/oktopk_parameters.hpp"

namespace weir::test {

/// Returns the parameters in `text` that the algorithm has, and defaults for its others.
inline std::string parameters_for(std::string_view algorithm, std::string_view text) {
  return is_automatic(algorithm) ? std::string(text) : parameters_if_chosen(find_allreduce(algorithm), text).text();
}

inline bool has_schedules(std::string_view algorithm) {
  const auto parameters = find_allreduce(algorithm).parameters;
  return std::any_of(parameters.begin(), parameters.end(), [](const ParameterInfo& info) { return info.name == "schedule"; });
}

inline std::string by_schedule(ExchangeSchedule schedule, int radix = 0) {
  return fmt::format("schedule={},radix={}", name_of(schedule), radix);
}

}  // namespace weir::test
