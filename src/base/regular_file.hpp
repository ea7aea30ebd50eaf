// regular_file.hpp: whether a path names what can be read to an end. Opening a pipe waits for ever, and a device has no end.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace weir {

/// Why `path` is none: "No such file or directory", "it is no regular file"; empty where it is one.
[[nodiscard]] inline std::string why_no_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  return error ? error.message() : regular ? "" : "it is no regular file";
}

}  // namespace weir
