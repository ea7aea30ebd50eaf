// fused.hpp: the gradients of one model, of either type: the implementation of a FusedAllreduce.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/fusion.hpp>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/communicator.hpp"
#include "communicator/leases.hpp"
#include "fusion/scheme.hpp"

namespace weir::detail {

/// See FusedAllreduce for the contract of each call.
class FusedImpl {
 public:
  virtual ~FusedImpl() = default;
  FusedImpl(const FusedImpl&) = delete;
  FusedImpl& operator=(const FusedImpl&) = delete;

  /// `contributes`: false if this rank skips the tensor.
  virtual void ready(std::int64_t tensor, void* gradient, std::int64_t count, DataType type, bool contributes) = 0;
  virtual void progress() = 0;
  /// `idles`: yields if nothing moves, as a waiting call does.
  [[nodiscard]] virtual bool test(std::int64_t tensor, bool idles) = 0;
  virtual void wait(std::int64_t tensor) = 0;
  virtual void wait_all() = 0;
  virtual void reset() = 0;
  virtual void scale(double factor) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// Returns a tensor's residual, of the object's type, or null without error feedback.
  [[nodiscard]] virtual const void* residual(int tensor) const = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual std::string explanation() const = 0;
  [[nodiscard]] virtual int buffer_of(int tensor) const = 0;
  /// Ends the object for its owner: gradients are no longer touched. Returns false if its memory must be kept until the process
  /// ends.
  [[nodiscard]] virtual bool retire() noexcept = 0;

  /// Throws Error(WEIR_ERR_BUSY) during an iteration.
  virtual void require_idle(std::string_view what) const = 0;
  void check_tensor(int tensor) const;

  const std::shared_ptr<CommunicatorState> comm;
  const std::vector<FusedTensor> tensors;
  FusionConfig config;          ///< in force
  FusionStatistics statistics;  ///< of the last iteration that ended

 protected:
  FusedImpl(std::shared_ptr<CommunicatorState> communicator, const FusionConfig& configuration,
            std::span<const FusedTensor> described)
      : comm(std::move(communicator)), tensors(described.begin(), described.end()), config(configuration) {}
};

}  // namespace weir::detail

namespace weir::fusion {

/// Holds what an object is made from, agreed on by all ranks.
struct FusionSetup {
  FusionConfig config;  ///< in force
  const SchemeRow* scheme = nullptr;
  const AllreduceRow* row = nullptr;
  Line line;  ///< in the order in which gradients are expected
  LinearCost cost;
  std::string explanation;
};

/// Collective. `first` is the lease of the first tags. Takes more leases if it needs them.
[[nodiscard]] std::shared_ptr<detail::FusedImpl> make_typed_fused(std::shared_ptr<detail::CommunicatorState> comm,
                                                                  FusionSetup setup, detail::Lease first,
                                                                  std::span<const FusedTensor> tensors);

}  // namespace weir::fusion

namespace weir::detail {

/// Collective; see FusedAllreduce.
[[nodiscard]] std::shared_ptr<FusedImpl> make_fused(std::shared_ptr<CommunicatorState> comm, const FusionConfig& config,
                                                    std::span<const FusedTensor> tensors);

}  // namespace weir::detail
