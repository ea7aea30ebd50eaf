// trace_diagnose.hpp: finds what is wrong with a job from the flight recorders of its ranks.
#pragma once

#include <string>
#include <vector>

#include "cli/trace_files.hpp"

namespace weir::cli {

struct Diagnosis {
  bool wrong = false;
  std::string verdict;                ///< one line
  std::vector<std::string> evidence;  ///< a few more lines
};

[[nodiscard]] Diagnosis diagnose(const Dumps& dumps);

}  // namespace weir::cli
