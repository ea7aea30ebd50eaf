// elements.hpp: types of the numbers in files. Pure.
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
  bool swapped = false;  ///< the file's byte order is not this machine's

  /// As NumPy has it: "uint8", "float32", "complex64", ...
  [[nodiscard]] std::string name() const;
};

/// Puts elements into this machine's byte order.
void make_native(const Element& element, std::span<std::byte> elements);

/// The integer at `value`, in the file's byte order. Throws Error(WEIR_ERR_FILE) where std::int32_t cannot hold it.
[[nodiscard]] std::int32_t label_at(const Element& element, const std::byte* value);

}  // namespace weir::datacache
