// inputs.hpp: what bench_gpu needs on the GPU besides the library: made-up gradients, and a top-k to compare with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::bench {

/// How CUB's benchmarks make keys: the bitwise and of `ands` random numbers, so that ever more bits are zero and ever more keys
/// alike; 0: all are.
struct Entropy {
  const char* name;  ///< bits of entropy a bit
  int ands;
};
inline constexpr std::array entropies = {Entropy{"1.000", 1}, Entropy{"0.544", 3}, Entropy{"0.201", 5}, Entropy{"0.000", 0}};

/// Floats with magnitudes in (0, 1], most of them small: cubes of uniform ones, none zero. Onto the stream.
void fill_random(void* stream, float* x, std::int64_t count, int ands, std::uint64_t seed);

/// The k largest magnitudes by sorting all with CUB: indices and magnitudes of the last k.
struct SortedTopK {
  static std::int64_t bytes(std::int64_t count);
  /// Onto the stream; `memory` in device memory, aligned to 256, of bytes(count).
  static void run(void* stream, const float* x, std::int64_t count, std::byte* memory);
};

}  // namespace weir::bench
