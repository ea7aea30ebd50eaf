// pack_folder.hpp: level 1: one data set's packs of samples, as the store has them, in a folder of the node's own storage
// (cache_folder.hpp) that any number of processes and data sets share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "datacache/cache_folder.hpp"
#include "datacache/manifest.hpp"
#include "datacache/pack_file.hpp"

namespace weir::datacache {

struct FolderCounts {
  std::atomic<std::int64_t> damaged{0};     ///< samples and packs whose checksum was wrong
  std::atomic<std::int64_t> bytes_read{0};  ///< of samples
};

/// Thread-safe: threads and processes may ask for different packs and for the same.
class PackFolder {
 public:
  /// Makes the folders where their parent is there. `limit` of the whole of `folder`, all data sets together; 0: none. Waits for
  /// other processes no longer than `patience`. Throws Error(WEIR_ERR_FILE) naming the folder and the reason,
  /// Error(WEIR_ERR_MISMATCH) where `set.name` is there with another identity, and Error(WEIR_ERR_ARGUMENT) for a name that is
  /// none.
  PackFolder(const std::string& folder, std::int64_t limit, DataSet set, LogLevel log = LogLevel::warn,
             std::chrono::milliseconds patience = std::chrono::seconds(30));

  /// Packs [first, end) are those that this process will read again and again: those of them that are there count as used now, so
  /// that they are not evicted to make room for others of them.
  void claim(std::int64_t first, std::int64_t end);
  /// The bytes of one sample, under their checksum. False where its pack is not there; and where it is damaged: the pack is gone
  /// then, and counted.
  [[nodiscard]] bool read(std::int64_t sample, std::vector<std::byte>& encoded);
  /// Returns all samples of a pack that read() has not found. One process at a time calls fetch(), which reads them from the store.
  /// A process that has waited for it finds them here. Samples that do not fit under the limit, or cannot be written (because the
  /// disk is full, say), are returned all the same, and the log says so once. Throws what fetch() throws.
  [[nodiscard]] Samples obtain(std::int64_t pack, const std::function<Samples()>& fetch);
  /// False for ten seconds after a pack could not be kept: a caller that needs one sample need not read its whole pack for the
  /// others.
  [[nodiscard]] bool keeps() const;

  [[nodiscard]] const FolderCounts& counts() const { return counts_; }
  [[nodiscard]] CacheFolder& folder() { return folder_; }

 private:
  struct Unfinished {
    Descriptor file;
    std::string name;
  };
  [[nodiscard]] PackKey key_of(std::int64_t pack) const { return {fingerprint_, pack, set_.samples_of(pack)}; }
  /// Calls read(file), which says whether what it has read was as it was written. False where it was not, or is not there.
  template <class Read>
  [[nodiscard]] bool read_pack(std::int64_t pack, Read&& read);
  /// The file that `pack` is written to, locked. Nothing where it cannot be kept.
  [[nodiscard]] std::optional<Unfinished> begin(std::int64_t pack);
  void keep(std::int64_t pack, const Unfinished& unfinished, const Samples& samples);
  /// With errno where the reason is not that there is no room.
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
