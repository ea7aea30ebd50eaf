// other_floating_point.hpp: changes the floating-point environment of a caller's thread, as another library may have done.
#pragma once

#include <cfenv>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace weir::test {

/// Makes this thread treat subnormal numbers as zero, if the processor can.
inline void flush_subnormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zeros
#endif
}

/// While it lives, and if `on`, this thread rounds upward and treats subnormal numbers as zero.
class OtherFloatingPoint {
 public:
  explicit OtherFloatingPoint(bool on) {
    std::fegetenv(&before_);
    if (!on) return;
    flush_subnormals();
    std::fesetround(FE_UPWARD);
  }
  ~OtherFloatingPoint() { std::fesetenv(&before_); }
  OtherFloatingPoint(const OtherFloatingPoint&) = delete;
  OtherFloatingPoint& operator=(const OtherFloatingPoint&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace weir::test
