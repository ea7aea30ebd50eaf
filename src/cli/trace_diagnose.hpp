// trace_diagnose.hpp: what is wrong with a job, by the flight recorders of its ranks.
#pragma once

#include <string>
#include <vector>

#include "cli/trace_dumps.hpp"

namespace weir::cli {

struct Diagnosis {
  bool wrong = false;
  std::string verdict;                ///< one line
  std::vector<std::string> evidence;  ///< a few more
};

[[nodiscard]] Diagnosis diagnose(const Dumps& dumps);

}  // namespace weir::cli
