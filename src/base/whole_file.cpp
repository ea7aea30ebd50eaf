#include "base/whole_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace weir {

void write_whole_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  // A regular file is replaced whole. A device, a pipe or a link is written to directly.
  const auto kind = std::filesystem::symlink_status(path, ignored).type();
  const bool replaces = kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
  const std::string beside = replaces ? fmt::format("{}.{}.tmp", path, ::getpid()) : path;
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) fail(WEIR_ERR_ARGUMENT, "{} cannot be written: {}", path, std::strerror(errno));
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (written && (!replaces || std::rename(beside.c_str(), path.c_str()) == 0)) return;
  const int reason = errno;
  if (replaces) std::remove(beside.c_str());
  fail(WEIR_ERR_ARGUMENT, "{} cannot be written: {}", path, std::strerror(reason));
}

}  // namespace weir
