// temporary_folder.hpp: a folder that does not outlive its use.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace weir::cli {

/// Removes a folder and its contents at the end. Does nothing for an empty path.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Makes a folder of a new name, which begins with `path`. Returns its name, or "" and sets errno.
[[nodiscard]] inline std::string make_folder(std::string path) {
  path += "XXXXXX";
  return mkdtemp(path.data()) != nullptr ? path : "";
}

}  // namespace weir::cli
