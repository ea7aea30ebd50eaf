// plan.hpp: gradient in, update out: compensate, select, exchange, apply; and the state that lives on.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "plan/in_flight.hpp"

namespace weir::detail {

/// One plan, whatever its element type.
class PlanState : public InFlight {
 public:
  PlanState(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag);

  /// One of `dense` and `sparse_only` is the gradient; null pointers and wrong sizes are reported by all ranks.
  void start(void* dense, const void* sparse_only, std::int64_t count, DataType type);
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t residual_begin() const = 0;

  AllreduceConfig config;  ///< in force: `algorithm` and wire settings are what `auto` stands for at present
  std::string explanation;
  Statistics statistics;

 protected:
  void completed() override;
  virtual task<void> execute(void* dense, const void* sparse_only, std::uint64_t fault) = 0;
};

/// Collective; see AllreducePlan.
[[nodiscard]] std::shared_ptr<PlanState> make_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config);

}  // namespace weir::detail
