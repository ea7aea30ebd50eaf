// Replaces device_layers.cpp in a build without CUDA.
#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "optim/layer_space.hpp"

namespace weir::optim {

std::unique_ptr<LayerSpace> make_device_layers(const LayerWork&) {
  fail(WEIR_ERR_UNSUPPORTED, "an optimizer in CUDA memory cannot be made here: {}", cuda::why_unusable());
}

}  // namespace weir::optim
