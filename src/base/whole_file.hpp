// whole_file.hpp: writes a file that is whole at any moment.
#pragma once

#include <string>
#include <string_view>

namespace weir {

/// Writes `text` to `path`, by way of a file beside it, so that the file is whole or as it was. Folders are made. Throws
/// Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
void write_whole_file(const std::string& path, std::string_view text);

}  // namespace weir
