// scheme.hpp: the schemes of exchanging gradients that the program compares.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace language_model {

struct Scheme {
  std::string_view name;
  std::string_view exchange;  ///< for both tables; see weir::exchanges()
  /// True for 2D scheduling (EmbRace section 4.2): prefetch the next batch, send first what the next forward pass needs first, and
  /// wait only at the first use. If false, wait for everything before the next step.
  bool scheduled;
  std::string_view description;
};

[[nodiscard]] std::span<const Scheme> schemes();
/// Returns the scheme of this name. Throws std::runtime_error that lists the known names.
[[nodiscard]] const Scheme& find_scheme(std::string_view name);
/// Returns "embrace, embrace_no_schedule, ...".
[[nodiscard]] std::string scheme_names();

}  // namespace language_model
