// file.hpp: reading and writing at places of a file. Errors name the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace weir::checkpoint {

/// An open file. Everything throws Error(WEIR_ERR_FILE).
class File {
 public:
  [[nodiscard]] static File open_to_read(const std::string& path);
  /// It exists.
  [[nodiscard]] static File open_to_write(const std::string& path);
  [[nodiscard]] static File create(const std::string& path);
  File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File();

  void write_at(std::int64_t address, std::span<const std::byte> bytes) const;
  /// Throws where the file ends before.
  void read_at(std::int64_t address, std::span<std::byte> bytes) const;
  /// Advice: what was written there may go to the disk while more is written.
  void begin_sync(std::int64_t address, std::int64_t bytes) const noexcept;
  [[nodiscard]] std::int64_t size() const;
  /// Returns once what any process of this node has written to the file is on the disk.
  void sync() const;
  /// Network file systems tell here what went wrong; the destructor would hide it.
  void close();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  File(std::string path, int flags);

  std::string path_;
  int descriptor_;
};

/// Returns once names in the folder are on the disk.
void sync_folder(const std::string& folder);
/// Gives `from` the name `to`, in place of what has it, for good once it returns.
void rename_for_good(const std::string& from, const std::string& to);
[[noreturn]] void fail_with_errno(std::string_view doing, const std::string& path);

}  // namespace weir::checkpoint
