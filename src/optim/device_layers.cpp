// Layers in CUDA memory: all work on one stream, one launch for this rank's blocks of a layer that follow each other.
#include <type_traits>

#include "base/error.hpp"
#include "communicator/caller_stream.hpp"
#include "cuda/runtime.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/narrow.hpp"
#include "optim/layer_space.hpp"

namespace weir::optim {
namespace {

namespace gpu = weir::cuda;

/// Consecutive blocks of one layer.
struct Piece {
  std::size_t layer, first_block;
  std::int64_t begin, count;  // elements of the layer
  std::int64_t kept, at;      // those of the first block
};

template <class Wanted>
std::vector<Piece> pieces_of(const LayerWork& work, Wanted wanted) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < work.blocks.size(); ++i) {
    if (!wanted(i)) continue;
    const Block& block = work.blocks[i];
    const auto layer = static_cast<std::size_t>(block.layer);
    if (!pieces.empty() && pieces.back().layer == layer && pieces.back().begin + pieces.back().count == block.begin)
      pieces.back().count += block.count;
    else
      pieces.push_back({layer, i, block.begin, block.count, work.kept[i], block.at});
  }
  return pieces;
}

/// Works on arrays of G: float, float16 or bfloat16.
template <class G>
class DeviceLayers final : public LayerSpace {
 public:
  explicit DeviceLayers(const LayerWork& work)
      : work_(work),
        summed_(pieces_of(work, [&](std::size_t i) { return work.summed[i] != 0; })),
        kept_(pieces_of(work, [&](std::size_t i) { return work.kept[i] >= 0; })),
        first_(work.kept_elements),
        second_(work.lamb() ? work.kept_elements : 0),
        wide_(is_narrow ? work.kept_elements : 0),
        norms_(static_cast<std::int64_t>(work.lamb() ? 0 : 2 * work.blocks.size())),
        sums_(static_cast<std::int64_t>(work.lamb() ? work.blocks.size() : 0)),
        message_(work.message_bytes()) {}
  ~DeviceLayers() override {
    try {
      gpu::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: nothing runs any more
    }
  }

  InputError enter(const LayerStep& step) override {
    step_ = &step;
    held_ = summed_here_ = stepped_ = false;
    bool entered = false;
    for (std::size_t i = 0; i < step.weights.size(); ++i) {
      if (work_.layers[i].count == 0) continue;
      const InputError error = entered ? error_of(step.weights[i]) : caller_.enter(step.weights[i], step.stream);
      entered = true;
      if (error != InputError::none) return error;
      if (const InputError of_gradient = error_of(step.gradients[i]); of_gradient != InputError::none) return of_gradient;
    }
    return InputError::none;
  }

  SquaredNorms sums(std::size_t block) override {
    if (!summed_here_) make_sums();
    const auto b = static_cast<std::int64_t>(block);
    if (work_.lamb()) return sums_.data()[b];
    return {norms_.data()[b], norms_.data()[norms_.size() / 2 + b]};
  }

  void begin_update() override {
    if (work_.gathers) gpu::synchronize(stream_.get());  // waits until the last step's copies from message_ are done
  }

  void step(std::size_t) override {
    if (!stepped_) make_steps();
  }

  void step_to(std::size_t block) override {
    if (stepped_) return;
    step(block);
    for (const Piece& piece : kept_) gpu::copy(in_message(piece.at), given_of(piece), piece.count * bytes, stream_.get());
    gpu::synchronize(stream_.get());
  }

  void take(std::size_t number) override {
    hold();
    const Block& block = work_.blocks[number];
    gpu::copy(static_cast<G*>(step_->weights[static_cast<std::size_t>(block.layer)]) + block.begin, in_message(block.at),
              block.count * bytes, stream_.get());
  }

  void end() noexcept override {
    if (held_) caller_.leave(stream_.get());
  }

  std::byte* message() override { return message_.data(); }

  void visit(StateVisitor& visitor, std::int64_t begin, std::int64_t count) override {
    const StateVisitor::Copy copy = [this](void* to, const void* from, std::int64_t size) {
      gpu::copy(to, from, size, stream_.get());
      gpu::synchronize(stream_.get());
    };
    visitor.array("first", first_.data() + begin, count, copy);
    if (work_.lamb()) visitor.array("second", second_.data() + begin, count, copy);
    if (is_narrow) visitor.array("weights", wide_.data() + begin, count, copy);
  }

