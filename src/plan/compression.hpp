// compression.hpp: which compressor a configuration means, whether its algorithm can carry that, and what memory goes with it.
#pragma once

#include <string>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "contribution/error_feedback.hpp"

namespace weir {

/// Returns the compressor of a configuration that names an algorithm, by that algorithm's row. Throws Error(WEIR_ERR_ARGUMENT) for
/// unknown names and parameters, and where the algorithm cannot carry what the compressor makes: then it lists those that can.
[[nodiscard]] compress::Compressor compressor_of(const AllreduceConfig& config);
/// none, residual or ef21.
[[nodiscard]] Feedback feedback_of(const AllreduceConfig& config, const compress::Compressor& compressor);
/// What comes between the gradient and the residual.
[[nodiscard]] FeedbackRules feedback_rules(const AllreduceConfig& config, const compress::Compressor& compressor, int ranks);
/// Throws Error(WEIR_ERR_ARGUMENT) where what the configuration says of compressor and memory does not go together.
void check_compression(const AllreduceConfig& config);
/// "qsgd levels=7,bucket=512", for messages and for comparison between ranks.
[[nodiscard]] std::string compression_text(const AllreduceConfig& config);
/// Returns a text such as "packed_allgather of qsgd levels=7,bucket=512, error_feedback none" for a configuration that names an
/// algorithm.
[[nodiscard]] std::string travel_text(const AllreduceConfig& config);

}  // namespace weir
