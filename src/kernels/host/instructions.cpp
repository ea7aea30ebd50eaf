#include "kernels/instructions.hpp"

#include <hwy/highway.h>

#include <cstdint>

namespace weir::kernels::host {
namespace {

/// Returns the bit of the instruction set among `targets`, or 0.
std::int64_t target_of(std::string_view name, std::int64_t targets) {
  for (std::int64_t left = targets; left != 0; left &= left - 1) {
    if (hwy::TargetName(left & -left) == name) return left & -left;
  }
  return 0;
}

std::string names_of(std::int64_t targets) {
  std::string list;
  // A lower bit is a better target.
  for (std::int64_t left = targets; left != 0; left &= left - 1) {
    if (!list.empty()) list += ", ";
    list += hwy::TargetName(left & -left);
  }
  return list;
}

}  // namespace

std::string wrong_instruction_set(std::string_view name) {
  const std::int64_t here = hwy::SupportedTargets() & HWY_TARGETS;
  if (target_of(name, here) != 0) return "";
  if (target_of(name, HWY_TARGETS) != 0) return "this processor has no " + std::string(name) + ": it has " + names_of(here);
  return "there is no instruction set '" + std::string(name) + "': kernels are compiled for " + names_of(HWY_TARGETS);
}

void cap_instruction_set(std::string_view name) {
  hwy::DisableTargets(target_of(name, HWY_TARGETS) - 1);  // those below this bit are better ones
}

}  // namespace weir::kernels::host
