// named_option.hpp: options whose values are enumerators' names.
#pragma once

#include "base/fields.hpp"
#include "cli/command.hpp"

namespace weir::cli {

template <class Enum>
Option add_named(Command& command, const std::string& option, Enum& value, const std::string& help) {
  return command.named(
      option, {names_of<Enum>.begin(), names_of<Enum>.end()}, static_cast<std::size_t>(value),
      [&value](std::size_t chosen) { value = static_cast<Enum>(chosen); }, help);
}

}  // namespace weir::cli
