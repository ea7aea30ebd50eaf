// kernel_sets.hpp: the kernels of each memory space as members, so that one test runs on several: on `reference` and `host`, or,
// with WEIR_TEST_CUDA_KERNELS, on those for CUDA memory.
#pragma once

#include "kernels/kernels.hpp"
#ifdef WEIR_TEST_CUDA_KERNELS
#include "support/cuda_kernel_set.hpp"
#endif

namespace weir::test {

#define WEIR_KERNEL_SET(NAME, SPACE)                                                       \
  template <class V>                                                                       \
  struct NAME {                                                                            \
    using T = V;                                                                           \
    static constexpr bool on_host = true;                                                  \
    static constexpr auto compensate_select = &weir::kernels::SPACE::compensate_select<V>; \
    static constexpr auto select = &weir::kernels::SPACE::select<V>;                       \
    static constexpr auto kth_key = &weir::kernels::SPACE::kth_key<V>;                     \
    static constexpr auto histogram = &weir::kernels::SPACE::histogram<V>;                 \
    static constexpr auto values_within = &weir::kernels::SPACE::values_within<V>;         \
    static constexpr auto moments = &weir::kernels::SPACE::moments<V>;                     \
    static constexpr auto exceedances = &weir::kernels::SPACE::exceedances<V>;             \
    static constexpr auto add = &weir::kernels::SPACE::add<V>;                             \
    static constexpr auto scale = &weir::kernels::SPACE::scale<V>;                         \
    static constexpr auto rescale = &weir::kernels::SPACE::rescale<V>;                     \
    static constexpr auto divide = &weir::kernels::SPACE::divide<V>;                       \
    static constexpr auto waxpby = &weir::kernels::SPACE::waxpby<V>;                       \
    static constexpr auto clear_taken = &weir::kernels::SPACE::clear_taken<V>;             \
    static constexpr auto reproducible_sum = &weir::kernels::SPACE::reproducible_sum<V>;   \
    static constexpr auto add_to_total = &weir::kernels::SPACE::add_to_total<V>;           \
    static constexpr auto count_non_finite = &weir::kernels::SPACE::count_non_finite<V>;   \
    static constexpr auto fill_zero = &weir::kernels::SPACE::fill_zero<V>;                 \
    static constexpr auto merge_add = &weir::kernels::SPACE::merge_add<V>;                 \
    static constexpr auto settle = &weir::kernels::SPACE::settle<V>;                       \
    static constexpr auto scatter = &weir::kernels::SPACE::scatter<V>;                     \
    static constexpr auto densify = &weir::kernels::SPACE::densify<V>;                     \
    static constexpr auto scatter_add = &weir::kernels::SPACE::scatter_add<V>;             \
    static constexpr auto sample = &weir::kernels::SPACE::sample<V>;                       \
    static constexpr auto count_cut = &weir::kernels::SPACE::count_cut<V>;                 \
    static constexpr auto select_band = &weir::kernels::SPACE::select_band<V>;             \
    static constexpr auto count_regions = &weir::kernels::SPACE::count_regions;            \
    static constexpr auto quantiles = &weir::kernels::SPACE::quantiles;                    \
    static constexpr auto shift_indices = &weir::kernels::SPACE::shift_indices;            \
    static constexpr auto roll_back = &weir::kernels::SPACE::roll_back<V>;                 \
    static constexpr auto gather_rows = &weir::kernels::SPACE::gather_rows<V>;             \
    static constexpr auto coalesce_rows = &weir::kernels::SPACE::coalesce_rows<V>;         \
    static constexpr auto squared_norm = &weir::kernels::SPACE::squared_norm<V>;           \
    static constexpr auto momentum_step = &weir::kernels::SPACE::momentum_step<V>;         \
    static constexpr auto adam_moments = &weir::kernels::SPACE::adam_moments<V>;           \
    static constexpr auto adam_step = &weir::kernels::SPACE::adam_step<V>;                 \
  };
WEIR_KERNEL_SET(Host, host)
WEIR_KERNEL_SET(Reference, reference)
#undef WEIR_KERNEL_SET

}  // namespace weir::test

// Kernels that CUDA memory lacks.
#define WEIR_HOST_KERNELS \
  weir::test::Reference<float>, weir::test::Reference<double>, weir::test::Host<float>, weir::test::Host<double>
// One type of values is enough for kernels of indices alone.
#ifdef WEIR_TEST_CUDA_KERNELS
#define WEIR_ALL_KERNELS weir::test::Cuda<float>, weir::test::Cuda<double>
#define WEIR_ALL_INDEX_KERNELS weir::test::Cuda<float>
#else
#define WEIR_ALL_INDEX_KERNELS weir::test::Reference<float>, weir::test::Host<float>
#define WEIR_ALL_KERNELS WEIR_HOST_KERNELS
#endif
