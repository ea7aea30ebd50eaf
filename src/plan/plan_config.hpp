// plan_config.hpp: checks of a configuration, agreement between ranks, and the density schedule. No communication of its own.
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

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right.
void check_config(const AllreduceConfig& config);

/// Returns the exchange that a configuration with the name of an algorithm describes, as far as that follows from the
/// configuration. Throws Error(WEIR_ERR_ARGUMENT) where the algorithm does not take its parameters.
[[nodiscard]] ExchangeSpec exchange_of(const AllreduceConfig& config);

[[nodiscard]] ConfigCard make_card(const AllreduceConfig& config);
/// Returns how ranks select what `row` exchanges. Compressors that pick other entries than the largest leave the field `threshold`
/// aside.
[[nodiscard]] ThresholdMethod threshold_in_force(const AllreduceConfig& config, std::string_view fixed);
/// Its fields; those behind the last have no name, and are the same everywhere.
[[nodiscard]] std::span<const CardField> config_fields();

/// What was wrong with the gradient of a run, and what would be right.
[[nodiscard]] Error gradient_error(ErrorReport input_error, const AllreduceConfig& config);

/// k of the configuration once all warm-up is over.
[[nodiscard]] std::int64_t final_k(const AllreduceConfig& config);
/// k of one iteration, -1 where it runs dense.
[[nodiscard]] std::int64_t scheduled_k(const AllreduceConfig& config, std::int64_t iteration);
/// Largest k of any sparse iteration.
[[nodiscard]] std::int64_t largest_k(const AllreduceConfig& config);

}  // namespace weir
