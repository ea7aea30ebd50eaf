// narrow_weights.hpp: weights of 16 bits, and float32 copies of them that keep small steps.
#pragma once

#include <cstdint>
#include <weir/weir.hpp>

namespace weir::optim {

/// Converts to float32, exactly. `type`: float16 or bfloat16.
void widen(DataType type, const void* x, std::int64_t count, float* wide);
/// Rounds as values on the wire are rounded (codec/wire.hpp): to nearest, ties to even; finite values too large become the largest.
void narrow(DataType type, const float* wide, std::int64_t count, void* x);
/// Sets wide[i] = weights[i] if weights[i] is not narrow() of wide[i]: the caller has then changed it.
void take_over(DataType type, const void* weights, std::int64_t count, float* wide);

}  // namespace weir::optim
