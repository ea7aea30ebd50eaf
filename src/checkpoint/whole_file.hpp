// whole_file.hpp: checkpoint files as a whole, for one process.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// What the file holds, once its seal has been checked. Chunks are not read. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index read_whole(const std::string& path);
/// Reads and checks all chunks of `index`, which is that of the file; calls told(bytes read so far) now and then. Throws
/// Error(WEIR_ERR_FILE) naming the first that is damaged.
void verify_chunks(const std::string& path, const Index& index, const std::function<void(std::int64_t)>& told);

/// Seals a file that another program has copied or packed anew, once each of its chunks has been held against the checksum that it
/// was saved with, and returns what it holds. Nothing vouches for its structure: attributes and small values are sealed as they are
/// now. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index reseal(const std::string& path);

}  // namespace weir::checkpoint
