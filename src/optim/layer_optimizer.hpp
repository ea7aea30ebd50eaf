// layer_optimizer.hpp: LARS and LAMB over blocks of layers: what a LayerOptimizer stands for.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <weir/optim.hpp>

#include "base/buffer.hpp"
#include "base/state.hpp"
#include "communicator/communicator.hpp"
#include "communicator/outcome.hpp"
#include "kernels/kernels.hpp"

namespace weir::optim {

/// Elements of a block: sums over one are the leaves of a layer's norms.
inline constexpr std::int64_t block_elements = 65536;

/// A piece of a layer.
struct Block {
  int layer = 0;
  std::int64_t begin = 0, count = 0;
};
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

}  // namespace weir::optim

namespace weir::detail {

/// See LayerOptimizer.
class OptimizerImpl {
 public:
  /// Collective.
  OptimizerImpl(std::shared_ptr<CommunicatorState> communicator, const OptimizerConfig& configuration,
                std::span<const OptimizedLayer> described);
  OptimizerImpl(const OptimizerImpl&) = delete;
  OptimizerImpl& operator=(const OptimizerImpl&) = delete;

  /// Of float: for `type` float32; of void: for any type.
  template <class T>
  void step(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate);
  /// With `once`, of what several ranks keep alike, each block on one of them.
  void visit_state(StateVisitor& visitor, bool once = false);
  void reset();
  /// False where a gathering broke off: memory must be kept until the process ends, for the network may still write to it.
  [[nodiscard]] bool retire() noexcept;
  [[nodiscard]] std::string explanation() const;
  [[nodiscard]] std::int64_t memory_bytes() const;

  const std::shared_ptr<CommunicatorState> comm;
  const std::vector<OptimizedLayer> layers;
  OptimizerConfig config;  ///< in force
  OptimizerStatistics statistics;
  std::vector<double> rates;  ///< by layer

 private:
  using Block = optim::Block;
  /// What lives on, besides moments.
  struct State {
    std::int64_t steps = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("steps", steps);
      visitor.check(steps >= 0, "steps", "at least 0");
    }
  };
  /// What a step is made of: arrays of the type, by layer.
  struct Step {
    std::vector<void*> weights;
    std::vector<const void*> gradients;
    double learning_rate = 0;
    AdamFactors<float> factors{};
  };

  [[nodiscard]] bool lamb() const { return config.rule == OptimizerRule::lamb; }
  [[nodiscard]] bool is_narrow() const { return config.type != DataType::float32; }
  [[nodiscard]] std::int64_t element_bytes() const { return is_narrow() ? 2 : 4; }
  [[nodiscard]] const OptimizedLayer& layer_of(const Block& block) const { return layers[static_cast<std::size_t>(block.layer)]; }
  [[nodiscard]] std::vector<OperatorPart> parts(double bytes, std::int64_t result_bytes) const;
  template <class T>
  [[nodiscard]] Outcome take(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate);
  void run_step(const Outcome& taken);
  [[nodiscard]] AdamFactors<float> factors_of(const Block& block) const;
  [[nodiscard]] std::byte* weights_of(const Block& block) const;
  [[nodiscard]] const void* gradient_of(const Block& block) const;
  const float* widened(const void* x, std::int64_t count);
  float* wide_weights(std::size_t number);
  std::int64_t put_sums(int number, std::span<std::byte> result);
  void find_rates();
  void step_block(std::size_t number);
  std::int64_t put_weights(int number, std::span<std::byte> result);
  void take_weights();
  void count();
  [[nodiscard]] bool visits(std::size_t number, bool once) const;

  std::vector<Block> blocks_;
  std::shared_ptr<OperatorImpl> norms_, updates_;  // updates_: null where every rank steps all
  std::vector<SquaredNorms> sums_;                 // by block
  std::vector<std::int64_t> kept_;                 // by block: where its moments begin; -1: another rank keeps them
  Buffer<float> first_, second_;                   // momentum, or moments
  Buffer<float> wide_;                             // beside 16-bit weights: those that steps are added to
  Buffer<float> scratch_;                          // beside 16-bit arrays: a block of one, widened
  Buffer<std::byte> stepped_;                      // weights of all blocks, on the way to other ranks
  Step step_;                                      // the one that is being made
  State state_;
};

}  // namespace weir::detail
