// folder.hpp: the files of one run's checkpoints. Only one rank changes a folder.
//
//   checkpoint-STEP.h5      complete
//   .checkpoint-STEP.h5     being written, or left by an interrupted save
//   manifest.json           names the newest file, and the previous one, which is used until the newest has its name;
//                           made anew from the files if missing or damaged
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace weir::checkpoint {

/// Keeps all others from writing to a folder while this object and its process live. Locks nobody out if the file system has no
/// locks.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  /// True if another process, or another checkpoint of this process, holds the lock.
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  Descriptor folder_;
  bool refused_;
};

class Folder {
 public:
  explicit Folder(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file_of(std::int64_t step) const;
  [[nodiscard]] std::string unfinished_of(std::int64_t step) const;
  /// Returns the steps of complete files (by their names), ascending. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] std::vector<std::int64_t> steps() const;
  /// Returns the step that the manifest names, if that file exists, else the largest step.
  [[nodiscard]] std::optional<std::int64_t> newest() const;
  /// Returns the steps that a run may go back to: the newest, then all lower ones in descending order.
  [[nodiscard]] std::vector<std::int64_t> newest_first() const;
  /// Returns the step that the manifest names as the newest, if its file is missing.
  [[nodiscard]] std::optional<std::int64_t> lost() const;
  /// Returns the files that interrupted saves, or saves that are running, have left, sorted.
  [[nodiscard]] std::vector<std::string> left_overs() const;
  /// Makes the folder if its parent exists. Removes what interrupted saves have left, unless another run holds the folder. Throws
  /// Error(WEIR_ERR_FILE) naming the folder and the reason.
  void prepare() const;
  /// Renames the unfinished file of `step`, names it in the manifest, and removes files beyond the `keep` newest. All changes are
  /// on the disk on return. If interrupted at any point, the folder has at most `keep` + 1 files.
  void publish(std::int64_t step, std::int64_t keep) const;
  /// Removes the unfinished file of `step`, if there is one.
  void give_up(std::int64_t step) const noexcept;

 private:
  [[nodiscard]] std::vector<std::int64_t> manifest_steps() const;
  void write_manifest(std::int64_t step) const;
  /// Removes files of other steps until at most `most` of them are left.
  void limit_others(std::int64_t step, std::int64_t most) const;

  std::string path_;
};

}  // namespace weir::checkpoint
