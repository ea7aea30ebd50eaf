// bench_input.hpp: gradients for benchmarks, synthetic or recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

/// gradients[t] is this rank's gradient of iteration t.
using Gradients = std::vector<std::vector<float>>;

/// Returns `count` zeros, in huge pages if the system has them, as docs/tuning.md advises.
[[nodiscard]] std::vector<float> gradient_memory(std::int64_t count);

/// Makes heavy-tailed gradients from a fixed seed, correlated over iterations and ranks: |g| follows a log-normal (sigma 1.5)
/// common to all, plus 30 % noise specific to each rank and iteration.
[[nodiscard]] Gradients make_gradients(std::int64_t count, int rank, int iterations);

/// Makes smooth fields, as of a simulation: waves on a grid of 256 x 256 planes of any number, from 1.5 below to 1.5 above zero,
/// shifted a little between ranks and iterations.
[[nodiscard]] Gradients make_fields(std::int64_t count, int rank, int iterations);

/// Reads recorded gradients, iterations x ranks x count: raw float32, or .npy (float32, C order). If `count` is 0, sets it from the
/// .npy file. Throws std::runtime_error saying what is wrong with the file.
[[nodiscard]] Gradients read_gradients(const std::string& file, std::int64_t& count, int rank, int ranks);

/// Returns the name of the kernels' instruction set.
[[nodiscard]] std::string instructions_in_use();

}  // namespace weir::cli
