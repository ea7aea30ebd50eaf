// fuzz_plan_cases.hpp: makes the cases of the plan fuzzer: jobs of virtual ranks with several plans in flight and several runs of
// each.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "collectives/oktopk_parameters.hpp"
#include "support/dice.hpp"
#include "support/inputs.hpp"

namespace weir::test {

/// The mistake of one rank in a run.
enum class Trouble { none, poison, wrong_count, wrong_type, null_pointer };

struct RunCase {
  bool in_place = true;
  bool reset_before = false;
  Trouble trouble = Trouble::none;
  int bad_rank = 0;
  std::int64_t bad_element = 0;
  double poison = 0;
  std::int64_t nans = 0;  ///< further elements of the poisoned gradient that are NaN
};

struct PlanCase {
  AllreduceConfig config;
  ExchangeSchedule schedule = ExchangeSchedule::automatic;  ///< part of config.algorithm_parameters
  int radix = 0;                                            ///< part of config.algorithm_parameters
  Input input = Input::zeros;
  int first_iteration = 0;  ///< of the input
  int disturbed_rank = -1;  ///< calls it with another floating-point environment
  std::vector<RunCase> runs;

  [[nodiscard]] std::string text() const;
};

struct JobCase {
  int ranks = 1;
  std::string machine;
  std::vector<std::size_t> places;
  std::vector<int> members;  ///< plans are of the subgroup of this list, which has all ranks; empty: of the communicator
  std::uint64_t delays = 0;
  bool shared_memory = true;
  bool clash = false;                              ///< priorities differ between ranks
  std::vector<std::vector<PlanCase>> generations;  ///< the plans of one are gone before those of the next are made

  [[nodiscard]] std::string text() const;
};

[[nodiscard]] JobCase make_job(std::uint64_t seed);

/// Some plan for so many ranks, with names of algorithms from the registry, auto and auto_sparse.
[[nodiscard]] PlanCase make_plan_case(Dice& dice, int ranks);

}  // namespace weir::test
