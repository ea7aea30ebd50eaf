// store_file.hpp: a file on the store, read at offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.hpp"
#include "datacache/files.hpp"

namespace weir::datacache {

/// Open from its construction. Thread-safe. All members throw Error(WEIR_ERR_FILE) naming the file and the reason.
class StoreFile {
 public:
  explicit StoreFile(std::string path);

  /// Fills `into`, beginning at byte `at` of the file. Throws if the file has changed since it was opened.
  void read(std::int64_t at, std::span<std::byte> into) const;
  /// Throws if size or modification time have changed since the file was opened.
  void check_unchanged() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t bytes() const { return opened_.bytes; }
  /// Returns name, size and modification time, for SampleSource::identity(). Leaves out the folder, because its path may differ
  /// between nodes.
  [[nodiscard]] std::string stamp() const;

 private:
  std::string path_;
  Descriptor file_;
  FileStatus opened_;
};

/// Returns the text without line ends and other control characters.
[[nodiscard]] std::string one_line(std::string text);
/// Returns the last part of a path, in one line.
[[nodiscard]] std::string file_name(const std::string& path);

}  // namespace weir::datacache
