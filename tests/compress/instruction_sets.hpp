// instruction_sets.hpp: runs the same test on every instruction set that this processor has and the library was compiled for.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <functional>

namespace weir::test {

/// Calls body(name) for each instruction set, the longest vectors first. Not thread-safe beside calls into the library.
inline void for_each_instruction_set(const std::function<void(const char*)>& body) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t one = left & -left;
    hwy::SetSupportedTargetsForTest(one);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(one));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace weir::test
