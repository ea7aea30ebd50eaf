// fusion_config.hpp: checks of a configuration and its tensors, agreement between ranks, and the errors of an iteration.
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

/// The most tensors of an object. Their numbers travel in error words.
inline constexpr std::size_t most_tensors = (std::size_t{1} << 20) - 1;

/// Throws Error(WEIR_ERR_ARGUMENT) that names the tensor and says what is wrong and what would be right.
void check_config(const FusionConfig& config, std::span<const FusedTensor> tensors);
/// Collective. Throws the same on all ranks: what check_config() throws on any, or Error(WEIR_ERR_MISMATCH) that names the first
/// field or tensor that differs.
[[nodiscard]] detail::Lease agree_on_config(detail::CommunicatorState& comm, const FusionConfig& config,
                                            std::span<const FusedTensor> tensors);

/// Returns how many entries of a tensor a rank selects; 0 for a dense tensor.
[[nodiscard]] std::int64_t k_of(const FusionConfig& config, const FusedTensor& tensor);
/// Returns the position of the named tensor. Throws Error(WEIR_ERR_ARGUMENT) that names the closest name.
[[nodiscard]] int find_tensor(const FusionConfig& config, std::span<const FusedTensor> tensors, std::string_view name);

/// Write tensors as a text, one per line, and read them back. Reading throws Error(WEIR_ERR_ARGUMENT) if a line describes no
/// tensor.
[[nodiscard]] std::string text_of(std::span<const FusedTensor> tensors);
[[nodiscard]] std::vector<FusedTensor> tensors_of(std::string_view text);

/// The errors of one rank's calls in an iteration. Of several, the largest wins, then that of the lowest rank.
enum class Wrong : std::uint32_t {
  none = 0,
  non_finite,
  null_pointer,
  misaligned,
  device_memory,
  wrong_type,
  wrong_count,
  in_use,
  shared,        // its memory overlaps another tensor's of the iteration
  not_optional,  // skipped, but not optional
  missing,       // not ready when the rank waited
  twice,         // ready again
  late,          // ready after the rank had begun to wait
  unknown,       // there is no such tensor
  nothing,       // waited without handing in anything
  destroyed,     // the rank has destroyed the object
  last = destroyed
};

/// `count` is the count that the caller gave, or the other tensor.
[[nodiscard]] ErrorReport report_of(Wrong kind, int rank, std::int64_t tensor, std::int64_t count = 0);
/// Returns the error that says what was wrong and what would be right.
[[nodiscard]] Error error_of(ErrorReport report, const FusionConfig& config, std::span<const FusedTensor> tensors);

}  // namespace weir::fusion
