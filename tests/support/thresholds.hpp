// thresholds.hpp: every method of local selection, by name.
#pragma once

#include <array>
#include <string>
#include <weir/weir.hpp>

namespace weir::test {

inline constexpr std::array all_thresholds = {Threshold::exact,    Threshold::reuse, Threshold::mstopk, Threshold::sampled,
                                              Threshold::gaussian, Threshold::sidco, Threshold::redsync};

inline std::string threshold_name(Threshold threshold) {
  constexpr const char* names[] = {"exact", "reuse", "mstopk", "sampled", "gaussian", "sidco", "redsync"};
  return names[static_cast<int>(threshold)];
}

}  // namespace weir::test
