// fusion_config.hpp: checks of a configuration and its tensors, agreement between ranks, and what goes wrong in an iteration. No
// communication of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/fusion.hpp>

#include "base/error_report.hpp"
#include "communicator/config_card.hpp"

namespace weir::fusion {

/// Most tensors: their numbers travel in error words.
inline constexpr std::size_t most_tensors = (std::size_t{1} << 20) - 1;

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, naming the tensor.
void check_config(const FusionConfig& config, std::span<const FusedTensor> tensors);
[[nodiscard]] ConfigCard make_card(const FusionConfig& config, std::span<const FusedTensor> tensors);
/// Collective, after ranks have agreed on the card: throws on all ranks Error(WEIR_ERR_MISMATCH) naming the first tensor that
/// differs.
void agree_on_tensors(detail::CommunicatorState& comm, const FusionConfig& config, std::span<const FusedTensor> tensors);

/// Entries of a tensor that a rank selects; 0 for a dense one.
[[nodiscard]] std::int64_t k_of(const FusionConfig& config, const FusedTensor& tensor);
/// The place of a name. Throws Error(WEIR_ERR_ARGUMENT), naming the closest.
[[nodiscard]] int find_tensor(const FusionConfig& config, std::span<const FusedTensor> tensors, std::string_view name);

/// Writes tensors as a text, one on a line, and reads them back. Throws Error(WEIR_ERR_ARGUMENT) where a line describes no tensor.
[[nodiscard]] std::string text_of(std::span<const FusedTensor> tensors);
[[nodiscard]] std::vector<FusedTensor> tensors_of(std::string_view text);

/// What one rank's calls of an iteration can have wrong. Of several, the largest wins, then the lowest rank.
enum class Wrong : std::uint32_t {
  none = 0,
  non_finite,
  null_pointer,
  misaligned,
  device_memory,
  wrong_type,
  wrong_count,
  in_use,
  shared,        // with another tensor of the iteration
  not_optional,  // skipped
  missing,       // not ready when the rank waited
  twice,         // ready again
  late,          // ready after the rank waited
  unknown,       // there is no such tensor
  nothing,       // waited, and handed in nothing
  destroyed,     // the rank has given the object up
  last = destroyed
};

/// `count` is one that the caller gave, or another tensor.
[[nodiscard]] ErrorReport report_of(Wrong kind, int rank, std::int64_t tensor, std::int64_t count = 0);
/// What was wrong and what would be right.
[[nodiscard]] Error error_of(ErrorReport report, const FusionConfig& config, std::span<const FusedTensor> tensors);

}  // namespace weir::fusion
