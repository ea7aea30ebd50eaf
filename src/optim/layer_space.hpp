// layer_space.hpp: the memory in which the weights of layers lie, host memory or a GPU's, and the work on blocks of them there.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>
#include <weir/optim.hpp>

#include "base/state.hpp"
#include "communicator/input_error.hpp"
#include "kernels/kernels.hpp"

namespace weir::optim {

/// The number of elements of a block. Sums over blocks are the leaves of a layer's norms.
inline constexpr std::int64_t block_elements = 65536;

/// A piece of a layer.
struct Block {
  int layer = 0;
  std::int64_t begin = 0, count = 0;  ///< elements of the layer
  std::int64_t at = 0;                ///< elements of all blocks before it
};

/// Returns the bytes of an element of an optimizer's arrays.
[[nodiscard]] constexpr std::int64_t element_bytes(DataType type) { return type == DataType::float32 ? 4 : 2; }

/// Returns the numbers of step `t` of Adam, counted from 1.
[[nodiscard]] inline AdamFactors<float> adam_factors(double beta1, double beta2, double epsilon, double decay, std::int64_t t) {
  const auto power = static_cast<double>(t);
  return {static_cast<float>(beta1),
          static_cast<float>(beta2),
          static_cast<float>(1 - std::pow(beta1, power)),
          static_cast<float>(std::sqrt(1 - std::pow(beta2, power))),
          static_cast<float>(epsilon),
          static_cast<float>(decay)};
}

/// The arguments of a step: arrays of the optimizer's type, by layer.
struct LayerStep {
  std::vector<void*> weights;
  std::vector<const void*> gradients;
  void* stream = nullptr;
  double learning_rate = 0;
  AdamFactors<float> factors{};
  std::vector<float> rates;  ///< the factor of each layer's step, set once norms are known

  [[nodiscard]] AdamFactors<float> factors_of(const OptimizedLayer& layer) const {
    AdamFactors<float> all = factors;
    if (layer.excluded) all.decay = 0;
    return all;
  }
};

/// What a space is made for. It must outlive the space, and does not change.
struct LayerWork {
  OptimizerConfig config;  ///< in force
  std::vector<OptimizedLayer> layers;
  std::vector<Block> blocks;  ///< in the order of layers
  std::vector<char> summed;   ///< by block: whether this rank makes its sums
  /// By block: the number of elements before it among those whose moments this rank keeps; -1: another rank keeps them.
  std::vector<std::int64_t> kept;
  std::int64_t kept_elements = 0;
  bool gathers = false;  ///< some weights come from other ranks

  [[nodiscard]] bool lamb() const { return config.rule == OptimizerRule::lamb; }
  [[nodiscard]] std::int64_t element_bytes() const { return optim::element_bytes(config.type); }
  [[nodiscard]] std::int64_t elements() const { return blocks.empty() ? 0 : blocks.back().at + blocks.back().count; }
  [[nodiscard]] std::int64_t message_bytes() const { return gathers ? elements() * element_bytes() : 0; }
  [[nodiscard]] float decay_of(const Block& block) const {
    return static_cast<float>(layers[static_cast<std::size_t>(block.layer)].excluded ? 0 : config.weight_decay);
  }
};

/// Moments of the blocks that this rank keeps, and work on blocks. A step calls enter(), sums(), begin_update(), then step(), or
/// step_to() and take(); finally end(). A GPU does all of a rank's blocks when it is asked for the first.
class LayerSpace {
 public:
  virtual ~LayerSpace() = default;
  /// Returns what is wrong with the arrays and the stream. If nothing is, `step` must live until end().
  [[nodiscard]] virtual InputError enter(const LayerStep& step) = 0;
  /// Returns the sums of squares of a block that is `summed`. With LAMB, adds the gradient to its moments.
  [[nodiscard]] virtual SquaredNorms sums(std::size_t block) = 0;
  /// Begins the update. LayerStep::rates must be set, and the contents of message() are no longer needed.
  virtual void begin_update() = 0;
  /// Steps the weights of a block that is `kept`.
  virtual void step(std::size_t block) = 0;
  /// Does what step() does, and puts the new weights into message().
  virtual void step_to(std::size_t block) = 0;
  /// Sets the weights of a block to those in message().
  virtual void take(std::size_t block) = 0;
  /// Ends the step, in whichever way it has gone.
  virtual void end() noexcept = 0;

  /// Returns host memory of LayerWork::message_bytes(), for the weights of all blocks one after the other.
  [[nodiscard]] virtual std::byte* message() = 0;
  /// Visits `count` moments from element `begin` of the kept ones on.
  virtual void visit(StateVisitor& visitor, std::int64_t begin, std::int64_t count) = 0;
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

[[nodiscard]] std::unique_ptr<LayerSpace> make_host_layers(const LayerWork& work);
/// Makes a space in the memory of the calling thread's current GPU. Throws Error(WEIR_ERR_UNSUPPORTED) without CUDA.
[[nodiscard]] std::unique_ptr<LayerSpace> make_device_layers(const LayerWork& work);

}  // namespace weir::optim
