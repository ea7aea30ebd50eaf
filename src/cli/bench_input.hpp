// bench_input.hpp: gradients for benchmarks: made up, or recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

/// gradients[t] is this rank's gradient of iteration t.
using Gradients = std::vector<std::vector<float>>;

/// `count` zeros, in huge pages where the system has them: as docs/tuning.md advises.
[[nodiscard]] std::vector<float> gradient_memory(std::int64_t count);

/// Heavy-tailed, correlated over iterations and ranks, from a fixed seed: |g| follows a log-normal (sigma 1.5) common to all, with
/// 30 % noise of its own for every rank and iteration.
[[nodiscard]] Gradients make_gradients(std::int64_t count, int rank, int iterations);

/// Recorded gradients, iterations x ranks x count: raw float32, or .npy (float32, C order). `count` 0: taken from the .npy file.
/// Throws std::runtime_error saying what is wrong with the file.
[[nodiscard]] Gradients read_gradients(const std::string& file, std::int64_t& count, int rank, int ranks);

}  // namespace weir::cli
