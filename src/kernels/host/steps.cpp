// steps.cpp: the steps of optimizers. They stream through memory, with as many operations per element as fit beside its loads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/steps.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cmath>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"
#include "kernels/host/partial_sums-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

template <class T>
double squared_norm(const T* x, std::int64_t count) {
  const Narrow<T> d;
  const Wide dw;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(dw));
  PartialSums squares;
  std::int64_t i = 0;
  const auto square = [&](std::int64_t at) HWY_ATTR {
    const auto wide = widen(hn::LoadU(d, x + at));
    return hn::Mul(wide, wide);
  };
  // As many vectors as four registers hold. The remaining partial sums need another walk.
  const std::int64_t whole = count / partials * partials;
  for (std::int64_t first = 0; first < partials; first += 4 * lanes) {
    double* const s = squares.of + first;
    auto sum_0 = hn::LoadU(dw, s), sum_1 = hn::LoadU(dw, s + lanes), sum_2 = hn::LoadU(dw, s + 2 * lanes),
         sum_3 = hn::LoadU(dw, s + 3 * lanes);
    for (i = first; i < whole; i += partials) {
      sum_0 = hn::Add(sum_0, square(i));
      sum_1 = hn::Add(sum_1, square(i + lanes));
      sum_2 = hn::Add(sum_2, square(i + 2 * lanes));
      sum_3 = hn::Add(sum_3, square(i + 3 * lanes));
    }
    hn::StoreU(sum_0, dw, s), hn::StoreU(sum_1, dw, s + lanes), hn::StoreU(sum_2, dw, s + 2 * lanes),
        hn::StoreU(sum_3, dw, s + 3 * lanes);
  }
  for (i = whole; i < count; ++i) squares.add(i, static_cast<double>(x[i]) * static_cast<double>(x[i]));
  return squares.total();
}

template <class T>
void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto rates = hn::Set(d, rate), decays = hn::Set(d, decay), momenta = hn::Set(d, momentum);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto w = hn::LoadU(d, weights + i);
    const auto g = hn::Add(hn::LoadU(d, gradient + i), hn::Mul(decays, w));
    const auto v = hn::Add(hn::Mul(momenta, hn::LoadU(d, velocity + i)), hn::Mul(rates, g));
    hn::StoreU(v, d, velocity + i);
    hn::StoreU(hn::Sub(w, v), d, weights + i);
  }
  for (; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + rate * (gradient[i] + decay * weights[i]);
    weights[i] -= velocity[i];
  }
}

/// Returns the direction of entry i, or of a vector of entries, from its moments.
template <class D, class V, class T>
HWY_INLINE V direction(D d, V first, V second, V weights, const AdamFactors<T>& f) {
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(second), hn::Set(d, f.second_correction)), hn::Set(d, f.epsilon));
  return hn::Add(hn::Div(hn::Div(first, hn::Set(d, f.first_correction)), denominator), hn::Mul(hn::Set(d, f.decay), weights));
}
template <class T>
T direction(T first, T second, T weight, const AdamFactors<T>& f) {
  return first / f.first_correction / (std::sqrt(second) / f.second_correction + f.epsilon) + f.decay * weight;
}

/// One pass: adds the gradient to the moments, and sums norms.
template <class T>
struct AdamMoments {
  /// Uses as many lanes as Wide, or twice as many: divisions and roots take most of the time.
  using Lanes = hn::CappedTag<T, 32 / sizeof(T)>;

  const T* gradient;
  const T* weights;
  T* first;
  T* second;
  const AdamFactors<T>& f;

  void one(std::int64_t i, PartialSums& of_weights, PartialSums& of_directions) const {
    const T g = gradient[i];
    first[i] = f.beta1 * first[i] + (1 - f.beta1) * g;
    second[i] = f.beta2 * second[i] + (1 - f.beta2) * g * g;
    const auto w = static_cast<double>(weights[i]), u = static_cast<double>(direction(first[i], second[i], weights[i], f));
    of_weights.add(i, w * w);
    of_directions.add(i, u * u);
  }
  /// Handles entries [i, i + lanes of Lanes). Adds to partial sums from i % partials on.
  HWY_INLINE void vector(std::int64_t i, PartialSums& of_weights, PartialSums& of_directions) const {
    const Lanes d;
    const auto g = hn::LoadU(d, gradient + i), w = hn::LoadU(d, weights + i);
    const auto m = hn::Add(hn::Mul(hn::Set(d, f.beta1), hn::LoadU(d, first + i)), hn::Mul(hn::Set(d, 1 - f.beta1), g));
    const auto v = hn::Add(hn::Mul(hn::Set(d, f.beta2), hn::LoadU(d, second + i)), hn::Mul(hn::Mul(hn::Set(d, 1 - f.beta2), g), g));
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
    HWY_ALIGN T directions[hn::MaxLanes(d)];
    hn::Store(direction(d, m, v, w, f), d, directions);
    add_squares(weights + i, of_weights.of + i % partials);
    add_squares(directions, of_directions.of + i % partials);
  }
  HWY_INLINE static void add_squares(const T* x, double* sums) {
    const Wide dw;
    for (std::size_t piece = 0; piece < hn::Lanes(Lanes()); piece += hn::Lanes(dw)) {
      const auto wide = widen(hn::LoadU(Narrow<T>(), x + piece));
      hn::StoreU(hn::Add(hn::LoadU(dw, sums + piece), hn::Mul(wide, wide)), dw, sums + piece);
    }
  }

  SquaredNorms run(std::int64_t count) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Lanes()));
    PartialSums of_weights, of_directions;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) vector(i, of_weights, of_directions);
    for (; i < count; ++i) one(i, of_weights, of_directions);
    return {of_weights.total(), of_directions.total()};
  }
};

template <class T>
SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,
                          const AdamFactors<T>& factors) {
  return AdamMoments<T>{gradient, weights, first, second, factors}.run(count);
}

template <class T>
void adam_step(const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto rates = hn::Set(d, rate);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto w = hn::LoadU(d, weights + i);
    const auto u = direction(d, hn::LoadU(d, first + i), hn::LoadU(d, second + i), w, factors);
    hn::StoreU(hn::Sub(w, hn::Mul(rates, u)), d, weights + i);
  }
  for (; i < count; ++i) weights[i] -= rate * direction(first[i], second[i], weights[i], factors);
}

StepKernels<float> float_kernels() { return {squared_norm<float>, momentum_step<float>, adam_moments<float>, adam_step<float>}; }
StepKernels<double> double_kernels() {
  return {squared_norm<double>, momentum_step<double>, adam_moments<double>, adam_step<double>};
}

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(StepKernels)

template <class T>
double squared_norm(const T* x, std::int64_t count) {
  return chosen<T>().squared_norm(x, count);
}
template <class T>
void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  chosen<T>().momentum_step(gradient, weights, velocity, count, rate, decay, momentum);
}
template <class T>
SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,
                          const AdamFactors<T>& factors) {
  return chosen<T>().adam_moments(gradient, weights, first, second, count, factors);
}
template <class T>
void adam_step(const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors) {
  chosen<T>().adam_step(first, second, weights, count, rate, factors);
}

#define WEIR_INSTANTIATE(T)                                                                            \
  template double squared_norm(const T*, std::int64_t);                                                \
  template void momentum_step(const T*, T*, T*, std::int64_t, T, T, T);                                \
  template SquaredNorms adam_moments(const T*, const T*, T*, T*, std::int64_t, const AdamFactors<T>&); \
  template void adam_step(const T*, const T*, T*, std::int64_t, T, const AdamFactors<T>&);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
