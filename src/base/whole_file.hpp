// whole_file.hpp: writes a file that is never half-written.
#pragma once

#include <string>
#include <string_view>

namespace weir {

/// Writes `text` to a file beside `path` and renames it, so that `path` has either its old or its new contents. Makes folders.
/// Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
void write_whole_file(const std::string& path, std::string_view text);

}  // namespace weir
