// folder.hpp: the files of one run's checkpoints. One rank changes a folder.
//
//   checkpoint-STEP.h5      whole
//   .checkpoint-STEP.h5     being written, or left by an interrupted save
//   manifest.json           names the newest, or, while that is about to get its name, the one before; made anew from the files
//                           where it is missing or damaged
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::checkpoint {

/// That nobody else writes into a folder, as long as this lives and the process does. Where the file system has no locks, nobody is
/// held off.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();
  /// Another process, or another checkpoint of this one, has it.
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  int descriptor_;
  bool refused_ = false;
};

class Folder {
 public:
  explicit Folder(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file_of(std::int64_t step) const;
  [[nodiscard]] std::string unfinished_of(std::int64_t step) const;
  /// Steps of files that are whole by their names, ascending. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] std::vector<std::int64_t> steps() const;
  /// What the manifest names, if it is there, else the largest.
  [[nodiscard]] std::optional<std::int64_t> newest() const;
  /// The newest, then those of lower steps, the largest first: what a run may go back to.
  [[nodiscard]] std::vector<std::int64_t> newest_first() const;
  /// What the manifest names as the newest, and is not there.
  [[nodiscard]] std::optional<std::int64_t> lost() const;
  /// Makes the folder where its parent is there, and removes what interrupted saves have left, unless another run holds it. Throws
  /// Error(WEIR_ERR_FILE) naming the folder and the reason.
  void prepare() const;
  /// The unfinished file of `step` gets its name, and the manifest names it; files beyond the `keep` newest go. All of it for good.
  /// Wherever it is stopped, at most one more than `keep` is there.
  void publish(std::int64_t step, std::int64_t keep) const;
  /// Removes the unfinished file of `step`, if there is one.
  void give_up(std::int64_t step) const noexcept;

 private:
  [[nodiscard]] std::vector<std::int64_t> manifest_steps() const;
  void write_manifest(std::int64_t step) const;
  /// Removes files of other steps until at most `most` of these files are left.
  void limit_others(std::int64_t step, std::int64_t most) const;

  std::string path_;
};

}  // namespace weir::checkpoint
