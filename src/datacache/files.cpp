#include "datacache/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

namespace weir::datacache {
namespace {

FileStatus converted(const struct stat& from) {
  return {.device = from.st_dev,
          .number = from.st_ino,
          .bytes = from.st_size,
          .used = std::int64_t{from.st_mtim.tv_sec} * 1'000'000'000 + from.st_mtim.tv_nsec,
          .regular = S_ISREG(from.st_mode)};
}

}  // namespace

Descriptor open_folder(const std::string& path) { return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

Descriptor open_in(const Descriptor& folder, const std::string& name, int flags) {
  // O_NONBLOCK: do not block on a pipe of that name, either.
  return Descriptor(::openat(*folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
}

Descriptor open_folder_in(const Descriptor& folder, const std::string& name) {
  return open_in(folder, name, O_RDONLY | O_DIRECTORY);
}

std::optional<FileStatus> status_of(const Descriptor& file) {
  struct stat found {};
  if (::fstat(*file, &found) != 0) return {};
  return converted(found);
}

std::optional<FileStatus> status_in(const Descriptor& folder, const std::string& name) {
  struct stat found {};
  if (::fstatat(*folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return {};
  return converted(found);
}

bool is_named(const Descriptor& folder, const std::string& name, const Descriptor& file) {
  const auto named = status_in(folder, name), open = status_of(file);
  return named && open && named->device == open->device && named->number == open->number;
}

void touch(const Descriptor& file) noexcept { (void)::futimens(*file, nullptr); }

void touch_in(const Descriptor& folder, const std::string& name) noexcept {
  (void)::utimensat(*folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Locked lock(const Descriptor& file, LockKind kind, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + patience;
  const int operation = kind == LockKind::exclusive ? LOCK_EX : LOCK_SH;
  for (std::chrono::milliseconds pause = 1ms;; pause = std::min(2 * pause, 50ms)) {
    if (::flock(*file, operation | LOCK_NB) == 0) return Locked::yes;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return Locked::unsupported;
    if (std::chrono::steady_clock::now() + pause > end) return Locked::elsewhere;
    std::this_thread::sleep_for(pause);
  }
}

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace weir::datacache
