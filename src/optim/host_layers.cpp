// Layers in host memory: work is done when it is given.
#include <algorithm>
#include <cstring>

#include "base/buffer.hpp"
#include "optim/layer_space.hpp"
#include "optim/narrow_weights.hpp"

namespace weir::optim {
namespace {

class HostLayers final : public LayerSpace {
 public:
  explicit HostLayers(const LayerWork& work)
      : work_(work),
        first_(work.kept_elements),
        second_(work.lamb() ? work.kept_elements : 0),
        wide_(is_narrow() ? work.kept_elements : 0),
        scratch_(is_narrow() ? block_elements : 0),
        message_(work.message_bytes()) {}

  InputError enter(const LayerStep& step) override {
    step_ = &step;
    const auto array = std::find_if(step.weights.begin(), step.weights.end(), [](const void* w) { return w != nullptr; });
    return pointers_.error_of(array == step.weights.end() ? nullptr : *array, step.stream);
  }

  SquaredNorms sums(std::size_t number) override {
    const Block& block = work_.blocks[number];
    if (work_.lamb()) {
      const std::int64_t kept = work_.kept[number];
      return kernels::host::adam_moments(widened(gradient_of(block), block.count), wide_weights(number), first_.data() + kept,
                                         second_.data() + kept, block.count, factors_of(block));
    }
    const double of_weights = kernels::host::squared_norm(widened(weights_of(block), block.count), block.count);
    return {of_weights, kernels::host::squared_norm(widened(gradient_of(block), block.count), block.count)};
  }

  void begin_update() override {}

  void step(std::size_t number) override {
    const Block& block = work_.blocks[number];
    float* const w = wide_weights(number);
    float* const first = first_.data() + work_.kept[number];
    const float rate = step_->rates[static_cast<std::size_t>(block.layer)];
    if (work_.lamb())
      kernels::host::adam_step(first, second_.data() + work_.kept[number], w, block.count, rate, factors_of(block));
    else
      kernels::host::momentum_step(widened(gradient_of(block), block.count), w, first, block.count, rate, work_.decay_of(block),
                                   static_cast<float>(work_.config.momentum));
    if (is_narrow()) narrow(work_.config.type, w, block.count, weights_of(block));
  }

  void step_to(std::size_t number) override {
    step(number);
    const Block& block = work_.blocks[number];
    std::copy_n(weights_of(block), block.count * work_.element_bytes(), in_message(block));
  }

  void take(std::size_t number) override {
    const Block& block = work_.blocks[number];
    std::copy_n(in_message(block), block.count * work_.element_bytes(), weights_of(block));
  }

  void end() noexcept override {}

  std::byte* message() override { return message_.data(); }

  void visit(StateVisitor& visitor, std::int64_t begin, std::int64_t count) override {
    const StateVisitor::Copy copy = [](void* to, const void* from, std::int64_t bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    };
    visitor.array("first", first_.data() + begin, count, copy);
    if (work_.lamb()) visitor.array("second", second_.data() + begin, count, copy);
    if (is_narrow()) visitor.array("weights", wide_.data() + begin, count, copy);
  }

  void reset() override {
    for (Buffer<float>* array : {&first_, &second_, &wide_}) kernels::host::fill_zero(array->data(), array->size());
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return first_.bytes() + second_.bytes() + wide_.bytes() + scratch_.bytes() + message_.bytes();
  }

 private:
  [[nodiscard]] bool is_narrow() const { return work_.config.type != DataType::float32; }
  [[nodiscard]] AdamFactors<float> factors_of(const Block& block) const {
    return step_->factors_of(work_.layers[static_cast<std::size_t>(block.layer)]);
  }
  [[nodiscard]] std::byte* weights_of(const Block& block) const {
    return static_cast<std::byte*>(step_->weights[static_cast<std::size_t>(block.layer)]) + block.begin * work_.element_bytes();
  }
  [[nodiscard]] const void* gradient_of(const Block& block) const {
    return static_cast<const std::byte*>(step_->gradients[static_cast<std::size_t>(block.layer)]) +
           block.begin * work_.element_bytes();
  }
  [[nodiscard]] std::byte* in_message(const Block& block) { return message_.data() + block.at * work_.element_bytes(); }

  /// Returns `x` as float32, valid until the next call. `count` is a block at most.
  const float* widened(const void* x, std::int64_t count) {
    if (!is_narrow()) return static_cast<const float*>(x);
    widen(work_.config.type, x, count, scratch_.data());
    return scratch_.data();
  }

  /// Returns the float32 weights of a block that are stepped. This rank must keep its moments.
  float* wide_weights(std::size_t number) {
    const Block& block = work_.blocks[number];
    if (!is_narrow()) return reinterpret_cast<float*>(weights_of(block));
    float* const wide = wide_.data() + work_.kept[number];
    take_over(work_.config.type, weights_of(block), block.count, wide);
    return wide;
  }

  const LayerWork& work_;
  Buffer<float> first_, second_;  // momentum, or moments
  Buffer<float> wide_;            // float32 weights that are stepped, if weights have 16 bits
  Buffer<float> scratch_;         // one block of a 16-bit array as float32
  Buffer<std::byte> message_;
  const LayerStep* step_ = nullptr;
  HostPointers pointers_;
};

}  // namespace

std::unique_ptr<LayerSpace> make_host_layers(const LayerWork& work) { return std::make_unique<HostLayers>(work); }

}  // namespace weir::optim
