// cache_data.hpp: `weir cache check`: checks that every sample of a data set can be read.
#pragma once

#include <string>

namespace weir::cli {

struct DataToCheck {
  std::string path;  ///< a folder of JPEG files, or a file
  std::string dataset, labels;
  int threads = 0;  ///< 0: one for each core
};
/// Returns the exit status. Throws Error or std::runtime_error if there is no such data set.
[[nodiscard]] int check_data(const DataToCheck& data);

}  // namespace weir::cli
