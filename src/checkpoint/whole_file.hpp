// whole_file.hpp: reads and checks complete checkpoint files in one process.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// Returns the file's index after checking its seal. Does not read chunks. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index read_whole(const std::string& path);
/// Reads and checks all chunks of `index`, the index of the file. Calls progressed(bytes read so far) from time to time. Throws
/// Error(WEIR_ERR_FILE) naming the first damaged chunk.
void verify_chunks(const std::string& path, const Index& index, const std::function<void(std::int64_t)>& progressed);

/// Seals a file that another program has copied or repacked, after comparing each chunk with its saved checksum. Returns the index.
/// Does not verify the structure: attributes and small values are sealed as they are now. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Index reseal(const std::string& path);

}  // namespace weir::checkpoint
