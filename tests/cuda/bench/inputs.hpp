// inputs.hpp: the GPU code of bench_gpu: made-up gradients, and a top-k to compare with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::bench {

/// How CUB's benchmarks make keys: the bitwise AND of `ands` random numbers. With more of them, more bits are zero and more keys
/// are equal. With 0, all keys are equal.
struct Entropy {
  const char* name;  ///< bits of entropy per bit
  int ands;
};
inline constexpr std::array entropies = {Entropy{"1.000", 1}, Entropy{"0.544", 3}, Entropy{"0.201", 5}, Entropy{"0.000", 0}};

/// Fills x, on the stream, with floats of magnitudes in (0, 1]: cubes of uniform numbers, most of them small, no zeros.
void fill_random(void* stream, float* x, std::int64_t count, int ands, std::uint64_t seed);

/// Finds the k largest magnitudes by sorting all with CUB. The result is the indices and magnitudes of the last k.
struct SortedTopK {
  static std::int64_t bytes(std::int64_t count);
  /// Runs on the stream. `memory` is device memory of bytes(count) bytes, aligned to 256.
  static void run(void* stream, const float* x, std::int64_t count, std::byte* memory);
};

}  // namespace weir::bench
