// fuzz_plan_record.hpp: runs one plan of the fuzzer on all ranks, records the results of every rank, and checks them afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "fuzz_plan_cases.hpp"
#include "topology/topology.hpp"

namespace weir::test {

/// The results of one run on one rank.
template <class T>
struct Ended {
  weir_status status = WEIR_OK;
  std::string error;
  std::vector<T> given;  ///< the gradient before the run
  std::vector<T> dense;  ///< the same memory after the run
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
  std::vector<T> residual;
  std::int64_t residual_begin = 0;
  std::string algorithm;  ///< the algorithm that ran
  Statistics statistics;
};

/// The results of all runs on all ranks, and the places of the ranks.
template <class T>
struct Record {
  const PlanCase& plan;
  std::vector<Location> locations;
  std::vector<std::vector<Ended<T>>> of_rank;

  [[nodiscard]] int ranks() const { return static_cast<int>(of_rank.size()); }
};

/// Returns the first fault, or an empty text.
template <class T>
std::string fault_of(const Record<T>& record);

/// One plan, shared by the threads of all ranks. Each thread touches only its rank's part.
class FuzzedPlan {
 public:
  static std::unique_ptr<FuzzedPlan> make(const PlanCase& plan, const std::vector<Location>& locations);
  virtual ~FuzzedPlan() = default;

  /// Called on each rank: makes the plan, starts runs one after another and takes the results of each, and destroys the plan.
  virtual void make_plan(const Communicator& comm, int priority) = 0;
  virtual void start(int rank) = 0;
  /// Returns true, once, if the run in flight has finished.
  virtual bool test(int rank) = 0;
  virtual void wait(int rank) = 0;
  virtual void drop_plan(int rank) = 0;

  [[nodiscard]] virtual std::size_t started(int rank) const = 0;
  [[nodiscard]] virtual bool in_flight(int rank) const = 0;

  /// Returns the first fault. Called after all ranks have ended.
  [[nodiscard]] virtual std::string fault() const = 0;
};

}  // namespace weir::test
