// files.hpp: what level 1 asks of the system. Nothing throws for what the system says: errno has the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace weir::datacache {

/// An open file or folder, or none.
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
/// Opens what has that name in `folder`, unless it is a symbolic link: another user who may write there cannot lead us elsewhere.
[[nodiscard]] Descriptor open_in(const Descriptor& folder, const std::string& name, int flags);
[[nodiscard]] Descriptor open_folder_in(const Descriptor& folder, const std::string& name);

struct FileStatus {
  std::uint64_t device = 0, number = 0;
  std::int64_t bytes = 0;
  std::int64_t used = 0;  ///< when it was written or touched, in ns since 1970
  bool regular = false;

  [[nodiscard]] bool operator==(const FileStatus&) const = default;
};
[[nodiscard]] std::optional<FileStatus> status_of(const Descriptor& file);
[[nodiscard]] std::optional<FileStatus> status_in(const Descriptor& folder, const std::string& name);
/// The file still has that name.
[[nodiscard]] bool is_named(const Descriptor& folder, const std::string& name, const Descriptor& file);
/// How often a name is looked up again that others have taken away; where it never fits, the file system numbers files anew each
/// time.
inline constexpr int most_tries = 1000;
/// It was used now.
void touch(const Descriptor& file) noexcept;
void touch_in(const Descriptor& folder, const std::string& name) noexcept;

[[nodiscard]] bool write_at(const Descriptor& file, std::int64_t address, std::span<const std::byte> bytes);
/// False with an errno of 0: the file ends before.
[[nodiscard]] bool read_at(const Descriptor& file, std::int64_t address, std::span<std::byte> bytes);

enum class Locked { yes, elsewhere, unsupported };
enum class LockKind { exclusive, shared };
/// As long as the file is open: the system unlocks what dies. Threads exclude each other as processes do, where each has opened the
/// file. Waits for others no longer than `patience`: one that is stopped, as schedulers do with jobs, does not stop us.
[[nodiscard]] Locked lock(const Descriptor& file, LockKind kind, std::chrono::milliseconds patience);

/// What errno says.
[[nodiscard]] std::string reason(int error);

}  // namespace weir::datacache
