// npy_header.hpp: the header of a NumPy file: a Python dictionary. Pure.
#pragma once

#include <string_view>

#include "datacache/array_source.hpp"

namespace weir::datacache {

/// What the dictionary says, e.g. "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }". Throws
/// Error(WEIR_ERR_FILE), which begins with `path`, for one that is damaged, and for arrays that are not plain numbers in the order
/// of C.
[[nodiscard]] Shape parse_npy_header(std::string_view header, const std::string& path);

}  // namespace weir::datacache
