// hdf5_library.hpp: names used in checkpoint files, and how the files are opened.
#pragma once

#include <array>

#include "base/hdf5.hpp"
#include "checkpoint/file_image.hpp"

namespace weir::checkpoint::hdf5 {

using weir::hdf5::check;
using weir::hdf5::Id;
using weir::hdf5::one_at_a_time;
using weir::hdf5::Quiet;

inline constexpr const char* schema_name = "weir_checkpoint_schema";
/// Indexed by Share.
inline constexpr std::array share_names = {"each", "agreed", "layout", "summed", "block", "cuts"};

/// Returns an access list for H5Fcreate and H5Fopen. Files need version 1.10 or later of the library.
[[nodiscard]] inline Id access_list(FileImage& image) {
  constexpr hsize_t alignment = 4096;
  Id access(image.access_list(), H5Pclose, "make a list");
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access, alignment, alignment);
  return access;
}

}  // namespace weir::checkpoint::hdf5
