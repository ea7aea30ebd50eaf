// layer_space.hpp: where the weights of layers lie, and what is done to blocks of them there: in host memory, or in that of a GPU.
#pragma once

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

/// Elements of a block: sums over one are the leaves of a layer's norms.
inline constexpr std::int64_t block_elements = 65536;

/// A piece of a layer.
struct Block {
  int layer = 0;
  std::int64_t begin = 0, count = 0;  ///< elements of the layer
  std::int64_t at = 0;                ///< elements of all blocks before it
};

/// Returns the bytes of an element of an optimizer's arrays.
[[nodiscard]] constexpr std::int64_t element_bytes(DataType type) { return type == DataType::float32 ? 4 : 2; }

/// What a step is made of: arrays of the optimizer's type, by layer.
struct LayerStep {
  std::vector<void*> weights;
  std::vector<const void*> gradients;
  void* stream = nullptr;
  double learning_rate = 0;
  AdamFactors<float> factors{};
  std::vector<float> rates;  ///< what the layer's step is multiplied by, once norms are known

  [[nodiscard]] AdamFactors<float> factors_of(const OptimizedLayer& layer) const {
    AdamFactors<float> all = factors;
    if (layer.excluded) all.decay = 0;
    return all;
  }
};

/// What a space is made for. It outlives the space, and does not change.
struct LayerWork {
  OptimizerConfig config;  ///< in force
  std::vector<OptimizedLayer> layers;
  std::vector<Block> blocks;       ///< in the order of layers
  std::vector<char> summed;        ///< by block: this rank makes its sums
  std::vector<std::int64_t> kept;  ///< by block: how many elements' moments come before its own; -1: another rank keeps them
  std::int64_t kept_elements = 0;
  bool gathers = false;  ///< weights come from other ranks, too

  [[nodiscard]] bool lamb() const { return config.rule == OptimizerRule::lamb; }
  [[nodiscard]] std::int64_t element_bytes() const { return optim::element_bytes(config.type); }
  [[nodiscard]] std::int64_t elements() const { return blocks.empty() ? 0 : blocks.back().at + blocks.back().count; }
  [[nodiscard]] std::int64_t message_bytes() const { return gathers ? elements() * element_bytes() : 0; }
  [[nodiscard]] float decay_of(const Block& block) const {
    return static_cast<float>(layers[static_cast<std::size_t>(block.layer)].excluded ? 0 : config.weight_decay);
  }
};

/// Moments of the blocks that this rank keeps, and work on blocks. Of a step: enter(), sums(), begin_update(), then step(), or
/// step_to() and take(); in the end, end(). A GPU does all of a rank's blocks when it is asked for the first.
class LayerSpace {
 public:
  virtual ~LayerSpace() = default;
  /// What is wrong with the arrays and the stream; where nothing is, `step` outlives end().
  [[nodiscard]] virtual InputError enter(const LayerStep& step) = 0;
  /// Returns the sums of squares of a block that is `summed`. With LAMB, its moments take up the gradient.
  [[nodiscard]] virtual SquaredNorms sums(std::size_t block) = 0;
  /// LayerStep::rates are there, and nobody needs what message() holds.
  virtual void begin_update() = 0;
  /// Steps the weights of a block that is `kept`.
  virtual void step(std::size_t block) = 0;
  /// The same; they are then in message(), too.
  virtual void step_to(std::size_t block) = 0;
  /// Weights of a block become those in message().
  virtual void take(std::size_t block) = 0;
  /// However the step has ended.
  virtual void end() noexcept = 0;

  /// Host memory of LayerWork::message_bytes(), in which weights of all blocks come one after the other.
  [[nodiscard]] virtual std::byte* message() = 0;
  /// Moments, from element `begin` of those that are kept on.
  virtual void visit(StateVisitor& visitor, std::int64_t begin, std::int64_t count) = 0;
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

[[nodiscard]] std::unique_ptr<LayerSpace> make_host_layers(const LayerWork& work);
/// In the memory of the calling thread's current GPU. Throws Error(WEIR_ERR_UNSUPPORTED) where there is no CUDA.
[[nodiscard]] std::unique_ptr<LayerSpace> make_device_layers(const LayerWork& work);

}  // namespace weir::optim
