// thresholds.hpp: all methods of local selection.
#pragma once

#include <string>
#include <vector>

#include "contribution/threshold.hpp"

namespace weir::test {

inline const std::vector<std::string> all_thresholds = [] {
  std::vector<std::string> names;
  for (const ThresholdRow* row : threshold_registry()) names.emplace_back(row->name);
  return names;
}();

/// Returns parameters with which a threshold is reused for `period` runs, if the method can.
inline std::string period_of(const std::string& threshold, std::int64_t period) {
  return make_threshold(threshold).period() > 0 ? "period=" + std::to_string(period) : std::string();
}
inline ThresholdMethod method_of(const std::string& threshold, std::int64_t period) {
  return make_threshold(threshold, period_of(threshold, period));
}
/// Sets both fields of an AllreduceConfig or a FusionConfig.
template <class Config>
void set_threshold(Config& config, const std::string& threshold, std::int64_t period = 3) {
  config.threshold = threshold;
  config.threshold_parameters = period_of(threshold, period);
}

}  // namespace weir::test
