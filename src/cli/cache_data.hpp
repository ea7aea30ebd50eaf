// cache_data.hpp: `weir cache check`: whether every sample of a data set can be had.
#pragma once

#include <string>

namespace weir::cli {

struct DataToCheck {
  std::string path;  ///< a folder of JPEG files, or a file
  std::string dataset, labels;
  int threads = 0;  ///< 0: one for each core
};

/// Returns the status to end with. Throws Error or std::runtime_error where there is no such data set.
[[nodiscard]] int check_data(const DataToCheck& data);

}  // namespace weir::cli
