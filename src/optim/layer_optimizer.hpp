// layer_optimizer.hpp: LARS and LAMB over blocks of layers: what a LayerOptimizer stands for.
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

[[nodiscard]] std::vector<Block> blocks_of(std::span<const OptimizedLayer> layers);

/// Layers as a text with a line for each, and back.
[[nodiscard]] std::string text_of(std::span<const OptimizedLayer> layers);
[[nodiscard]] std::vector<OptimizedLayer> layers_of(std::string_view text);

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, naming the layer.
void check_layers(std::span<const OptimizedLayer> layers);

/// A layer's norms: weights' and gradients' with lars, weights' and directions' with lamb.
struct Norms {
  double weights = 0, other = 0;
};
/// By which factor the layer's step differs from the learning rate.
[[nodiscard]] double rate_of(const OptimizerConfig& config, const OptimizedLayer& layer, const Norms& norms);

/// What a step takes, by the cost functions; as OptimizerStatistics, of the rank with the most work.
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

  /// Collective, first and once.
  void open(const OptimizerConfig& configuration, std::span<const OptimizedLayer> described);
  /// Steps the layers. `T` is float for `type` float32, or void for any type.
  template <class T>
  void step(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream);
  /// Takes part in a step that ends with this.
  void refuse(std::string_view why);
  /// With `once`, of what several ranks keep alike, each block on one of them.
  void visit_state(StateVisitor& visitor, bool once = false);
  void reset();
  /// False where a gathering broke off: memory must be kept until the process ends, for the network may still write to it.
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
  /// What lives on, besides moments.
  struct State {
    std::int64_t steps = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("steps", steps);
      visitor.check(steps >= 0 && steps <= most_steps, "steps", "from 0 to 2^53");
    }
    static constexpr std::int64_t most_steps = std::int64_t{1} << 53;  // Adam's corrections take them as double
  };
  [[nodiscard]] bool lamb() const { return config.rule == OptimizerRule::lamb; }
  [[nodiscard]] double bus_rate() const;
  [[nodiscard]] std::vector<OperatorPart> parts(double bytes, std::int64_t result_bytes) const;
  void share_work();
  template <class T>
  [[nodiscard]] Outcome take(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream);
  void run_step(const Outcome& taken);
  std::int64_t put_sums(int block, std::span<std::byte> result);
  void find_rates();
  void gather_update();
  void count();
  [[nodiscard]] bool visits(std::size_t number, bool once) const;

  std::shared_ptr<OperatorImpl> norms_, updates_;  // updates_: null where every rank steps all
  std::vector<SquaredNorms> sums_;                 // by block
  optim::LayerWork work_;
  std::unique_ptr<optim::LayerSpace> space_;
  optim::LayerStep step_;  // the one that is being made
  State state_;
};

/// Collective.
[[nodiscard]] std::shared_ptr<OptimizerImpl> make_optimizer(const std::shared_ptr<CommunicatorState>& comm,
                                                            const OptimizerConfig& config, std::span<const OptimizedLayer> layers);

}  // namespace weir::detail
