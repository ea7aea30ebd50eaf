// division.hpp: which tensors travel in which buffer. The functions are pure: the same numbers give the same buffers on every rank.
//
// Tensors are in a line, in the order in which their gradients are expected. A buffer is a stretch of the line. Times are in
// seconds from the first gradient of an iteration.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir::fusion {

/// One tensor of the line.
struct Load {
  int tensor = 0;             ///< its place in the forward pass
  std::int64_t elements = 0;  ///< in the index space of its buffer; 0 for a dense tensor
  std::int64_t bytes = 0;     ///< approximate bytes that it adds to the exchange
  double ready = 0;           ///< when its gradient has been handed in and sparsified
  std::int64_t gradient_bytes = 0;
  bool dense = false;
};
using Line = std::vector<Load>;

/// Buffers in the order in which they are expected to start. The tensors of a buffer are in the order of the forward pass.
using Division = std::vector<std::vector<int>>;

/// The time of an exchange: a startup, and a time per byte.
struct LinearCost {
  double startup = 0, per_byte = 0;
  [[nodiscard]] double operator()(std::int64_t bytes) const { return startup + per_byte * static_cast<double>(bytes); }
};

/// The ends of stretches: stretch i is [ends[i - 1], ends[i]).
using Ends = std::vector<std::size_t>;

[[nodiscard]] Ends one_each(const Line& line);
/// Returns stretches that end before the tensor that would take their bytes beyond `most`. Dense tensors before the first sparse
/// one of a stretch travel with it, however large it is.
[[nodiscard]] Ends by_bytes(std::span<const Load> line, std::int64_t most);
/// Does the same as by_bytes, but the first and the last two stretches are small: a sixteenth and a quarter of `most`, the smallest
/// outermost.
[[nodiscard]] Ends tapered(std::span<const Load> line, std::int64_t most);
/// Returns the stretches whose last exchange ends first, if exchanges run one after the other. Returns fewer stretches if each one
/// saved costs less than a tenth of a startup. There are at most `most_buffers`, each of at most 4,096 tensors.
[[nodiscard]] Ends earliest(const Line& line, const LinearCost& cost, std::size_t most_buffers);

/// Returns the buffers of these stretches, cut so that each has at most 2^32 - 1 elements.
[[nodiscard]] Division divide(const Line& line, const Ends& ends);

/// The measured time of an exchange of `bytes` bytes.
struct Sample {
  std::int64_t bytes = 0;
  double seconds = 0;
};
/// Fits a line to the samples by least squares. If they determine no valid slope, returns `prior` times the factor that fits best.
[[nodiscard]] LinearCost fit(std::span<const Sample> samples, const LinearCost& prior);

}  // namespace weir::fusion
