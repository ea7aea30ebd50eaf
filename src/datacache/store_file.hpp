// store_file.hpp: a file on the store, read at offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weir::datacache {

/// Open from its making on. Thread-safe. Everything throws Error(WEIR_ERR_FILE) naming the file and the reason.
class StoreFile {
 public:
  explicit StoreFile(std::string path);
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;
  StoreFile(StoreFile&& other) noexcept;
  ~StoreFile();

  /// All of `into`, from the byte `at` of the file on. An error where the file is no longer as it was opened.
  void read(std::int64_t at, std::span<std::byte> into) const;
  /// Throws where size or time of change are others than when it was opened.
  void check_unchanged() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Name, size and time of change, for SampleSource::identity(). Without the folder, which nodes may have mounted elsewhere.
  [[nodiscard]] std::string stamp() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0, seconds_ = 0, nanoseconds_ = 0;
};

/// Without line ends and other control characters.
[[nodiscard]] std::string one_line(std::string text);
/// The last part of a path, in one line.
[[nodiscard]] std::string file_name(const std::string& path);

}  // namespace weir::datacache
