// plan_config.hpp: what a configuration means: checks, the fields that ranks agree on, the density schedule, the compressor and its
// error feedback, and the algorithm that `auto` stands for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "communicator/config_card.hpp"
#include "compress/compressor.hpp"
#include "contribution/error_feedback.hpp"
#include "contribution/threshold.hpp"

namespace weir {

/// Returns the bytes of one element of a gradient.
[[nodiscard]] std::int64_t type_bytes(DataType type);

/// Throws Error(WEIR_ERR_ARGUMENT) that says what is wrong and what would be right.
void check_config(const AllreduceConfig& config);

/// Returns the exchange described by a configuration that names an algorithm, as far as it follows from the configuration. Throws
/// Error(WEIR_ERR_ARGUMENT) if the algorithm does not accept its parameters.
[[nodiscard]] ExchangeSpec exchange_of(const AllreduceConfig& config);

[[nodiscard]] ConfigCard make_card(const AllreduceConfig& config);
/// Returns how ranks select the entries that `row` exchanges. Compressors that pick entries other than the largest ignore the field
/// `threshold`.
[[nodiscard]] ThresholdMethod threshold_in_force(const AllreduceConfig& config, std::string_view fixed);
/// Returns the card's named fields. Fields after the last of them have no name, and are the same everywhere.
[[nodiscard]] std::span<const CardField> config_fields();

/// Returns the error of a run's gradient. The text says what was wrong and what would be right.
[[nodiscard]] Error gradient_error(ErrorReport input_error, const AllreduceConfig& config);

/// Returns k of the configuration after warm-up.
[[nodiscard]] std::int64_t final_k(const AllreduceConfig& config);
/// Returns k of one iteration, or -1 if the iteration is dense.
[[nodiscard]] std::int64_t scheduled_k(const AllreduceConfig& config, std::int64_t iteration);
/// Returns the largest k of any sparse iteration.
[[nodiscard]] std::int64_t largest_k(const AllreduceConfig& config);

// Compressors and error feedback.

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

namespace weir::detail {

struct Choice {
  std::vector<AllreduceConfig> candidates;  ///< the first is the prediction's choice; the others are worth a trial
  std::string explanation;                  ///< the costs that led to the choice, as a table in text
};

/// Collective. Returns rank 0's choice on every rank. It compares the cost functions of all algorithms that can run here, with the
/// wire formats and the value types that `config` allows. Returns more than one candidate only if config.trial_iterations is not 0:
/// the cheapest of up to five algorithms, each predicted to take at most 1.5 times as long as the first.
[[nodiscard]] Choice choose_algorithm(CommunicatorState& comm, const AllreduceConfig& config);

}  // namespace weir::detail
