#include "datacache/store_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.hpp"

namespace weir::datacache {

StoreFile::StoreFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: otherwise open() of a pipe, which is refused below, waits for a writer.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(WEIR_ERR_FILE, "cannot open {}: {}", path_, std::strerror(errno));
  struct stat found {};
  const bool known = fstat(descriptor_, &found) == 0;
  const int reason = errno;
  if (!known || !S_ISREG(found.st_mode)) {
    close(descriptor_);
    fail(WEIR_ERR_FILE, "cannot read {}: {}", path_, known ? "it is no regular file" : std::strerror(reason));
  }
  bytes_ = found.st_size;
  seconds_ = found.st_mtim.tv_sec;
  nanoseconds_ = found.st_mtim.tv_nsec;
}

StoreFile::StoreFile(StoreFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      seconds_(other.seconds_),
      nanoseconds_(other.nanoseconds_) {}

StoreFile::~StoreFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void StoreFile::read(std::int64_t at, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(descriptor_, into.data(), into.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(WEIR_ERR_FILE, "cannot read {} at byte {}: {}", path_, at, std::strerror(errno));
    if (got == 0)
      fail(WEIR_ERR_FILE, "{} ends at byte {}, {} bytes early: it has been cut off since it was opened with {} bytes", path_, at,
           into.size(), bytes_);
    into = into.subspan(static_cast<std::size_t>(got));
    at += got;
  }
  check_unchanged();
}

void StoreFile::check_unchanged() const {
  struct stat now {};
  if (fstat(descriptor_, &now) != 0) fail(WEIR_ERR_FILE, "cannot look at {}: {}", path_, std::strerror(errno));
  if (now.st_size != bytes_ || now.st_mtim.tv_sec != seconds_ || now.st_mtim.tv_nsec != nanoseconds_)
    fail(WEIR_ERR_FILE, "{} was changed while it was in use: make a new cache for the new data", path_);
}

std::string StoreFile::stamp() const {
  return fmt::format("{} {} bytes of {}.{:09}", file_name(path_), bytes_, seconds_, nanoseconds_);
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
