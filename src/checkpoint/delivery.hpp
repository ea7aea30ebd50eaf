// delivery.hpp: makes the state that a rank is restored to from a file.
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
  /// Outlines of all present ranks, as they were sent: without the values of fields.
  const std::vector<Outline>& outlines;
  /// True if ranks and nodes are the same as in the file. Each rank then restores its own state.
  bool same_layout = false;
  /// True if switch groups are the same, too. State along switches is restored as it was only if so.
  bool same_switches = false;

  std::int64_t bytes_read = 0;
};

/// Throws Error(WEIR_ERR_MISMATCH) naming the first subject that only one of the file and `outline` has.
void check_subjects(const Index& index, const Outline& outline, const std::string& file);
/// Returns what this rank restores `subject` of its outline from. Empty for an array of its own that no old rank had. Throws
/// Error(WEIR_ERR_FILE) if the file is damaged, and Error(WEIR_ERR_MISMATCH) if a field does not fit.
[[nodiscard]] SavedState deliver(Source& source, const Subject& subject);

}  // namespace weir::checkpoint
