// small_plans.hpp: plans that live long and run very often: the cost of each run, and a check that nothing is lost.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "communicator/communicator.hpp"
#include "support/algorithm_parameters.hpp"

namespace weir::test {

/// Plans of a few hundred elements, one for every sparse algorithm in host memory with each of its schedules. They run in turn. Not
/// thread-safe.
class SmallPlans {
 public:
  /// Counted work of runs so far.
  struct Work {
    std::int64_t messages = 0, control_bytes = 0, payload_bytes = 0;
    friend Work operator-(Work a, const Work& b) {
      return {a.messages - b.messages, a.control_bytes - b.control_bytes, a.payload_bytes - b.payload_bytes};
    }
  };

  /// Collective.
  explicit SmallPlans(const Communicator& comm) : comm_(comm) {
    // Small whole numbers: sums are exact in any order.
    for (int i = 0; i < count; ++i) gradient_.push_back(static_cast<float>(1 + (i * 7 + comm.rank() * 5) % 11));
    update_.resize(gradient_.size());
    for (const AlgorithmInfo& algorithm : algorithms()) {
      if (!algorithm.sparse || !algorithm.host_memory) continue;
      AllreduceConfig config{.count = count, .density = 0.05, .algorithm = std::string(algorithm.name), .average = false};
      plans_.emplace_back(comm, config);
      if (!has_schedules(algorithm.name)) continue;
      for (const ExchangeSchedule schedule : {ExchangeSchedule::direct, ExchangeSchedule::phased, ExchangeSchedule::one_round}) {
        config.algorithm_parameters = by_schedule(schedule);
        plans_.emplace_back(comm, config);
      }
    }
  }

  /// Returns the number of runs after which every plan has been through all uses of its thresholds and boundaries.
  [[nodiscard]] int round() const { return static_cast<int>(plans_.size()) * 64; }

  /// Collective. Runs the next plan.
  bool run() {
    AllreducePlan& plan = plans_[static_cast<std::size_t>(runs_++) % plans_.size()];
    std::copy(gradient_.begin(), gradient_.end(), update_.begin());
    plan.run(update_);
    delivered_ += std::accumulate(update_.begin(), update_.end(), 0.0);
    const Statistics& s = plan.statistics();
    work_.messages += std::accumulate(s.messages_sent.begin(), s.messages_sent.end(), std::int64_t{0});
    work_.control_bytes += s.control_bytes_sent;
    work_.payload_bytes += s.payload_bytes_sent;
    return s.selected_global > 0;
  }

  [[nodiscard]] const Work& work() const { return work_; }

  /// Collective. Returns what all ranks have handed in, less what was delivered and what they keep. 0 if nothing is lost.
  [[nodiscard]] double lost() const {
    struct Sums {
      double given = 0, kept = 0;
    } mine;
    mine.given = static_cast<double>(runs_) * std::accumulate(gradient_.begin(), gradient_.end(), 0.0);
    for (const AllreducePlan& plan : plans_) {
      const auto residual = plan.residual<float>();
      mine.kept += std::accumulate(residual.begin(), residual.end(), 0.0);
    }
    double lost = -delivered_;
    for (const Sums& rank : comm_.state()->share("summing up", mine)) lost += rank.given - rank.kept;
    return lost;
  }

 private:
  static constexpr int count = 300;
  const Communicator& comm_;
  std::vector<float> gradient_, update_;
  std::vector<AllreducePlan> plans_;
  std::int64_t runs_ = 0;
  double delivered_ = 0;
  Work work_;
};

}  // namespace weir::test
