// input_error.hpp: what can be wrong with one rank's call of a plan, and which memory and streams calls accept.
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
  device_memory,        // GPU memory was given to a plan or table in host memory
  host_memory,          // host memory was given to a plan or table in CUDA memory
  other_device,         // memory of another GPU than the plan's or table's
  bad_stream,           // not a stream of its GPU
  nccl_aborted,         // by an error of this or another plan
  in_use,               // another run in flight will write its result to the same memory
  last = in_use
};

/// Ends the text of an error of null_pointer: Python and Fortran pass a null pointer on for an array that they refuse.
inline constexpr std::string_view refused_by_binding = "; in Python and Fortran, that rank's own error says what was wrong";

/// Returns what is wrong and what would be right, for an error of memory or stream (stream_of_host_plan to bad_stream) in a call of
/// `thing`, "plan" or "table", with `array`, such as "gradient".
[[nodiscard]] std::string memory_error_text(InputError kind, int rank, std::string_view thing, std::string_view array);

/// Checks that memory given to calls is host memory, and that no stream is given.
class HostPointers {
 public:
  [[nodiscard]] InputError error_of(const void* memory, void* stream);

 private:
  const void* known_ = nullptr;  // host memory, found by the last query: a query takes as long as a small plan's whole run
};

}  // namespace weir
