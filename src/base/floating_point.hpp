// floating_point.hpp: the floating-point environment that results depend on.
#pragma once

#if !defined(__SSE__)
#include <cfenv>
#endif

namespace weir {

/// Sets IEEE 754's defaults for this thread while it lives: rounding to nearest, and subnormal numbers. The caller may have set
/// others. So may a library that was compiled with -ffast-math, which flushes subnormals to zero. Ranks would then get different
/// bits. The destructor restores the caller's environment.
class StandardFloatingPoint {
 public:
#if defined(__SSE__)
  StandardFloatingPoint() noexcept : before_(__builtin_ia32_stmxcsr()) {
    if ((before_ & changes_results) != 0) __builtin_ia32_ldmxcsr(before_ & ~changes_results);
  }
  ~StandardFloatingPoint() {
    if ((before_ & changes_results) != 0) __builtin_ia32_ldmxcsr(before_);
  }
#else
  StandardFloatingPoint() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~StandardFloatingPoint() { std::fesetenv(&before_); }
#endif
  StandardFloatingPoint(const StandardFloatingPoint&) = delete;
  StandardFloatingPoint& operator=(const StandardFloatingPoint&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned changes_results = 0xe040;  // flush to zero, rounding, denormals are zeros
  unsigned before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace weir
