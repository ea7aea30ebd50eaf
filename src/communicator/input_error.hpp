// input_error.hpp: what one rank's call of a plan can have wrong; which memory and streams calls take.
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
  last = in_use
};

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
