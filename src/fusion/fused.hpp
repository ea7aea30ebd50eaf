// fused.hpp: the gradients of one model, whatever their type: what a FusedAllreduce stands for.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/fusion.hpp>

#include "base/state.hpp"
#include "communicator/communicator.hpp"
#include "fusion/division.hpp"

namespace weir::detail {

/// See FusedAllreduce for what calls do.
class FusedImpl {
 public:
  virtual ~FusedImpl() = default;
  FusedImpl(const FusedImpl&) = delete;
  FusedImpl& operator=(const FusedImpl&) = delete;

  /// `contributes`: false for a tensor that this rank skips.
  virtual void ready(std::int64_t tensor, void* gradient, std::int64_t count, DataType type, bool contributes) = 0;
  virtual void progress() = 0;
  /// `idles`: gives way where nothing moves, as one that waits does.
  [[nodiscard]] virtual bool test(std::int64_t tensor, bool idles) = 0;
  virtual void wait(std::int64_t tensor) = 0;
  virtual void wait_all() = 0;
  virtual void reset() = 0;
  virtual void scale(double factor) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// Returns a tensor's residual, of the object's type; null without error feedback.
  [[nodiscard]] virtual const void* residual(int tensor) const = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual std::string explanation() const = 0;
  [[nodiscard]] virtual int buffer_of(int tensor) const = 0;
  /// Ends the object for its owner: gradients are left alone from now on. False where its memory must be kept until the process
  /// ends.
  [[nodiscard]] virtual bool retire() noexcept = 0;

  /// Throws Error(WEIR_ERR_BUSY) within an iteration.
  virtual void require_idle(std::string_view what) const = 0;
  void check_tensor(int tensor) const;

  const std::shared_ptr<CommunicatorState> comm;
  const std::vector<FusedTensor> tensors;
  FusionConfig config;          ///< in force
  FusionStatistics statistics;  ///< of the last iteration that has ended

 protected:
  FusedImpl(std::shared_ptr<CommunicatorState> communicator, const FusionConfig& configuration,
            std::span<const FusedTensor> described)
      : comm(std::move(communicator)), tensors(described.begin(), described.end()), config(configuration) {}
};

/// Collective; see FusedAllreduce.
[[nodiscard]] std::shared_ptr<FusedImpl> make_fused(std::shared_ptr<CommunicatorState> comm, const FusionConfig& config,
                                                    std::span<const FusedTensor> tensors);

}  // namespace weir::detail
