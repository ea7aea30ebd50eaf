// The ways to exchange gradients that are compared.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace language_model {

struct Scheme {
  std::string_view name;
  std::string_view exchange;  ///< of both tables, see weir::exchanges()
  /// 2D scheduling (EmbRace section 4.2): the next batch is prefetched, what the next forward pass needs first travels first, and
  /// is waited for where it is needed. Else everything is waited for before the next step.
  bool scheduled;
  std::string_view description;
};

[[nodiscard]] std::span<const Scheme> schemes();
/// Throws std::runtime_error listing the known names.
[[nodiscard]] const Scheme& find_scheme(std::string_view name);
/// "embrace, embrace_no_schedule, ..."
[[nodiscard]] std::string scheme_names();

}  // namespace language_model
