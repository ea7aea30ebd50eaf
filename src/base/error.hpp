// error.hpp: throwing weir::Error with a formatted text.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <weir/weir.hpp>

namespace weir {

template <class... Args>
[[noreturn]] void fail(weir_status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(status, fmt::format(text, std::forward<Args>(args)...));
}

/// An error that every rank throws in the same call, having agreed on it. The run is not broken, unless all ranks give it up.
class AgreedError : public Error {
 public:
  using Error::Error;
  explicit AgreedError(const Error& error, bool gives_up = false) : Error(error), gives_up_(gives_up) {}
  [[nodiscard]] bool gives_up() const noexcept { return gives_up_; }

 private:
  bool gives_up_ = false;
};

template <class... Args>
[[noreturn]] void fail_alike(weir_status status, fmt::format_string<Args...> text, Args&&... args) {
  throw AgreedError(status, fmt::format(text, std::forward<Args>(args)...));
}

/// Returns the status of what was thrown; WEIR_OK if it is null.
[[nodiscard]] inline weir_status status_of(const std::exception_ptr& error) noexcept {
  if (!error) return WEIR_OK;
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return ours.status();
  } catch (...) {
    return WEIR_ERR_INTERNAL;
  }
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(WEIR_ERR_ARGUMENT, text, std::forward<Args>(args)...);
}

}  // namespace weir
