// cache_folder.hpp: level 1's folder with the packs of all data sets, and its limit.
//
//   FOLDER/.weir-cache          bytes of all packs in FOLDER; a process that changes them locks it
//   FOLDER/NAME/manifest.json   what data set these are packs of; a subfolder without one is not part of the cache
//   FOLDER/NAME/pack-NUMBER     whole: it has got its name last
//   FOLDER/NAME/.pack-NUMBER    being written by the process that has locked it, or left by a process that has ended meanwhile
//
// What has other names is left alone, and so are symbolic links. A process that has a pack open goes on reading it after it is
// removed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "datacache/files.hpp"
#include "datacache/manifest.hpp"

namespace weir::datacache {

[[nodiscard]] std::string pack_name(std::int64_t number);

/// A file of a data set.
struct CacheFile {
  std::string data_set, name;
  std::int64_t pack = 0;
  FileStatus status;
};

/// What there is.
struct CacheContents {
  std::vector<std::string> data_sets;  ///< by name
  std::vector<CacheFile> packs;        ///< by data set and number
  std::vector<CacheFile> unfinished;   ///< .pack-NUMBER

  [[nodiscard]] std::int64_t bytes() const;  ///< of all packs, unfinished ones too
};

enum class Reserved { yes, no_room, failed };

/// What is in the way when a function here has failed.
[[nodiscard]] std::string trouble(int error);

/// Thread-safe.
class CacheFolder {
 public:
  struct Options {
    std::int64_t limit = 0;  ///< of packs, in bytes; 0: none
    LogLevel log = LogLevel::warn;
    std::chrono::milliseconds patience = std::chrono::seconds(30);  ///< with other processes' locks
  };
  /// Makes the folder where its parent is there, removes what dead writers have left, and counts its bytes anew, unless another
  /// process works with the folder, which has done so. Throws Error(WEIR_ERR_FILE) naming the folder and the reason.
  CacheFolder(const std::string& path, const Options& options);
  /// Opens a folder that is there, and leaves it as it is. Throws Error(WEIR_ERR_FILE) where `path` is no sample cache.
  explicit CacheFolder(const std::string& path);

  /// The data set's own folder. Throws Error(WEIR_ERR_FILE), and Error(WEIR_ERR_MISMATCH) where that name has other data.
  [[nodiscard]] Descriptor make_data_set(const DataSet& set);
  /// Opens a data set's folder. Returns an empty descriptor where it cannot: errno says why.
  [[nodiscard]] Descriptor open_data_set(const std::string& name) const { return open_folder_in(folder_, name); }

  // A pack is kept in three steps. `file` is .pack-NUMBER, locked.

  /// Makes `file` `bytes` long and counts them. errno says why it has failed. Evicts what was used least recently to make room, but
  /// nothing that was used since this object was made: where one run's packs do not all fit, the first ones stay, rather than each
  /// pushing out another one that is about to be read.
  [[nodiscard]] Reserved reserve(const Descriptor& file, std::int64_t bytes);
  /// False: errno says why.
  [[nodiscard]] bool publish(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file, std::int64_t pack);
  /// Or it goes.
  void discard(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file);

  /// Removes a pack that is as it was then. False where it is not, or cannot be removed.
  bool remove(const Descriptor& data_set, const std::string& name, const FileStatus& then);
  bool remove(const CacheFile& file);
  /// What no living process writes. Returns the bytes of each.
  std::vector<std::int64_t> remove_left_overs();
  /// All packs, finished or not, the manifest, and the folder if nothing else is in it. Returns the bytes removed.
  std::int64_t remove_data_set(const std::string& name);

  /// Changes nothing.
  [[nodiscard]] CacheContents look() const;
  /// Another object works with the folder.
  [[nodiscard]] bool in_use() const;
  /// As counted. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] std::int64_t usage();
  [[nodiscard]] bool has_locks() const { return has_locks_; }
  /// When this object was made, as the file system tells time.
  [[nodiscard]] std::int64_t made_at() const { return made_at_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  class Usage;

  /// Locks the folder's usage against other changes. Nothing: errno says why.
  [[nodiscard]] std::optional<Usage> change();
  /// The same, or an Error.
  [[nodiscard]] Usage change_or_throw();
  [[nodiscard]] bool make_room(Usage& usage, std::int64_t bytes);
  /// Removes what no living process writes, counts anew. Returns what stays, and what was removed.
  std::pair<CacheContents, std::vector<std::int64_t>> clean(Usage& usage);
  bool remove(Usage& usage, const Descriptor& data_set, const std::string& name, const FileStatus& then);
  bool remove_if_left_over(const Descriptor& data_set, const CacheFile& file) const;

  std::string path_;
  Descriptor folder_;  // locked by all objects that work with it, together
  Options options_{};
  std::int64_t made_at_ = 0;
  std::mutex mutex_;  // of changes, where the file system has no locks
  std::atomic<bool> has_locks_{true};
  std::atomic<bool> impatient_{false};                  // somebody keeps the usage locked
  std::vector<CacheFile> oldest_;                       // what may be evicted, the least recently used last
  std::chrono::steady_clock::time_point full_until_{};  // there was nothing to evict: no need to look again before
};

}  // namespace weir::datacache
