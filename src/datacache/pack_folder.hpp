// pack_folder.hpp: level 1: packs of samples, as the store has them, in a folder of the node's own storage.
//
//   FOLDER/usage                bytes of all packs in FOLDER; whoever changes them locks it
//   FOLDER/NAME/manifest.json   what data set these are packs of
//   FOLDER/NAME/pack-NUMBER     whole: it has got its name last
//   FOLDER/NAME/.pack-NUMBER    being written by whoever has locked it, or left by a process that has ended meanwhile
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weir::datacache {

/// Samples as read from the store: one after the other.
struct Samples {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> sizes;
};

struct DataSet {
  std::string name, identity;
  std::int64_t samples = 0, pack_samples = 0;
};

struct FolderCounts {
  std::atomic<std::int64_t> damaged{0};     ///< samples and packs whose checksum was wrong
  std::atomic<std::int64_t> bytes_read{0};  ///< of samples
};

/// One data set's packs. Any number of processes may use a folder at the same time. Thread-safe.
class PackFolder {
 public:
  /// Makes the folders where their parent is there. `limit` of the whole of `folder`, all data sets together; 0: none. Throws
  /// Error(WEIR_ERR_FILE) naming the folder and the reason, and Error(WEIR_ERR_MISMATCH) where `set.name` is there with another
  /// identity.
  PackFolder(std::string folder, std::int64_t limit, DataSet set);

  /// The bytes of one sample, under their checksum. False where its pack is not there; and where it is damaged: the pack is gone
  /// then, and counted.
  [[nodiscard]] bool read(std::int64_t sample, std::vector<std::byte>& encoded);
  /// All samples of a pack that read() has not found. One process at a time calls fetch(), which reads them from the store; whoever
  /// waited for it finds them here. What cannot be written, because the disk is full say, is returned all the same, and the log
  /// says so once.
  [[nodiscard]] Samples obtain(std::int64_t pack, const std::function<Samples()>& fetch);

  [[nodiscard]] const FolderCounts& counts() const { return counts_; }

 private:
  std::string folder_, path_;
  std::int64_t limit_;
  DataSet set_;
  FolderCounts counts_;
};

}  // namespace weir::datacache
