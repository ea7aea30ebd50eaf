// compressed_exchange.hpp: sums of what compressors make: of bytes, by the packed algorithms, or of dense values and factors, which
// a compressor has summed by a dense algorithm.
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
  /// `out` becomes the sum over the ranks of what travels of `values`, divided by the problem's divisor; bitwise the same on every
  /// rank. `rest` becomes what of `values` is not in that sum: the sum of all ranks' values is that of what all deliver, undivided,
  /// and of all ranks' rests; nullptr: nobody wants to know. `out` and `rest` may each be `values`, and not the same.
  ///
  /// All ranks give the same `draw`, except its stream, which is the rank. Streams from `ranks` on are the same on every rank.
  virtual task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) = 0;
  virtual void reset() {}
  /// All that reset() resets.
  virtual void visit_state(StateVisitor& /*visitor*/) {}
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// What a compressor that has dense values summed is built for.
struct LinearSpec {
  std::int64_t count = 0;  ///< n
  std::int64_t k = 0;      ///< of density
  int ranks = 1;
  double divisor = 1;  ///< delivered values are divided by this
  /// The plan's dense algorithm for an array of `count` elements, of which it makes the sum divided by `divisor`.
  std::function<std::unique_ptr<DenseAllreduce<float>>(std::int64_t count, double divisor)> make_dense;
};

}  // namespace weir
