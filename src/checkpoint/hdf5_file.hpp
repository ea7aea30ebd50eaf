// hdf5_file.hpp: writes and reads the structure of a checkpoint file, which is everything except the elements of arrays, with the
// HDF5 library. In a build without it, all functions throw Error(WEIR_ERR_UNSUPPORTED). One thread at a time may call them.
#pragma once

#include <string>

#include "checkpoint/layout.hpp"
#include "checkpoint/whole_file.hpp"

namespace weir::checkpoint {

/// Throws Error(WEIR_ERR_UNSUPPORTED) in a build without the library. hdf5_version() returns its version as text.
void require_hdf5();
[[nodiscard]] std::string hdf5_version();

/// Lays out groups, attributes, small values and room for chunks in memory, and sets the chunks' addresses in `index`. Checksums of
/// chunks must be known; with compression, their `bytes` too. Touches no file. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Structure lay_out(Index& index);

/// Reads what lay_out() has laid out from the file `path`. The caller has checked its seal, because the library trusts its input.
/// Throws Error(WEIR_ERR_FILE) if the file is not a checkpoint, or has a newer schema.
[[nodiscard]] Index read_structure(const std::string& path, const Structure& structure);

/// Finds the chunks of a file that another program has copied or repacked. The file's seal need not be valid. With `record`,
/// compares each chunk with its checksum, then writes their addresses to the file through the library, but not the seal. Throws
/// Error(WEIR_ERR_FILE), also if a chunk is not as it was saved. Some kinds of damage crash the library.
[[nodiscard]] Index find_chunks(const std::string& path, bool record);

}  // namespace weir::checkpoint
