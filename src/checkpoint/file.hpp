// file.hpp: reads and writes at given addresses of a file. Errors name the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.hpp"

namespace weir::checkpoint {

/// An open file. All members that can fail throw Error(WEIR_ERR_FILE).
class File {
 public:
  [[nodiscard]] static File open_to_read(const std::string& path);
  /// The file must exist.
  [[nodiscard]] static File open_to_write(const std::string& path);
  [[nodiscard]] static File create(const std::string& path);

  void write_at(std::int64_t address, std::span<const std::byte> bytes) const;
  /// Throws if the file ends before the last byte.
  void read_at(std::int64_t address, std::span<std::byte> bytes) const;
  /// Advises the system to begin writing this range to the disk while more is written.
  void begin_sync(std::int64_t address, std::int64_t bytes) const noexcept;
  [[nodiscard]] std::int64_t size() const;
  /// Returns once everything that any process of this node has written to the file is on the disk.
  void sync() const;
  /// Closes the file. Network file systems report errors here; the destructor would hide them.
  void close();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  File(std::string path, int flags);

  std::string path_;
  Descriptor descriptor_;
};

/// Renames `from` to `to` and replaces a file of that name. Returns once the change is on the disk.
void rename_for_good(const std::string& from, const std::string& to);

}  // namespace weir::checkpoint
