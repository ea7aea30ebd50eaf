// files.hpp: system calls of level 1. Functions do not throw on system errors: errno has the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace weir::datacache {

/// An open file or folder, or empty.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  explicit operator bool() const noexcept { return number_ >= 0; }
  [[nodiscard]] int operator*() const noexcept { return number_; }

 private:
  int number_;
};

[[nodiscard]] Descriptor open_folder(const std::string& path);
/// Opens a name in `folder`. Refuses symbolic links, so that another user with write access cannot redirect the call.
[[nodiscard]] Descriptor open_in(const Descriptor& folder, const std::string& name, int flags);
[[nodiscard]] Descriptor open_folder_in(const Descriptor& folder, const std::string& name);

struct FileStatus {
  std::uint64_t device = 0, number = 0;
  std::int64_t bytes = 0;
  std::int64_t used = 0;  ///< time of the last write or touch, in ns since 1970
  bool regular = false;

  [[nodiscard]] bool operator==(const FileStatus&) const = default;
};
[[nodiscard]] std::optional<FileStatus> status_of(const Descriptor& file);
[[nodiscard]] std::optional<FileStatus> status_in(const Descriptor& folder, const std::string& name);
/// Returns whether the file still has that name.
[[nodiscard]] bool is_named(const Descriptor& folder, const std::string& name, const Descriptor& file);
/// How often to look a name up again that others have removed. A file system on which the name never matches gives files new inode
/// numbers each time.
inline constexpr int most_tries = 1000;
/// Marks the file as used now.
void touch(const Descriptor& file) noexcept;
void touch_in(const Descriptor& folder, const std::string& name) noexcept;

[[nodiscard]] bool write_at(const Descriptor& file, std::int64_t address, std::span<const std::byte> bytes);
/// Returns false with an errno of 0 if the file ends before the last byte.
[[nodiscard]] bool read_at(const Descriptor& file, std::int64_t address, std::span<std::byte> bytes);

enum class Locked { yes, elsewhere, unsupported };
enum class LockKind { exclusive, shared };
/// Locks the file until it is closed. The system releases locks of dead processes. Threads exclude each other, too, if each has
/// opened the file itself. Waits for others at most `patience`, because schedulers may stop the process that holds the lock.
[[nodiscard]] Locked lock(const Descriptor& file, LockKind kind, std::chrono::milliseconds patience);

/// Returns the text for an errno.
[[nodiscard]] std::string reason(int error);

}  // namespace weir::datacache
