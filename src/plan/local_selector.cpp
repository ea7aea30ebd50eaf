#include "plan/local_selector.hpp"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

constexpr std::int64_t sample_size = 32768;
constexpr std::int64_t spare_candidates = 4096;
template <class T>
constexpr Key<T> octave = Key<T>{1} << (sizeof(T) == 4 ? 23 : 52);  // how far keys of x and 2 x lie apart
constexpr double first_margin = 0.1, least_margin = 0.01, most_margin = 1;

}  // namespace

template <class T>
LocalSelector<T>::LocalSelector(const Setup& setup)
    : setup_(setup),
      capacity_(std::min(setup.count, 2 * setup.largest_k + spare_candidates)),
      indices_(capacity_ + select_padding),
      values_(capacity_ + select_padding),
      sample_(std::min(setup.count, sample_size)) {
  reset();
}

template <class T>
void LocalSelector<T>::reset() {
  count_ = 0;
  keep_old_ = 0;
  rethresholded_ = false;
  iteration_ = 0;
  threshold_ = 0;
  margin_ = first_margin;
}

template <class T>
bool LocalSelector<T>::select(const T* gradient, T* residual, std::int64_t k, bool refuse_non_finite) {
  const bool reuse = setup_.threshold == Threshold::reuse && threshold_ != 0 && iteration_ % setup_.period != 0;
  ++iteration_;

  Key<T> threshold = threshold_;
  if (k == 0) {
    threshold = key_infinity<T>;  // the pass is still needed, for the residual and for what is not finite
  } else if (threshold_ == 0) {
    threshold = estimate(gradient, residual, k);
  } else if (!reuse) {
    threshold = lowered();
  }
  keep_old_ = std::min(key_infinity<T>, static_cast<Key<T>>(threshold + 2 * octave<T>));
  const std::int64_t hits =
      residual != nullptr ? kernels::host::compensate_select(gradient, residual, setup_.count, threshold, keep_old_,
                                                             indices_.data(), values_.data(), capacity_)
                          : kernels::host::select(gradient, setup_.count, threshold, indices_.data(), values_.data(), capacity_);
  count_ = std::min(hits, capacity_);
  if (refuse_non_finite) {
    const bool found = kernels::host::count_non_finite(values_.data(), count_) > 0 ||
                       (hits > capacity_ && kernels::host::count_non_finite(gradient, setup_.count) > 0);
    if (found) return false;
  }
  if (k == 0) {
    if (residual != nullptr) kernels::host::scatter(residual, indices_.data(), values_.data(), count_);
    count_ = 0;
    return true;
  }

  rethresholded_ = false;
  if (reuse && 4 * hits <= 5 * k && (5 * hits >= 4 * k || threshold == 1)) return true;
  rethresholded_ = setup_.threshold == Threshold::reuse;
  if (enough(hits, k, threshold)) {
    trim(residual, k);
  } else {
    if (residual != nullptr) {
      kernels::host::scatter(residual, indices_.data(), values_.data(), count_);
      keep_old_ = key_infinity<T>;
    }
    search_again(residual != nullptr ? residual : gradient, k);
  }
  if (!reuse) adapt_margin(hits, k);
  return true;
}

/// Candidates hold the k largest: there are at least k, or they are all that is not zero.
template <class T>
bool LocalSelector<T>::enough(std::int64_t hits, std::int64_t k, Key<T> threshold) const {
  return hits <= capacity_ && (hits >= k || threshold == 1);
}

/// A threshold that, judging by a regular sample, somewhat more than k entries reach.
template <class T>
Key<T> LocalSelector<T>::estimate(const T* gradient, const T* residual, std::int64_t k) {
  const std::int64_t samples = sample_.size();
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t position = i * (setup_.count / samples) + i * (setup_.count % samples) / samples;
    sample_[i] = residual != nullptr ? gradient[position] + residual[position] : gradient[position];
  }
  const double expected = static_cast<double>(k) * static_cast<double>(samples) / static_cast<double>(setup_.count);
  const double safe = samples == setup_.count ? expected : 1.1 * expected + 4 * std::sqrt(expected) + 4;
  return kernels::host::kth_key(sample_.data(), samples, std::min(samples, static_cast<std::int64_t>(std::ceil(safe)))).key;
}

template <class T>
Key<T> LocalSelector<T>::lowered() const {
  const auto drop = static_cast<Key<T>>(margin_ * static_cast<double>(octave<T>));
  return threshold_ > drop ? static_cast<Key<T>>(threshold_ - drop) : Key<T>{1};
}

template <class T>
void LocalSelector<T>::adapt_margin(std::int64_t hits, std::int64_t k) {
  const double ratio = static_cast<double>(hits) / static_cast<double>(k);
  if (ratio < 1)
    margin_ *= 2;  // a miss costs a pass, a few candidates more cost next to nothing
  else if (ratio < 1.03)
    margin_ *= 1.25;
  else if (ratio > 1.1)
    margin_ /= 1.25;
  margin_ = std::clamp(margin_, least_margin, most_margin);
}

/// Reduces the candidates to the k largest, ties to the lowest index; the others stay in the residual.
template <class T>
void LocalSelector<T>::trim(T* residual, std::int64_t k) {
  const KthKey<T> kth = kernels::host::kth_key(values_.data(), count_, k);
  threshold_ = kth.key;
  std::int64_t ties = std::min(kth.equal, k - kth.greater);
  if (count_ <= k) return;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count_; ++i) {
    const std::uint32_t index = indices_[i];
    const T value = values_[i];
    const Key<T> key = key_of(value);
    // Which candidate stays is as good as random: no branches, but for what practically never happens.
    const bool tie = (key == kth.key) & (ties > 0);
    const bool keep = (key > kth.key) | tie;
    ties -= tie;
    indices_[kept] = index;
    values_[kept] = value;
    kept += keep;
    if (key >= keep_old_ && !keep && residual != nullptr) residual[index] = value;
  }
  count_ = kept;
}

template <class T>
void LocalSelector<T>::search_again(const T* x, std::int64_t k) {
  const Key<T> threshold = estimate(x, nullptr, k);
  const std::int64_t hits = kernels::host::select(x, setup_.count, threshold, indices_.data(), values_.data(), capacity_);
  if (enough(hits, k, threshold)) {
    count_ = hits;
    trim(nullptr, k);
    return;
  }
  const KthKey<T> kth = kernels::host::kth_key(x, setup_.count, k);
  threshold_ = kth.key;
  count_ =
      kernels::host::select_ties(x, setup_.count, kth.key, std::min(kth.equal, k - kth.greater), indices_.data(), values_.data());
}

template <class T>
void LocalSelector<T>::settle(T* residual, SparseVector<T> taken) {
  kernels::host::settle(residual, indices_.data(), values_.data(), count_, taken.indices, taken.count);
}

template <class T>
void LocalSelector<T>::take_back(const T* gradient, T* residual) {
  std::int64_t from = 0;
  for (std::int64_t next = 0; next <= count_; ++next) {
    if (next < count_ && key_of(values_[next]) < keep_old_) continue;
    const std::int64_t to = next < count_ ? indices_[next] : setup_.count;
    for (std::int64_t i = from; i < to; ++i) {
      if (key_of(gradient[i]) < key_infinity<T>) residual[i] -= gradient[i];  // others never went in
    }
    from = to + 1;
  }
}

template class LocalSelector<float>;
template class LocalSelector<double>;

}  // namespace weir
