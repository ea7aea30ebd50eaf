// hdf5_file.hpp: the structure of a checkpoint file, by the HDF5 library: everything but the elements of arrays. Without it, all
// throw Error(WEIR_ERR_UNSUPPORTED). For one thread at a time.
#pragma once

#include <string>

#include "checkpoint/layout.hpp"
#include "checkpoint/seal.hpp"

namespace weir::checkpoint {

/// Whether this build has the library, and the library's version as text.
[[nodiscard]] bool has_hdf5();
[[nodiscard]] std::string hdf5_version();

/// Groups, attributes, small values, and room for chunks, whose addresses it puts into `index`; with compression their `bytes` must
/// be known. Chunks' checksums are known. In memory: no file is touched. Throws Error(WEIR_ERR_FILE).
[[nodiscard]] Structure lay_out(Index& index);

/// What lay_out has laid out, from the file `path`, whose seal has been checked: the library trusts what it reads. Throws
/// Error(WEIR_ERR_FILE) where it is no checkpoint, or of a newer schema.
[[nodiscard]] Index read_structure(const std::string& path, const Structure& structure);

/// What find_chunks_anew() lets the library read before chunks, and nothing else: the file stays as it is, and its seal need not
/// fit. Throws Error(WEIR_ERR_FILE); some damage crashes the library.
[[nodiscard]] Index find_chunks(const std::string& path);

/// A file that another program has copied or packed anew: where its chunks are now, once each has been held against its checksum,
/// goes into the file, by the library itself. Not its seal. Throws Error(WEIR_ERR_FILE) where a chunk is not as it was saved.
[[nodiscard]] Index find_chunks_anew(const std::string& path);

}  // namespace weir::checkpoint
