// other_floating_point.hpp: what another library may have done to the floating-point environment of a caller's thread.
#pragma once

#include <cfenv>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace weir::test {

/// This thread takes subnormal numbers for zero, where the processor can.
inline void flush_subnormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zeros
#endif
}

/// While it lives, and if it is `on`, this thread rounds upward and takes subnormal numbers for zero.
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
