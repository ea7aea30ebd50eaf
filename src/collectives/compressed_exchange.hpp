// compressed_exchange.hpp: sums of what compressors make: bytes, summed by the packed algorithms, or dense values and factors,
// which a compressor sums with a dense algorithm.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "codec/packed.hpp"
#include "collectives/allreduce.hpp"

namespace weir {

class CompressedExchange {
 public:
  virtual ~CompressedExchange() = default;
  /// Sets `out` to the sum over the ranks of what travels of `values`, divided by the spec's divisor; bitwise the same on every
  /// rank. Sets `rest` to the part of `values` that is not in that sum: the sum of all ranks' `values` equals the undivided update
  /// plus the sum of all ranks' `rest`. `rest` may be nullptr. `out` or `rest` may be `values`, but not both.
  ///
  /// All ranks give the same `draw`, except its stream, which is the rank. Streams from `ranks` on are the same on every rank.
  virtual task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) = 0;
  virtual void reset() {}
  /// Visits all that reset() resets.
  virtual void visit_state(StateVisitor& /*visitor*/) {}
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// What a compressor that sums dense values is built for.
struct LinearSpec {
  std::int64_t count = 0;  ///< n
  std::int64_t k = 0;      ///< from the density
  int ranks = 1;
  double divisor = 1;  ///< delivered values are divided by this
  /// Makes the plan's dense algorithm for an array of `count` elements, which sums it and divides by `divisor`.
  std::function<std::unique_ptr<DenseAllreduce<float>>(std::int64_t count, double divisor)> make_dense;
};

}  // namespace weir
