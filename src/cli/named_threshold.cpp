#include "cli/named_threshold.hpp"

#include <vector>

#include "contribution/threshold.hpp"

namespace weir::cli {

void add_threshold(Command& command, std::string& threshold, std::string& parameters) {
  std::vector<std::string> names;
  for (const ThresholdRow* row : threshold_registry()) names.emplace_back(row->name);
  command.option("--threshold", threshold, "how ranks select").one_of(names);
  command.option("--threshold-parameters", parameters, "of the threshold, such as period=8");
}

}  // namespace weir::cli
