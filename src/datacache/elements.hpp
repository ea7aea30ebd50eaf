// elements.hpp: element types of numbers in files. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weir::datacache {

enum class Number { boolean, integer, natural, real, complex };

struct Element {
  Number number = Number::natural;
  int bytes = 1;
  bool swapped = false;  ///< true if the file's byte order differs from this machine's

  /// Returns NumPy's name: "uint8", "float32", "complex64", ...
  [[nodiscard]] std::string name() const;
};

/// Converts elements to this machine's byte order.
void make_native(const Element& element, std::span<std::byte> elements);

/// Returns the integer at `value`, which is in the file's byte order. Throws Error(WEIR_ERR_FILE) if it does not fit into
/// std::int32_t.
[[nodiscard]] std::int32_t label_at(const Element& element, const std::byte* value);

}  // namespace weir::datacache
