// files.hpp: system calls of level 1. Functions do not throw on system errors: errno has the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/descriptor.hpp"

namespace weir::datacache {

using weir::Descriptor;

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

enum class Locked { yes, elsewhere, unsupported };
enum class LockKind { exclusive, shared };
/// Locks the file until it is closed. The system releases locks of dead processes. Threads exclude each other, too, if each has
/// opened the file itself. Waits for others at most `patience`, because schedulers may stop the process that holds the lock.
[[nodiscard]] Locked lock(const Descriptor& file, LockKind kind, std::chrono::milliseconds patience);

/// Returns the text for an errno.
[[nodiscard]] std::string reason(int error);

}  // namespace weir::datacache
