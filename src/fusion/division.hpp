// division.hpp: which tensors travel in which buffer. Pure: every rank that gives the same numbers gets the same buffers.
//
// Tensors come in a line, in the order in which their gradients are expected, and buffers are stretches of it. Times are in seconds
// from the first gradient of an iteration on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir::fusion {

/// One tensor, where it comes in the line.
struct Load {
  int tensor = 0;             ///< its place in the forward pass
  std::int64_t elements = 0;  ///< of the index space of its buffer; 0 for a dense one
  std::int64_t bytes = 0;     ///< that it makes travel, roughly
  double ready = 0;           ///< when its gradient has been handed in and sparsified
  std::int64_t gradient_bytes = 0;
  bool dense = false;
};
using Line = std::vector<Load>;

/// Buffers in the order in which they are expected to start; in each, tensors in the order of the forward pass.
using Division = std::vector<std::vector<int>>;

/// What an exchange takes: a startup, and its bytes.
struct LinearCost {
  double startup = 0, per_byte = 0;
  [[nodiscard]] double operator()(std::int64_t bytes) const { return startup + per_byte * static_cast<double>(bytes); }
};

/// Ends of stretches: stretch i is [ends[i - 1], ends[i]).
using Ends = std::vector<std::size_t>;

[[nodiscard]] Ends one_each(const Line& line);
/// A stretch ends before the tensor that would take its bytes beyond `most`. Dense tensors before the first sparse one of a stretch
/// ride along with that, however large it is.
[[nodiscard]] Ends by_bytes(std::span<const Load> line, std::int64_t most);
/// The same, and the first and the last two stretches are small: a sixteenth and a quarter of `most`, the smallest outside.
[[nodiscard]] Ends tapered(std::span<const Load> line, std::int64_t most);
/// The stretches whose last exchange ends first, one exchange after the other; fewer of them where the ends differ by less than a
/// tenth of a startup each. At most `most_buffers`, and stretches of at most 4,096 tensors.
[[nodiscard]] Ends earliest(const Line& line, const LinearCost& cost, std::size_t most_buffers);

/// The buffers of these stretches, cut so that none has more than 2^32 - 1 elements.
[[nodiscard]] Division divide(const Line& line, const Ends& ends);

/// What an exchange of so many bytes has taken.
struct Sample {
  std::int64_t bytes = 0;
  double seconds = 0;
};
/// The line through the samples, by least squares; where they tell no slope, or one that cannot be, `prior` times what fits best.
[[nodiscard]] LinearCost fit(std::span<const Sample> samples, const LinearCost& prior);

}  // namespace weir::fusion
