#include "plan/local_selector.hpp"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

/// Elements whose moments are taken just before they are compensated, so that they are read from memory once.
constexpr std::int64_t block = 16384;

template <class T>
void add_to(Moments<T>& sum, const Moments<T>& part) {
  sum.count += part.count;
  sum.sum += part.sum;
  sum.sum_squares += part.sum_squares;
  sum.largest = std::max(sum.largest, part.largest);
}

template <class T>
void add_to(Exceedances<T>& sum, const Exceedances<T>& part) {
  sum.count += part.count;
  sum.sum_magnitudes += part.sum_magnitudes;
  sum.largest = std::max(sum.largest, part.largest);
}

}  // namespace

template <class T>
LocalSelector<T>::LocalSelector(const Setup& setup)
    : setup_(setup),
      capacity_(setup.capacity()),
      indices_(capacity_ + select_padding),
      values_(capacity_ + select_padding),
      sample_(ThresholdSample::largest(setup.count, setup.largest_k, setup.samples_always())),
      held_(setup.threshold == Threshold::sidco ? capacity_ + 1 : 0) {
  reset();
}

template <class T>
std::int64_t LocalSelector<T>::most_selected(Threshold threshold, std::int64_t count, std::int64_t k) {
  const bool exactly_k = threshold == Threshold::exact || threshold == Threshold::mstopk;
  return exactly_k ? k : std::min(count, guard_limit(k));
}

template <class T>
void LocalSelector<T>::reset() {
  count_ = 0;
  floor_ = 1;
  keep_old_ = 0;
  rethresholded_ = false;
  iteration_ = 0;
  samples_ = 0;
  threshold_ = 0;
  forecast_ = {};
  moments_ = {};
  magnitudes_ = {};
  sidco_ = {};
}

template <class T>
bool LocalSelector<T>::select(const T* gradient, T* residual, std::int64_t k, bool refuse_non_finite) {
  const bool reuse = setup_.threshold == Threshold::reuse && threshold_ != 0 && iteration_ % setup_.period != 0;
  ++iteration_;
  floor_ = first_floor(gradient, residual, k, reuse);
  const std::int64_t hits = compensate(gradient, residual, k);
  if (refuse_non_finite && non_finite(gradient, hits)) return false;
  if (k == 0) {
    put_back(residual);
    count_ = 0;
    return true;
  }

  rethresholded_ = false;
  if (setup_.accepts(hits, k, reuse, floor_)) return true;
  rethresholded_ = setup_.threshold == Threshold::reuse;
  const Key<T> last = threshold_;
  const T* const x = residual != nullptr ? residual : gradient;
  if (setup_.uses_moments() && std::max(moments_.largest, magnitudes_.largest) < key_infinity<T>) {
    select_estimated(x, residual, hits, k);
  } else {
    select_exactly(x, residual, hits, k);
    if (!reuse) forecast_.learn(hits, k, last, threshold_);
  }
  return true;
}

template <class T>
Key<T> LocalSelector<T>::first_floor(const T* gradient, const T* residual, std::int64_t k, bool reuse) {
  if (k == 0) return key_infinity<T>;  // the pass is still needed, for the residual and for what is not finite
  if (setup_.uses_moments()) return sampled_key(gradient, residual, guard_limit(k) + 1, true);
  if (setup_.threshold == Threshold::sampled) return sampled_key(gradient, residual, k, false);
  if (threshold_ == 0) return sampled_key(gradient, residual, k, true);
  return reuse ? threshold_ : forecast_.floor(threshold_);
}

/// A threshold that, judging by a regular sample, k entries reach; if `safe`, hardly ever fewer.
template <class T>
Key<T> LocalSelector<T>::sampled_key(const T* gradient, const T* residual, std::int64_t k, bool safe) {
  const ThresholdSample sample(setup_.count, sample_.size(), k, safe, ++samples_);
  for (std::int64_t i = 0; i < sample.size; ++i) {
    const std::int64_t position = sample.position(i);
    sample_[i] = residual != nullptr ? gradient[position] + residual[position] : gradient[position];
  }
  return kernels::host::kth_key(sample_.data(), sample.size, sample.rank).key;
}

/// Adds part of the compensated gradient to the sums that the method needs.
template <class T>
void LocalSelector<T>::add_up(const T* gradient, const T* residual, std::int64_t size) {
  if (setup_.threshold == Threshold::gaussian) {
    add_to(moments_, kernels::host::moments(gradient, residual, size));
  } else {
    add_to(magnitudes_, kernels::host::exceedances(gradient, residual, size, Key<T>{0}));
  }
}

