// dispatch.hpp: the kernels of one instruction set, as tables of pointers. Highway's run-time dispatch exports plain functions, so
// each source file exports one function per value type that returns its table.
#pragma once

#include "kernels/kernels.hpp"

namespace weir::kernels::host {

template <class T>
struct ArithmeticKernels {
  decltype(&host::add<T>) add;
  decltype(&host::scale<T>) scale;
  decltype(&host::rescale<T>) rescale;
  decltype(&host::divide<T>) divide;
  decltype(&host::waxpby<T>) waxpby;
  decltype(&host::count_non_finite<T>) count_non_finite;
  decltype(&host::count_cut<T>) count_cut;
  decltype(&host::fill_zero<T>) fill_zero;
  decltype(&host::densify<T>) densify;
};

template <class T>
struct SelectKernels {
  decltype(&host::compensate_select<T>) compensate_select;
  decltype(&host::select<T>) select;
  decltype(&host::select_band<T>) select_band;
};

template <class T>
struct RankKernels {
  decltype(&host::kth_key<T>) kth_key;
  decltype(&host::histogram<T>) histogram;
  decltype(&host::values_within<T>) values_within;
};

template <class T>
struct MomentsKernels {
  decltype(&host::moments<T>) moments;
  decltype(&host::exceedances<T>) exceedances;
};

template <class T>
struct MergeKernels {
  decltype(&host::merge_add<T>) merge_add;
};

template <class T>
struct ReproducibleKernels {
  decltype(&host::reproducible_sum<T>) reproducible_sum;
  decltype(&host::add_to_total<T>) add_to_total;
};

template <class T>
struct RowKernels {
  decltype(&host::gather_rows<T>) gather_rows;
  decltype(&host::coalesce_rows<T>) coalesce_rows;
};

template <class T>
struct StepKernels {
  decltype(&host::squared_norm<T>) squared_norm;
  decltype(&host::momentum_step<T>) momentum_step;
  decltype(&host::adam_moments<T>) adam_moments;
  decltype(&host::adam_step<T>) adam_step;
};

/// Follows a source file's tables, float_kernels() and double_kernels() of each instruction set. Defines chosen<T>(), which returns
/// the table for this processor.
#define WEIR_CHOOSE_KERNELS(Kernels)                   \
  namespace {                                          \
  HWY_EXPORT(float_kernels);                           \
  HWY_EXPORT(double_kernels);                          \
  template <class T>                                   \
  const Kernels<T>& chosen() {                         \
    static const Kernels<T> kernels = [] {             \
      if constexpr (sizeof(T) == 4) {                  \
        return HWY_DYNAMIC_DISPATCH(float_kernels)();  \
      } else {                                         \
        return HWY_DYNAMIC_DISPATCH(double_kernels)(); \
      }                                                \
    }();                                               \
    return kernels;                                    \
  }                                                    \
  }

}  // namespace weir::kernels::host
