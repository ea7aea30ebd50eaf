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
};

/// 0 for none. Among several ranks' faults the largest kind wins, then the lowest rank.
[[nodiscard]] constexpr std::uint64_t input_error_word(InputError kind, int rank) {
  return kind == InputError::none ? 0 : (static_cast<std::uint64_t>(kind) << 32) | (0xffffffffu - static_cast<std::uint32_t>(rank));
}
[[nodiscard]] constexpr InputError input_error_kind(std::uint64_t input_error) {
  return static_cast<InputError>(input_error >> 32);
}
[[nodiscard]] constexpr int input_error_rank(std::uint64_t input_error) {
  return static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(input_error));
}

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
