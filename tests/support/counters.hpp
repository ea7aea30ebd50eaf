// counters.hpp: a plan's counters by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"

namespace weir::test {

using Counters = std::map<std::string, std::int64_t, std::less<>>;

/// Returns all counters of the algorithm in force.
inline Counters counters_of(const AllreducePlan& plan) {
  Counters counters;
  find_allreduce(plan.config().algorithm).for_each_counter([&](const CounterInfo& counter) {
    counters.emplace(counter.name, plan.counter(counter.name));
  });
  return counters;
}

/// Returns whether a run between the two has been counted under `name`.
inline bool counted(const Counters& before, const Counters& after, std::string_view name) {
  const auto value = [&](const Counters& counters) {
    const auto found = counters.find(name);
    return found == counters.end() ? 0 : found->second;
  };
  return value(after) > value(before);
}

}  // namespace weir::test
