// outcome.hpp: how one rank's part of a common step ended, as plain bytes for the other ranks.
#pragma once

#include <array>
#include <cstdint>
#include <new>

#include "base/error.hpp"

namespace weir::detail {

struct Outcome {
  std::int32_t status = WEIR_OK;
  std::array<char, 412> text{};  ///< of the error

  [[nodiscard]] bool failed() const noexcept { return status != WEIR_OK; }
  void set(weir_status error, std::string_view why) noexcept {
    status = error;
    text = {};
    why.copy(text.data(), text.size() - 1);
  }
  /// Sets the status and a formatted text. Allocates nothing.
  template <class... Args>
  void set_formatted(weir_status error, fmt::format_string<Args...> why, Args&&... args) noexcept {
    status = error;
    text = {};
    fmt::format_to_n(text.data(), text.size() - 1, why, std::forward<Args>(args)...);
  }
};

/// Calls attempt() and returns its outcome: what it threw, if anything. Throws nothing itself.
template <class Attempt>
[[nodiscard]] Outcome outcome_of(Attempt&& attempt) noexcept {
  Outcome outcome;
  try {
    attempt();
  } catch (const Error& error) {
    outcome.set(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    outcome.set(WEIR_ERR_MEMORY, "an allocation failed");
  } catch (const std::exception& error) {
    outcome.set(WEIR_ERR_INTERNAL, error.what());
  } catch (...) {
    outcome.set(WEIR_ERR_INTERNAL, "an exception of an unknown type");
  }
  return outcome;
}

}  // namespace weir::detail
