#include "datacache/store_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.hpp"

namespace weir::datacache {

StoreFile::StoreFile(std::string path)
    : path_(std::move(path)),
      // O_NONBLOCK: otherwise open() of a pipe, which is refused below, waits for a writer.
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_) fail(WEIR_ERR_FILE, "cannot open {}: {}", path_, std::strerror(errno));
  const std::optional<FileStatus> found = status_of(file_);
  if (!found) fail(WEIR_ERR_FILE, "cannot read {}: {}", path_, std::strerror(errno));
  if (!found->regular) fail(WEIR_ERR_FILE, "cannot read {}: it is no regular file", path_);
  opened_ = *found;
}

void StoreFile::read(std::int64_t at, std::span<std::byte> into) const {
  const std::size_t got = read_up_to(file_, at, into);
  if (got == into.size()) return check_unchanged();
  at += static_cast<std::int64_t>(got);
  if (errno != 0) fail(WEIR_ERR_FILE, "cannot read {} at byte {}: {}", path_, at, std::strerror(errno));
  fail(WEIR_ERR_FILE, "{} ends at byte {}, {} bytes early: it has been cut off since it was opened with {} bytes", path_, at,
       into.size() - got, opened_.bytes);
}

void StoreFile::check_unchanged() const {
  const std::optional<FileStatus> now = status_of(file_);
  if (!now) fail(WEIR_ERR_FILE, "cannot look at {}: {}", path_, std::strerror(errno));
  if (now->bytes != opened_.bytes || now->used != opened_.used)
    fail(WEIR_ERR_FILE, "{} was changed while it was in use: make a new cache for the new data", path_);
}

std::string StoreFile::stamp() const {
  return fmt::format("{} {} bytes of {}.{:09}", file_name(path_), opened_.bytes, opened_.used / 1'000'000'000,
                     opened_.used % 1'000'000'000);
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, '?');
  return text;
}

std::string file_name(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return one_line((whole.has_filename() ? whole : whole.parent_path()).filename().string());
}

}  // namespace weir::datacache