  void reset() override {
    for (gpu::DeviceArray<float>* array : {&first_, &second_, &wide_})
      kernels::cuda::fill_zero(queue(), array->data(), array->size());
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return first_.bytes() + second_.bytes() + wide_.bytes() + norms_.bytes() + sums_.bytes() + message_.bytes();
  }

 private:
  static constexpr bool is_narrow = !std::is_same_v<G, float>;
  static constexpr std::int64_t bytes = sizeof(G);

  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_.get(), nullptr, device_}; }
  [[nodiscard]] InputError error_of(const void* array) const {
    const gpu::Place place = gpu::place_of(array);
    if (place.kind == gpu::Place::Kind::host || place.kind == gpu::Place::Kind::pinned) return InputError::host_memory;
    return place.device == device_ ? InputError::none : InputError::other_device;
  }
  /// Return the caller's arrays.
  [[nodiscard]] G* given_of(const Piece& piece) const { return static_cast<G*>(step_->weights[piece.layer]) + piece.begin; }
  [[nodiscard]] const G* gradient_of(const Piece& piece) const {
    return static_cast<const G*>(step_->gradients[piece.layer]) + piece.begin;
  }
  /// Returns the weights of a piece that is `kept`, for kernels that step them.
  [[nodiscard]] auto weights_of(const Piece& piece) const {
    if constexpr (is_narrow)
      return kernels::cuda::NarrowWeights<G>{given_of(piece), wide_.data() + piece.kept};
    else
      return given_of(piece);
  }
  [[nodiscard]] std::byte* in_message(std::int64_t at) { return message_.data() + at * bytes; }

  /// Makes the work of this step wait for what was on the caller's stream.
  void hold() {
    if (!held_) caller_.hold(stream_.get());
    held_ = true;
  }

  void make_sums() {
    hold();
    for (const Piece& piece : summed_) {
      const auto block = static_cast<std::int64_t>(piece.first_block);
      if (work_.lamb()) {
        kernels::cuda::adam_moments(queue(), gradient_of(piece), weights_of(piece), first_.data() + piece.kept,
                                    second_.data() + piece.kept, piece.count, block_elements,
                                    step_->factors_of(work_.layers[piece.layer]), sums_.data() + block);
      } else {
        kernels::cuda::squared_norm<G>(queue(), given_of(piece), piece.count, block_elements, norms_.data() + block);
        kernels::cuda::squared_norm(queue(), gradient_of(piece), piece.count, block_elements,
                                    norms_.data() + norms_.size() / 2 + block);
      }
    }
    gpu::synchronize(stream_.get());
    summed_here_ = true;
  }

  void make_steps() {
    hold();
    for (const Piece& piece : kept_) {
      const float rate = step_->rates[piece.layer];
      if (work_.lamb())
        kernels::cuda::adam_step(queue(), first_.data() + piece.kept, second_.data() + piece.kept, weights_of(piece), piece.count,
                                 rate, step_->factors_of(work_.layers[piece.layer]));
      else
        kernels::cuda::momentum_step(queue(), gradient_of(piece), weights_of(piece), first_.data() + piece.kept, piece.count, rate,
                                     work_.decay_of(work_.blocks[piece.first_block]), static_cast<float>(work_.config.momentum));
    }
    stepped_ = true;
  }

  const LayerWork& work_;
  int device_ = gpu::current_device();
  gpu::Stream stream_;
  detail::CallerStream caller_;
  const std::vector<Piece> summed_, kept_;
  gpu::DeviceArray<float> first_, second_;  // momentum, or moments
  gpu::DeviceArray<float> wide_;            // float32 weights that are stepped, if weights have 16 bits
  gpu::PinnedArray<double> norms_;          // LARS: norms by block, of weights, then of gradients
  gpu::PinnedArray<SquaredNorms> sums_;     // LAMB: by block
  gpu::PinnedArray<std::byte> message_;
  const LayerStep* step_ = nullptr;
  bool held_ = false, summed_here_ = false, stepped_ = false;  // in this step
};

}  // namespace

std::unique_ptr<LayerSpace> make_device_layers(const LayerWork& work) {
  if (!gpu::why_unusable().empty())
    fail(WEIR_ERR_UNSUPPORTED, "an optimizer in CUDA memory cannot be made here: {}", gpu::why_unusable());
  switch (work.config.type) {
    case DataType::float16:
      return std::make_unique<DeviceLayers<float16>>(work);
    case DataType::bfloat16:
      return std::make_unique<DeviceLayers<bfloat16>>(work);
    default:
      return std::make_unique<DeviceLayers<float>>(work);
  }
}

}  // namespace weir::optim
