// delivery.hpp: from a file to the state that a rank is restored to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/state.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// What one rank restores from.
struct Source {
  const File& file;
  const Index& index;
  std::size_t rank = 0;
  /// Outlines of all present ranks, as they travel: without the fields' values.
  const std::vector<Outline>& outlines;
  /// Ranks and nodes are as they were: everybody goes on with their own.
  bool same_layout = false;
  /// Switch groups, too: what goes along them goes on only with its own groups.
  bool same_switches = false;

  std::int64_t bytes_read = 0;
};

/// Throws Error(WEIR_ERR_MISMATCH) naming the first of the file's subjects that `outline` lacks, or that the file lacks.
void check_subjects(const Index& index, const Outline& outline, const std::string& file);
/// What this rank restores the subject number `subject` of its outline from. Empty for an array of its own that no old rank had.
/// Throws Error(WEIR_ERR_FILE) where the file is damaged, Error(WEIR_ERR_MISMATCH) where it has no such subject, or another one.
[[nodiscard]] SavedState deliver(Source& source, const OutlinedSubject& subject);

}  // namespace weir::checkpoint