/// residual += gradient; the entries with key >= floor_ become the candidates. Returns how many there are, also beyond the
/// capacity.
template <class T>
std::int64_t LocalSelector<T>::compensate(const T* gradient, T* residual, std::int64_t k) {
  keep_old_ = std::min(key_infinity<T>, static_cast<Key<T>>(floor_ + 2 * octave<T>));
  moments_ = {};
  magnitudes_ = {};
  count_ = 0;
  std::int64_t hits = 0;
  const bool in_blocks = setup_.uses_moments() && k > 0;
  for (std::int64_t begin = 0; begin < setup_.count; begin += block) {
    const std::int64_t size = in_blocks ? std::min(block, setup_.count - begin) : setup_.count;
    const T* const g = gradient + begin;
    T* const r = residual != nullptr ? residual + begin : nullptr;
    if (in_blocks) add_up(g, r, size);
    std::uint32_t* const indices = indices_.data() + count_;
    T* const values = values_.data() + count_;
    const std::int64_t room = capacity_ - count_;
    hits += r != nullptr ? kernels::host::compensate_select(g, r, size, floor_, keep_old_, indices, values, room)
                         : kernels::host::select(g, size, floor_, indices, values, room);
    const std::int64_t before = count_;
    count_ = std::min(hits, capacity_);
    if (!in_blocks) break;
    for (std::int64_t i = before; i < count_; ++i) indices_[i] += static_cast<std::uint32_t>(begin);
  }
  return hits;
}

template <class T>
bool LocalSelector<T>::non_finite(const T* gradient, std::int64_t hits) const {
  return kernels::host::count_non_finite(values_.data(), count_) > 0 ||
         (hits > capacity_ && kernels::host::count_non_finite(gradient, setup_.count) > 0);
}

template <class T>
void LocalSelector<T>::select_exactly(const T* x, T* residual, std::int64_t hits, std::int64_t k) {
  if (setup_.has_enough(hits, k, floor_)) {
    trim(residual, k);
    return;
  }
  put_back(residual);
  floor_ = sampled_key(x, nullptr, k, true);
  count_ = kernels::host::select(x, setup_.count, floor_, indices_.data(), values_.data(), capacity_);
  if (setup_.has_enough(count_, k, floor_)) {
    trim(nullptr, k);
    return;
  }
  const KthKey<T> kth = kernels::host::kth_key(x, setup_.count, k);
  threshold_ = kth.key;
  count_ =
      kernels::host::select_ties(x, setup_.count, kth.key, std::min(kth.equal, k - kth.greater), indices_.data(), values_.data());
}

/// Reduces the candidates to the k largest, ties to the lowest index; the others stay in the residual.
template <class T>
void LocalSelector<T>::trim(T* residual, std::int64_t k) {
  const KthKey<T> kth = kernels::host::kth_key(values_.data(), count_, k);
  threshold_ = kth.key;
  if (count_ <= k) return;
  Band band{static_cast<Key<T>>(kth.key + 1), kth.key, 0, std::min(kth.equal, k - kth.greater)};
  keep(residual, band, 0);
}

/// Reduces the candidates from number `from` on to those in the band; the others stay in the residual.
template <class T>
void LocalSelector<T>::keep(T* residual, Band& band, std::int64_t from) {
  std::int64_t kept = from;
  for (std::int64_t i = from; i < count_; ++i) {
    const std::uint32_t index = indices_[i];
    const T value = values_[i];
    const Key<T> key = key_of(value);
    // Which candidate stays is as good as random: no branches, but for what practically never happens.
    const bool between = (key >= band.lower) & (key < band.upper);
    const bool in_slice = between & (static_cast<std::uint64_t>(band.position) < static_cast<std::uint64_t>(band.slice));
    const bool wanted = (key >= band.upper) | in_slice;
    band.position += between;
    indices_[kept] = index;
    values_[kept] = value;
    kept += wanted;
    if (key >= keep_old_ && !wanted && residual != nullptr) residual[index] = value;
  }
  count_ = kept;
}

/// The residual holds the sums of the candidates, too.
template <class T>
void LocalSelector<T>::put_back(T* residual) {
  if (residual == nullptr) return;
  kernels::host::scatter(residual, indices_.data(), values_.data(), count_);
  keep_old_ = key_infinity<T>;
}

