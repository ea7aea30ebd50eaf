// fuzz_plan_record.hpp: one plan of the fuzzer on all ranks: runs it, records what every rank got, and says afterwards what of that
// is wrong.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "fuzz_plan_cases.hpp"
#include "topology/topology.hpp"

namespace weir::test {

/// What one run left on one rank.
template <class T>
struct Ended {
  weir_status status = WEIR_OK;
  std::string error;
  std::vector<T> given;  ///< the gradient, as it was before
  std::vector<T> dense;  ///< the same memory afterwards
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
  std::vector<T> residual;
  std::int64_t residual_begin = 0;
  std::string algorithm;  ///< in force
  Statistics statistics;
};

/// What every rank's runs left, and where the ranks were.
template <class T>
struct Record {
  const PlanCase& plan;
  std::vector<Location> locations;
  std::vector<std::vector<Ended<T>>> of_rank;

  [[nodiscard]] int ranks() const { return static_cast<int>(of_rank.size()); }
};

/// What is wrong first, or nothing.
template <class T>
std::string fault_of(const Record<T>& record);

/// One plan, shared by the threads of all ranks, each of which touches only what is its own.
class FuzzedPlan {
 public:
  static std::unique_ptr<FuzzedPlan> make(const PlanCase& plan, const std::vector<Location>& locations);
  virtual ~FuzzedPlan() = default;

  /// On each rank: makes the plan, starts run after run and takes what each has left, and lets go of the plan.
  virtual void make_plan(const Communicator& comm, int priority) = 0;
  virtual void start(int rank) = 0;
  /// True once: the run in flight has finished.
  virtual bool test(int rank) = 0;
  virtual void wait(int rank) = 0;
  virtual void drop_plan(int rank) = 0;

  [[nodiscard]] virtual std::size_t started(int rank) const = 0;
  [[nodiscard]] virtual bool in_flight(int rank) const = 0;

  /// After all ranks have ended.
  [[nodiscard]] virtual std::string fault() const = 0;
};

}  // namespace weir::test
