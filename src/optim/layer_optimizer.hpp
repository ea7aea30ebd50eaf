// layer_optimizer.hpp: LARS and LAMB over blocks of layers: the implementation of LayerOptimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <weir/optim.hpp>

#include "base/state.hpp"
#include "communicator/communicator.hpp"
#include "communicator/outcome.hpp"
#include "kernels/kernels.hpp"
#include "optim/layer_space.hpp"

namespace weir::optim {

/// Returns the layers that the field "layers" of a saved state describes.
[[nodiscard]] std::vector<OptimizedLayer> layers_of(std::string_view text);

/// The predicted time of a step on the rank with the most work, as in OptimizerStatistics.
struct StepCost {
  double norms = 0, update = 0, gather = 0;  ///< s

  [[nodiscard]] double seconds() const { return norms + update + gather; }
};

}  // namespace weir::optim

namespace weir::detail {

/// See LayerOptimizer.
class OptimizerImpl {
 public:
  explicit OptimizerImpl(std::shared_ptr<CommunicatorState> communicator) : comm(std::move(communicator)) {}
  OptimizerImpl(const OptimizerImpl&) = delete;
  OptimizerImpl& operator=(const OptimizerImpl&) = delete;

  /// Opens the optimizer. Collective; call it once, before anything else.
  void open(const OptimizerConfig& configuration, std::span<const OptimizedLayer> described);
  /// Steps the layers. `T` is float for `type` float32, or void for any type.
  template <class T>
  void step(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream);
  /// Takes part in a step that ends with this error.
  void refuse(std::string_view why);
  /// Visits the state. With `once`, visits a block that several ranks keep on only one of them.
  void visit_state(StateVisitor& visitor, bool once = false);
  void reset();
  /// Returns false if a gathering broke off: memory must be kept until the process ends, because the network may still write to it.
  [[nodiscard]] bool retire() noexcept;
  [[nodiscard]] optim::StepCost predicted() const;
  [[nodiscard]] std::string explanation() const;
  [[nodiscard]] std::int64_t memory_bytes() const;

  const std::shared_ptr<CommunicatorState> comm;
  std::vector<OptimizedLayer> layers;
  OptimizerConfig config;  ///< in force
  OptimizerStatistics statistics;
  std::vector<double> rates;  ///< by layer

 private:
  /// The state that is kept between steps, besides moments.
  struct State {
    std::int64_t steps = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("steps", steps);
      visitor.check(steps >= 0 && steps <= most_steps, "steps", "from 0 to 2^53");
    }
    static constexpr std::int64_t most_steps = std::int64_t{1} << 53;  // Adam's corrections convert them to double
  };
  [[nodiscard]] bool lamb() const { return config.rule == OptimizerRule::lamb; }
  [[nodiscard]] double bus_rate() const;
  [[nodiscard]] std::vector<OperatorPart> parts(double bytes, std::int64_t result_bytes) const;
  void share_work();
  template <class T>
  [[nodiscard]] Outcome take(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream);
  void run_step(const Outcome& taken);
  void find_rates();
  [[nodiscard]] bool visits(std::size_t number, bool once) const;

  std::shared_ptr<OperatorImpl> norms_, updates_;  // updates_: null if every rank steps all blocks
  std::vector<SquaredNorms> sums_;                 // by block
  optim::LayerWork work_;
  std::unique_ptr<optim::LayerSpace> space_;
  optim::LayerStep step_;  // the current step
  State state_;
};

/// Makes an optimizer. Collective.
[[nodiscard]] std::shared_ptr<OptimizerImpl> make_optimizer(const std::shared_ptr<CommunicatorState>& comm,
                                                            const OptimizerConfig& config, std::span<const OptimizedLayer> layers);

}  // namespace weir::detail
