// plan_config.hpp: checks of a configuration, agreement between ranks, and the density schedule. No communication of its own.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

namespace weir {

[[nodiscard]] std::string_view type_name(DataType type);

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right.
void check_config(const AllreduceConfig& config);

/// A configuration as plain bytes for comparison between ranks, or the error it has on this rank.
struct ConfigCard {
  std::int32_t status = WEIR_OK;
  std::array<char, 380> text{};  ///< the error, or the algorithm's name
  std::array<double, 17> fields{};
};
[[nodiscard]] ConfigCard make_card(const AllreduceConfig& config);
/// Throws the error of the lowest rank that has one, else Error(WEIR_ERR_MISMATCH) naming the first field that differs.
void check_agreement(const std::vector<ConfigCard>& cards, const std::string& plan_name);

/// k of the configuration once all warm-up is over.
[[nodiscard]] std::int64_t final_k(const AllreduceConfig& config);
/// k of one iteration, -1 where it runs dense.
[[nodiscard]] std::int64_t scheduled_k(const AllreduceConfig& config, std::int64_t iteration);
/// Largest k of any sparse iteration.
[[nodiscard]] std::int64_t largest_k(const AllreduceConfig& config);

}  // namespace weir