template <class T>
void LocalSelector<T>::select_estimated(const T* x, T* residual, std::int64_t hits, std::int64_t k) {
  if (!setup_.has_enough(hits, guard_limit(k) + 1, floor_)) {
    put_back(residual);
    collect_candidates(x, guard_limit(k) + 1);
  }
  const Candidates<T> candidates{values_.data(), count_, floor_};
  Key<T> key = 0;
  switch (setup_.threshold) {
    case Threshold::mstopk:
      select_mstopk(x, residual, k);
      return;
    case Threshold::gaussian:
      key = adjusted_threshold(candidates, moments_, gaussian_threshold(moments_, k), k);
      break;
    default:
      key = sidco_key(x, residual, k);
      sidco_.adapt(key < floor_ ? count_ : candidates.count_at_least(key), k);
  }
  if (key >= floor_ && within_guard(candidates.count_at_least(key), k)) {
    Band band{key, key, 0, 0};
    keep(residual, band, 0);
  } else {
    select_exactly(x, residual, count_, k);
  }
}

/// The candidates anew, from a rank in all of x: the floor lies just above the `wanted`-th largest entry.
template <class T>
void LocalSelector<T>::collect_candidates(const T* x, std::int64_t wanted) {
  const KthKey<T> kth = kernels::host::kth_key(x, setup_.count, wanted);
  floor_ = kth.greater + kth.equal < wanted ? 1 : static_cast<Key<T>>(kth.key + 1);
  count_ = kernels::host::select(x, setup_.count, floor_, indices_.data(), values_.data(), capacity_);
}

template <class T>
void LocalSelector<T>::select_mstopk(const T* x, T* residual, std::int64_t k) {
  const Candidates<T> candidates{values_.data(), count_, floor_};
  const MsTopkThresholds<T> found = mstopk_thresholds(candidates, magnitudes_, k, setup_.samplings);
  const bool among_candidates = found.lower >= floor_;
  if (!among_candidates) put_back(residual);
  const std::int64_t reaching = among_candidates ? candidates.count_at_least(found.lower)
                                                 : kernels::host::select<T>(x, setup_.count, found.lower, nullptr, nullptr, 0);
  const std::int64_t between = reaching - found.upper_count;
  const std::int64_t slice = std::min(k - found.upper_count, between);
  const std::uint64_t start =
      random_number(static_cast<std::uint64_t>(iteration_)) % static_cast<std::uint64_t>(between - slice + 1);
  Band band{found.upper, found.lower, -static_cast<std::int64_t>(start), slice};
  if (among_candidates) {
    keep(residual, band, 0);
  } else {
    select_band(x, band);
  }
}

/// The entries of x in the band, block by block, since those between its thresholds may exceed the capacity.
template <class T>
void LocalSelector<T>::select_band(const T* x, Band& band) {
  count_ = 0;
  for (std::int64_t begin = 0; begin < setup_.count; begin += Setup::spare_candidates) {
    const std::int64_t from = count_, size = std::min(Setup::spare_candidates, setup_.count - begin);
    count_ += kernels::host::select(x + begin, size, band.lower, indices_.data() + from, values_.data() + from, size);
    for (std::int64_t i = from; i < count_; ++i) indices_[i] += static_cast<std::uint32_t>(begin);
    keep(nullptr, band, from);
  }
}

template <class T>
Key<T> LocalSelector<T>::sidco_key(const T* x, T* residual, std::int64_t k) {
  SidcoFit fit(k, sidco_.stages());
  Exceedances<T> reaching = magnitudes_;
  while (fit.refine(reaching)) {
    const Key<T> key = key_at_least<T>(fit.threshold());
    reaching =
        key >= floor_ ? kernels::host::exceedances<T>(values_.data(), nullptr, count_, key) : exceedances_of_all(x, residual, key);
  }
  return key_at_least<T>(fit.threshold());
}

/// Of the entries with key >= threshold of x, which is the residual if there is one: that holds all sums for the time being.
template <class T>
Exceedances<T> LocalSelector<T>::exceedances_of_all(const T* x, T* residual, Key<T> threshold) {
  std::int64_t held = 0;
  for (std::int64_t i = 0; i < count_ && residual != nullptr; ++i) {
    held_[held] = static_cast<std::uint32_t>(i);
    held += key_of(values_[i]) >= keep_old_;
  }
  const auto exchange = [&] {
    for (std::int64_t h = 0; h < held; ++h) std::swap(values_[held_[h]], residual[indices_[held_[h]]]);
  };
  exchange();
  const Exceedances<T> found = kernels::host::exceedances<T>(x, nullptr, setup_.count, threshold);
  exchange();
  return found;
}

template <class T>
void LocalSelector<T>::settle(T* residual, SparseVector<T> taken) {
  kernels::host::settle(residual, indices_.data(), values_.data(), count_, taken.indices, taken.count);
}

template <class T>
void LocalSelector<T>::roll_back(const T* gradient, T* residual) {
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
