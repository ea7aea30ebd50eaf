// input_error.hpp: what one rank's call can have wrong, in one word that travels with the first control message of a run, so that
// every rank reports the same error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

namespace weir {

enum class InputError : std::uint32_t {
  none = 0,
  non_finite,
  null_pointer,
  misaligned,
  wrong_count,
  wrong_type,
  dense_only,           // the update cannot be delivered sparse
  stream_of_host_plan,  // a stream was given to a plan or table in host memory
  device_memory,        // GPU memory was given to one in host memory
  host_memory,          // host memory was given to one in CUDA memory
  other_device,         // memory of another GPU than its own
  bad_stream,           // not a stream of its GPU
  nccl_aborted,         // by an error of this or another plan
  in_use,               // another run in flight will write its result there
};

// The word: kind (4 bits), the complement of the rank (20), and a count that the caller gave (40).
inline constexpr std::uint64_t input_error_rank_mask = (1u << 20) - 1;
inline constexpr std::uint64_t most_input_error_count = (std::uint64_t{1} << 40) - 1;

/// 0 for none. Among several ranks' errors the largest kind wins, then the lowest rank. `count`: that of a wrong_count; what the
/// word has no room for becomes most_input_error_count.
[[nodiscard]] constexpr std::uint64_t input_error_word(InputError kind, int rank, std::uint64_t count = 0) {
  if (kind == InputError::none) return 0;
  const std::uint64_t place = input_error_rank_mask - (static_cast<std::uint64_t>(rank) & input_error_rank_mask);
  return static_cast<std::uint64_t>(kind) << 60 | place << 40 | (count < most_input_error_count ? count : most_input_error_count);
}
[[nodiscard]] constexpr InputError input_error_kind(std::uint64_t input_error) {
  return static_cast<InputError>(input_error >> 60);
}
[[nodiscard]] constexpr int input_error_rank(std::uint64_t input_error) {
  return static_cast<int>(input_error_rank_mask - (input_error >> 40 & input_error_rank_mask));
}
[[nodiscard]] constexpr std::uint64_t input_error_count(std::uint64_t input_error) { return input_error & most_input_error_count; }

/// Ends the text of an error of null_pointer: Python and Fortran pass one on for an array that they refuse.
inline constexpr std::string_view refused_by_binding = "; in Python and Fortran, that rank's own error says what was wrong";

/// What was wrong and what would be right, for an error of memory or stream (stream_of_host_plan to bad_stream) in a call of
/// `thing`, "plan" or "table", with `array`, "gradient".
[[nodiscard]] std::string memory_error_text(InputError kind, int rank, std::string_view thing, std::string_view array);

/// What is wrong with memory or streams that calls are given where they must be in host memory.
class HostPointers {
 public:
  [[nodiscard]] InputError error_of(const void* memory, void* stream);

 private:
  const void* known_ = nullptr;  // as the last call has found: asking takes as long as a small plan's whole run
};

}  // namespace weir
