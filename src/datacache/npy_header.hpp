// npy_header.hpp: the header of a NumPy file: a Python dictionary. Pure.
#pragma once

#include <string_view>

#include "datacache/array_source.hpp"

namespace weir::datacache {

/// Parses the dictionary, e.g. "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }". Throws Error(WEIR_ERR_FILE),
/// whose text begins with `path`, if the header is damaged, or if the array does not hold plain numbers in C order.
[[nodiscard]] Shape parse_npy_header(std::string_view header, const std::string& path);

}  // namespace weir::datacache
