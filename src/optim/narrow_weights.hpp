// narrow_weights.hpp: weights of 16 bits, and float32 ones beside them that small steps are not lost on.
#pragma once

#include <cstdint>
#include <weir/weir.hpp>

namespace weir::optim {

/// `type`: float16 or bfloat16. Exact.
void widen(DataType type, const void* x, std::int64_t count, float* wide);
/// Rounded as values on the wire are (codec/wire.hpp): to nearest, ties to even; finite values beyond the largest one become that.
void narrow(DataType type, const float* wide, std::int64_t count, void* x);
/// wide[i] = weights[i] where that is not what narrow() makes of wide[i]: the caller has set it.
void take_over(DataType type, const void* weights, std::int64_t count, float* wide);

}  // namespace weir::optim
