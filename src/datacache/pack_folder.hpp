// pack_folder.hpp: level 1: one data set's packs of samples, in the store's encoding. They are in a folder of the node's own
// storage (cache_folder.hpp) that any number of processes and data sets share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "datacache/cache_folder.hpp"
#include "datacache/pack_file.hpp"

namespace weir::datacache {

struct FolderCounts {
  std::atomic<std::int64_t> damaged{0};     ///< samples and packs with a wrong checksum
  std::atomic<std::int64_t> bytes_read{0};  ///< of samples
};

/// Thread-safe: threads and processes may request different packs, or the same one.
class PackFolder {
 public:
  /// Makes the folders if the parent exists. `limit` is for the whole of `folder`, with all data sets; 0: no limit. Waits for other
  /// processes at most `patience`. Throws Error(WEIR_ERR_FILE) naming the folder and the reason, Error(WEIR_ERR_MISMATCH) if
  /// `set.name` exists with another identity, and Error(WEIR_ERR_ARGUMENT) if it is not a valid name.
  PackFolder(const std::string& folder, std::int64_t limit, DataSet set, LogLevel log = LogLevel::warn,
             std::chrono::milliseconds patience = std::chrono::seconds(30));

  /// States that this process will read packs [first, end) again and again. Those that exist count as used now, so that they are
  /// not evicted to make room for others of them.
  void claim(std::int64_t first, std::int64_t end);
  /// Reads the bytes of one sample and verifies their checksum. Returns false if its pack is missing or damaged. A damaged pack is
  /// removed and counted.
  [[nodiscard]] bool read(std::int64_t sample, std::vector<std::byte>& encoded);
  /// Returns all samples of a pack that read() has not found. One process at a time calls fetch(), which reads them from the store.
  /// A process that has waited for it finds them here. Samples that exceed the limit, or cannot be written (for example because the
  /// disk is full), are returned all the same, and the log reports it once. Throws what fetch() throws.
  [[nodiscard]] Samples obtain(std::int64_t pack, const std::function<Samples()>& fetch);
  /// Returns false for ten seconds after a pack could not be kept. Meanwhile, a caller that needs one sample need not read the rest
  /// of its pack.
  [[nodiscard]] bool keeps() const;

  [[nodiscard]] const FolderCounts& counts() const { return counts_; }
  [[nodiscard]] CacheFolder& folder() { return folder_; }

 private:
  struct Unfinished {
    Descriptor file;
    std::string name;
  };
  [[nodiscard]] PackKey key_of(std::int64_t pack) const { return {fingerprint_, pack, set_.samples_of(pack)}; }
  /// Calls read(file), which returns whether what it has read is intact. Returns false if it is not, or if the pack is missing.
  template <class Read>
  [[nodiscard]] bool read_pack(std::int64_t pack, Read&& read);
  /// Returns the file that `pack` is written to, locked. Returns nothing if the pack cannot be kept.
  [[nodiscard]] std::optional<Unfinished> begin(std::int64_t pack);
  void keep(std::int64_t pack, const Unfinished& unfinished, const Samples& samples);
  /// Logs why a pack was not kept. errno has the reason unless there is no room.
  void not_kept(Reserved reserved);
  void check(std::int64_t pack, const Samples& samples) const;

  CacheFolder folder_;
  DataSet set_;
  std::uint64_t fingerprint_;
  Descriptor set_folder_;
  FolderCounts counts_;
  std::atomic<bool> said_not_kept_{false}, said_full_{false}, said_damaged_{false};
  std::atomic<std::chrono::steady_clock::time_point> keeps_from_{std::chrono::steady_clock::time_point::min()};
};

}  // namespace weir::datacache
