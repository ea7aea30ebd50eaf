// plan_config.hpp: checks a configuration, names the fields that ranks agree on, and computes the density schedule. Sends no
// messages.
#pragma once

#include <span>
#include <string_view>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "communicator/config_card.hpp"
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

}  // namespace weir
