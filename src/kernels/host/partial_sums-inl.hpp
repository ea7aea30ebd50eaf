// partial_sums-inl.hpp: sums in double, in the order that kernels.hpp promises. Per instruction set.
#if defined(WEIR_KERNELS_HOST_PARTIAL_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_HOST_PARTIAL_SUMS_INL
#undef WEIR_KERNELS_HOST_PARTIAL_SUMS_INL
#else
#define WEIR_KERNELS_HOST_PARTIAL_SUMS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t partials = 16;

using Wide = hn::CappedTag<double, 4>;
template <class T>
using Narrow = hn::Rebind<T, Wide>;

/// Entry i goes to partial sum i % partials.
struct PartialSums {
  HWY_ALIGN double of[partials] = {};

  void add(std::int64_t i, double value) { of[i % partials] += value; }
  double total() {
    for (std::int64_t distance = partials / 2; distance > 0; distance /= 2) {
      for (std::int64_t j = 0; j < distance; ++j) of[j] += of[j + distance];
    }
    return of[0];
  }
};

HWY_INLINE hn::Vec<Wide> widen(hn::Vec<Narrow<float>> x) { return hn::PromoteTo(Wide(), x); }
HWY_INLINE hn::Vec<Wide> widen(hn::Vec<Narrow<double>> x) { return x; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
