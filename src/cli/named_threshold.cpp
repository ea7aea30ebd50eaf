#include "cli/named_threshold.hpp"

#include <fmt/format.h>

#include "contribution/threshold.hpp"

namespace weir::cli {

std::string help_of_threshold_parameters() {
  std::string text;
  for (const ThresholdRow* row : threshold_registry()) {
    for (const ParameterInfo& info : row->parameters)
      text += fmt::format("{}{} of {} (default {})", text.empty() ? "" : ", ", info.name, row->name, text_of(info, info.value));
  }
  return "parameters of the selection method, such as period=8: " + text;
}

std::pair<Option, Option> add_threshold(Command& command, std::string& threshold, std::string& parameters) {
  std::vector<std::string> names;
  for (const ThresholdRow* row : threshold_registry()) names.emplace_back(row->name);
  return {command.option("--threshold", threshold, "selection method").one_of(names),
          command.option("--threshold-parameters", parameters, help_of_threshold_parameters())};
}

}  // namespace weir::cli
