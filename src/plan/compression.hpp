// compression.hpp: finds the compressor that a configuration means, and checks that the algorithm and the error feedback suit it.
#pragma once

#include <string>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "contribution/error_feedback.hpp"

namespace weir {

/// Returns the compressor of a configuration that names an algorithm; the algorithm's row supplies the default. Throws
/// Error(WEIR_ERR_ARGUMENT) for unknown names and parameters, and if the algorithm cannot carry the compressor's output; the text
/// then lists the algorithms that can.
[[nodiscard]] compress::Compressor compressor_of(const AllreduceConfig& config);
/// Returns the error feedback in force: none, residual or ef21.
[[nodiscard]] Feedback feedback_of(const AllreduceConfig& config, const compress::Compressor& compressor);
/// Returns how a gradient is prepared before it is added to the residual.
[[nodiscard]] FeedbackRules feedback_rules(const AllreduceConfig& config, const compress::Compressor& compressor, int ranks);
/// Throws Error(WEIR_ERR_ARGUMENT) if the configuration's compressor and error feedback do not suit each other.
void check_compression(const AllreduceConfig& config);
/// Returns a text such as "qsgd levels=7,bucket=512", for messages and for comparison between ranks.
[[nodiscard]] std::string compression_text(const AllreduceConfig& config);
/// Returns a text such as "packed_allgather of qsgd levels=7,bucket=512, error_feedback none" for a configuration that names an
/// algorithm.
[[nodiscard]] std::string travel_text(const AllreduceConfig& config);

}  // namespace weir
