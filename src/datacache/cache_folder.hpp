// cache_folder.hpp: level 1's folder with the packs of all data sets, and its size limit.
//
//   FOLDER/.weir-cache          bytes of all packs in FOLDER; a process that changes them locks this file
//   FOLDER/NAME/manifest.json   the data set of these packs; a subfolder without a manifest is not part of the cache
//   FOLDER/NAME/pack-NUMBER     a complete pack: it is renamed last
//   FOLDER/NAME/.pack-NUMBER    being written by the process that has locked it, or left by a process that has ended
//
// Files with other names and symbolic links are left untouched. A process that has a pack open can still read it after its removal.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "datacache/files.hpp"
#include "datacache/pack_file.hpp"

namespace weir::datacache {

[[nodiscard]] std::string pack_name(std::int64_t number);

/// A file of a data set.
struct CacheFile {
  std::string data_set, name;
  std::int64_t pack = 0;
  FileStatus status;
};

/// The contents of the folder.
struct CacheContents {
  std::vector<std::string> data_sets;  ///< by name
  std::vector<CacheFile> packs;        ///< by data set and number
  std::vector<CacheFile> unfinished;   ///< .pack-NUMBER

  template <class See>
  void for_each(See&& see) const {
    for (const auto* files : {&packs, &unfinished}) std::for_each(files->begin(), files->end(), see);
  }
  [[nodiscard]] std::int64_t bytes() const;  ///< Returns the bytes of all packs, including unfinished ones.
};

enum class Reserved { yes, no_room, failed };

/// Returns as text why a function here has failed.
[[nodiscard]] std::string trouble(int error);

/// Thread-safe.
class CacheFolder {
 public:
  struct Options {
    std::int64_t limit = 0;  ///< of all packs, in bytes; 0: no limit
    LogLevel log = LogLevel::warn;
    std::chrono::milliseconds patience = std::chrono::seconds(30);  ///< how long to wait for other processes' locks
  };
  /// Makes the folder if its parent exists, removes what dead writers have left, and counts the bytes again. If another process
  /// works with the folder, that one has done so already. Throws Error(WEIR_ERR_FILE) naming the folder and the reason.
  CacheFolder(const std::string& path, const Options& options);
  /// Opens an existing folder without changing it. Throws Error(WEIR_ERR_FILE) if `path` is not a sample cache.
  explicit CacheFolder(const std::string& path);

  /// Makes or opens the data set's own folder. Throws Error(WEIR_ERR_FILE), or Error(WEIR_ERR_MISMATCH) if this name has other
  /// data.
  [[nodiscard]] Descriptor make_data_set(const DataSet& set);
  /// Opens a data set's folder. Returns an empty descriptor on failure: errno has the reason.
  [[nodiscard]] Descriptor open_data_set(const std::string& name) const { return open_folder_in(folder_, name); }

  // A pack is stored by reserve(), writing, and publish() or discard(). `file` is .pack-NUMBER, locked.

  /// Makes `file` `bytes` long and counts them. On failure, errno has the reason. Evicts the least recently used packs to make
  /// room, but none used since this object was made. So if one run's packs do not all fit, the first ones stay, instead of each
  /// evicting one that is about to be read.
  [[nodiscard]] Reserved reserve(const Descriptor& file, std::int64_t bytes);
  /// Renames `file` to its final name. Returns false on failure: errno has the reason.
  [[nodiscard]] bool publish(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file, std::int64_t pack);
  /// Removes `file` instead.
  void discard(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file);

  /// Removes a file if its status has not changed. Returns false if it has, or if the file cannot be removed.
  bool remove(const CacheFile& file);
  /// Removes unfinished files that no living process writes. Returns the bytes of each.
  std::vector<std::int64_t> remove_left_overs();
  /// Removes all packs, finished or not, the manifest, and the folder if it is then empty. Returns the bytes removed.
  std::int64_t remove_data_set(const std::string& name);

  /// Lists the contents. Changes nothing.
  [[nodiscard]] CacheContents look() const;
  /// Returns whether another object works with the folder.
  [[nodiscard]] bool in_use() const;
  /// Returns the bytes counted. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] std::int64_t usage();
  [[nodiscard]] bool has_locks() const { return has_locks_; }
  /// Returns when this object was made, by the file system's clock.
  [[nodiscard]] std::int64_t made_at() const { return made_at_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  class Usage;

  /// Locks the folder's usage against other changes. Returns nothing on failure: errno has the reason.
  [[nodiscard]] std::optional<Usage> change();
  /// Does the same, but throws Error on failure.
  [[nodiscard]] Usage change_or_throw();
  [[nodiscard]] bool make_room(Usage& usage, std::int64_t bytes);
  /// Removes what no living process writes, and counts again. Returns what stays, and the bytes of each file removed.
  std::pair<CacheContents, std::vector<std::int64_t>> clean(Usage& usage);
  bool remove(Usage& usage, const CacheFile& file);
  bool remove_if_left_over(const CacheFile& file) const;

  std::string path_;
  Descriptor folder_;  // with a shared lock, held by every object that works with the folder
  Options options_{};
  std::int64_t made_at_ = 0;
  std::mutex mutex_;  // guards changes if the file system has no locks
  std::atomic<bool> has_locks_{true};
  std::atomic<bool> impatient_{false};                  // true while another process keeps the usage locked
  std::vector<CacheFile> oldest_;                       // packs that may be evicted, the least recently used last
  std::chrono::steady_clock::time_point full_until_{};  // until then there is nothing to evict, so no need to look again
};

}  // namespace weir::datacache
