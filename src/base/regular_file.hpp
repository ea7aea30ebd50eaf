// regular_file.hpp: checks that a path names a regular file. Opening a pipe waits for ever, and a device has no end.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace weir {

/// Returns why `path` is not a regular file: "No such file or directory" or "it is no regular file". Empty if it is one.
[[nodiscard]] inline std::string why_no_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  return error ? error.message() : regular ? "" : "it is no regular file";
}

}  // namespace weir
