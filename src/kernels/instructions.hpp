// instructions.hpp: caps the instruction set of kernels, so that one machine measures several.
#pragma once

#include <string>
#include <string_view>

namespace weir::kernels::host {

/// Returns what is wrong with the name of an instruction set that kernels should use here, or "".
[[nodiscard]] std::string wrong_instruction_set(std::string_view name);
/// From now on, uses this instruction set or lesser ones in kernels and compressors. The name must be right. Call it before the
/// first kernel: kernels keep what they have chosen.
void cap_instruction_set(std::string_view name);

}  // namespace weir::kernels::host
