#include "plan/device_selector.hpp"

#include <algorithm>

namespace weir::detail {
namespace {

namespace device = kernels::cuda;

}  // namespace

template <class G, class T>
DeviceSelector<G, T>::DeviceSelector(const Setup& setup, void* stream)
    : setup_(setup),
      stream_(stream),
      capacity_(setup.capacity()),
      scratch_(device::scratch_bytes(setup.count)),
      candidates_(capacity_),
      kept_(capacity_),
      sample_(ThresholdSample::largest(setup.count, setup.largest_k, setup.samples_always())),
      on_device_(1),
      on_host_(1),
      on_host_values_(setup_.uses_moments() ? capacity_ : 0) {
  reset();
}

template <class G, class T>
void DeviceSelector<G, T>::reset() {
  selected_ = &candidates_;
  count_ = 0;
  floor_ = 1;
  keep_old_ = 0;
  rethresholded_ = false;
  iteration_ = 0;
  samples_ = 0;
  threshold_ = 0;
  forecast_ = {};
  sidco_ = {};
}

template <class G, class T>
std::int64_t DeviceSelector<G, T>::memory_bytes() const {
  return scratch_.bytes() + candidates_.bytes() + kept_.bytes() + sample_.bytes() + on_device_.bytes() + on_host_.bytes() +
         on_host_values_.bytes();
}

/// Until the host knows what the device has found.
template <class G, class T>
task<void> DeviceSelector<G, T>::report(Channel channel) {
  cuda::copy(on_host_.data(), on_device_.data(), sizeof(Report), stream_);
  reported_.record(stream_);
  co_await channel.done(reported_);
}

template <class G, class T>
task<bool> DeviceSelector<G, T>::select(Channel channel, const G* gradient, T* residual, std::int64_t k, bool refuse_non_finite) {
  const bool reuse = setup_.threshold == Threshold::reuse && threshold_ != 0 && iteration_ % setup_.period != 0;
  ++iteration_;
  channel.step("0. select on the GPU");
  if (k == 0)
    floor_ = key_infinity<T>;  // the pass is still needed, for the residual and for what is not finite
  else if (setup_.uses_moments())
    floor_ = co_await sampled_key(channel, gradient, residual, guard_limit(k) + 1, true);
  else if (threshold_ == 0 || setup_.threshold == Threshold::sampled)
    floor_ = co_await sampled_key(channel, gradient, residual, k, setup_.threshold != Threshold::sampled);
  else
    floor_ = reuse ? threshold_ : forecast_.floor(threshold_);

  if (setup_.threshold == Threshold::gaussian && k > 0)
    device::moments<G, T>(queue(), gradient, residual, everything(), &on_device_.data()->moments);
  else if (setup_.uses_moments() && k > 0)
    device::exceedances<G, T>(queue(), gradient, residual, everything(), 0, &on_device_.data()->exceedances);
  keep_old_ = std::min(key_infinity<T>, static_cast<Key<T>>(floor_ + 2 * octave<T>));
  if (residual != nullptr) {
    device::compensate_select(queue(), gradient, residual, setup_.count, floor_, keep_old_, candidates_.indices.data(),
                              candidates_.values.data(), capacity_, &on_device_.data()->found);
  } else {
    device::select(queue(), gradient, setup_.count, floor_, candidates_.indices.data(), candidates_.values.data(), capacity_,
                   &on_device_.data()->found);
  }
  // What is likely to be accepted as it is need not be ranked.
  const bool ranked = k > 0 && !reuse && !setup_.samples_always();
  if (ranked) rank_candidates(k);
  co_await report(channel);

  const std::int64_t hits = on_host_.data()->found.hits;
  selected_ = &candidates_;
  count_ = std::min(hits, capacity_);
  if (refuse_non_finite && on_host_.data()->found.non_finite > 0) co_return false;
  rethresholded_ = false;
  if (k == 0) {
    put_back(residual);
    count_ = 0;
    co_return true;
  }
  if (setup_.accepts(hits, k, reuse, floor_)) co_return true;
  rethresholded_ = setup_.threshold == Threshold::reuse;
  const Report& told = *on_host_.data();
  if (setup_.uses_moments() &&
      (setup_.threshold == Threshold::gaussian ? told.moments.largest : told.exceedances.largest) < key_infinity<T>) {
    co_await select_estimated(channel, gradient, residual, k);
    co_return true;
  }
  const Key<T> last = threshold_;
  if (!ranked) {
    rank_candidates(k);
    co_await report(channel);
  }
  co_await select_exactly(channel, gradient, residual, k);
  if (!reuse) forecast_.learn(hits, k, last, threshold_);
  co_return true;
}

template <class G, class T>
template <class X>
task<Key<T>> DeviceSelector<G, T>::sampled_key(Channel channel, const X* gradient, const T* residual, std::int64_t k, bool safe) {
  const ThresholdSample sample(setup_.count, sample_.size(), k, safe, ++samples_);
  device::sample<X, T>(queue(), gradient, residual, sample.size, sample.stride, sample.rest, sample.offset, sample_.data());
  device::kth_key<T, T>(queue(), sample_.data(), {sample.size}, sample.rank, &on_device_.data()->kth);
  co_await report(channel);
  co_return on_host_.data()->kth.key;
}

template <class G, class T>
void DeviceSelector<G, T>::rank_candidates(std::int64_t k) {
  device::kth_key<T, T>(queue(), candidates_.values.data(), {capacity_, &on_device_.data()->found.hits}, k,
                        &on_device_.data()->kth);
}

template <class G, class T>
task<void> DeviceSelector<G, T>::select_exactly(Channel channel, const G* gradient, T* residual, std::int64_t k) {
  if (setup_.has_enough(on_host_.data()->found.hits, k, floor_)) {
    trim(residual, k);
    co_return;
  }
  put_back(residual);
  if (residual != nullptr)
    co_await select_anew(channel, static_cast<const T*>(residual), k);
  else
    co_await select_anew(channel, gradient, k);
}

/// Out of x, which holds all sums: by a fresh sample, or, should that mislead too, a ranking of everything.
template <class G, class T>
template <class X>
task<void> DeviceSelector<G, T>::select_anew(Channel channel, const X* x, std::int64_t k) {
  floor_ = co_await sampled_key(channel, x, nullptr, k, true);
  device::select<X, T>(queue(), x, setup_.count, floor_, candidates_.indices.data(), candidates_.values.data(), capacity_,
                       &on_device_.data()->found);
  rank_candidates(k);
  co_await report(channel);
  const std::int64_t hits = on_host_.data()->found.hits;
  count_ = std::min(hits, capacity_);
  if (setup_.has_enough(hits, k, floor_)) {
    trim(nullptr, k);
    co_return;
  }
  device::kth_key<X, T>(queue(), x, everything(), k, &on_device_.data()->kth);
  device::select_ties<X, T>(queue(), nullptr, x, everything(), k, &on_device_.data()->kth, kept_.indices.data(),
                            kept_.values.data(), nullptr, 0, &on_device_.data()->kept);
  co_await report(channel);
  threshold_ = on_host_.data()->kth.key;
  selected_ = &kept_;
  count_ = on_host_.data()->kept;
}

template <class G, class T>
task<void> DeviceSelector<G, T>::select_estimated(Channel channel, const G* gradient, T* residual, std::int64_t k) {
  const Moments<T> moments = on_host_.data()->moments;
  if (!setup_.has_enough(on_host_.data()->found.hits, guard_limit(k) + 1, floor_)) {
    put_back(residual);
    if (residual != nullptr)
      co_await collect_candidates(channel, static_cast<const T*>(residual), guard_limit(k) + 1);
    else
      co_await collect_candidates(channel, gradient, guard_limit(k) + 1);
  }
  cuda::copy(on_host_values_.data(), candidates_.values.data(), count_ * static_cast<std::int64_t>(sizeof(T)), stream_);
  co_await report(channel);
  Key<T> key = 0;
  switch (setup_.threshold) {
    case Threshold::mstopk:
      co_await select_mstopk(channel, gradient, residual, k);
      co_return;
    case Threshold::gaussian:
      key = adjusted_threshold(candidates(), moments, gaussian_threshold(moments, k), k);
      break;
    default:
      key = co_await sidco_key(channel, gradient, residual, k);
      sidco_.adapt(key < floor_ ? count_ : candidates().count_at_least(key), k);
  }
  const std::int64_t reaching = key >= floor_ ? candidates().count_at_least(key) : 0;
  if (key >= floor_ && within_guard(reaching, k)) {
    const device::Band<T> band{key, key, 0, 0};
    device::select_band<T, T>(queue(), candidates_.indices.data(), candidates_.values.data(), all_candidates(), band,
                              kept_.indices.data(), kept_.values.data(), residual, keep_old_, &on_device_.data()->kept);
    selected_ = &kept_;
    count_ = reaching;
  } else {
    rank_candidates(k);
    co_await report(channel);
    co_await select_exactly(channel, gradient, residual, k);
  }
}

/// The candidates anew, from a rank in all of x: the floor lies just above the `wanted`-th largest entry.
template <class G, class T>
template <class X>
task<void> DeviceSelector<G, T>::collect_candidates(Channel channel, const X* x, std::int64_t wanted) {
  device::kth_key<X, T>(queue(), x, everything(), wanted, &on_device_.data()->kth);
  co_await report(channel);
  const KthKey<T> kth = on_host_.data()->kth;
  floor_ = kth.greater + kth.equal < wanted ? 1 : static_cast<Key<T>>(kth.key + 1);
  device::select<X, T>(queue(), x, setup_.count, floor_, candidates_.indices.data(), candidates_.values.data(), capacity_,
                       &on_device_.data()->found);
  co_await report(channel);
  count_ = std::min(on_host_.data()->found.hits, capacity_);
}

template <class G, class T>
task<void> DeviceSelector<G, T>::select_mstopk(Channel channel, const G* gradient, T* residual, std::int64_t k) {
  const MsTopkThresholds<T> thresholds = mstopk_thresholds(candidates(), on_host_.data()->exceedances, k, setup_.samplings);
  const bool among_candidates = thresholds.lower >= floor_;
  std::int64_t reaching = 0;
  if (among_candidates) {
    reaching = candidates().count_at_least(thresholds.lower);
  } else {
    put_back(residual);
    if (residual != nullptr)
      device::select<T, T>(queue(), residual, setup_.count, thresholds.lower, nullptr, nullptr, 0, &on_device_.data()->found);
    else
      device::select<G, T>(queue(), gradient, setup_.count, thresholds.lower, nullptr, nullptr, 0, &on_device_.data()->found);
    co_await report(channel);
    reaching = on_host_.data()->found.hits;
  }
  const std::int64_t between = reaching - thresholds.upper_count;
  const std::int64_t slice = std::min(k - thresholds.upper_count, between);
  const std::uint64_t start =
      random_number(static_cast<std::uint64_t>(iteration_)) % static_cast<std::uint64_t>(between - slice + 1);
  const device::Band<T> band{thresholds.upper, thresholds.lower, static_cast<std::int64_t>(start), slice};
  std::int64_t* const kept = &on_device_.data()->kept;
  if (among_candidates)
    device::select_band<T, T>(queue(), candidates_.indices.data(), candidates_.values.data(), all_candidates(), band,
                              kept_.indices.data(), kept_.values.data(), residual, keep_old_, kept);
  else if (residual != nullptr)
    device::select_band<T, T>(queue(), nullptr, residual, everything(), band, kept_.indices.data(), kept_.values.data(), nullptr, 0,
                              kept);
  else
    device::select_band<G, T>(queue(), nullptr, gradient, everything(), band, kept_.indices.data(), kept_.values.data(), nullptr, 0,
                              kept);
  selected_ = &kept_;
  count_ = thresholds.upper_count + slice;
}

template <class G, class T>
task<Key<T>> DeviceSelector<G, T>::sidco_key(Channel channel, const G* gradient, T* residual, std::int64_t k) {
  SidcoFit fit(k, sidco_.stages());
  Exceedances<T> reaching = on_host_.data()->exceedances;
  while (fit.refine(reaching)) {
    const Key<T> key = key_at_least<T>(fit.threshold());
    if (key >= floor_) {
      reaching = kernels::host::exceedances<T>(on_host_values_.data(), nullptr, count_, key);
      continue;
    }
    put_back(residual);  // all sums are looked at
    if (residual != nullptr)
      device::exceedances<T, T>(queue(), residual, nullptr, everything(), key, &on_device_.data()->exceedances);
    else
      device::exceedances<G, T>(queue(), gradient, nullptr, everything(), key, &on_device_.data()->exceedances);
    co_await report(channel);
    reaching = on_host_.data()->exceedances;
  }
  co_return key_at_least<T>(fit.threshold());
}

/// Reduces the candidates to the k largest, ties to the lowest index; the others stay in the residual.
template <class G, class T>
void DeviceSelector<G, T>::trim(T* residual, std::int64_t k) {
  const KthKey<T> kth = on_host_.data()->kth;
  threshold_ = kth.key;
  if (count_ <= k) return;
  device::select_ties<T, T>(queue(), candidates_.indices.data(), candidates_.values.data(), {count_}, k, &on_device_.data()->kth,
                            kept_.indices.data(), kept_.values.data(), residual, keep_old_, &on_device_.data()->kept);
  selected_ = &kept_;
  count_ = kth.greater + std::min(kth.equal, k - kth.greater);
}

/// The residual holds the sums of the candidates, too.
template <class G, class T>
void DeviceSelector<G, T>::put_back(T* residual) {
  if (residual == nullptr) return;
  device::scatter(queue(), residual, candidates_.indices.data(), candidates_.values.data(), {count_});
  keep_old_ = key_infinity<T>;
}

template <class G, class T>
void DeviceSelector<G, T>::settle(T* residual, const std::uint32_t* taken, std::int64_t taken_count) {
  device::settle(queue(), residual, selected_->indices.data(), selected_->values.data(), {count_}, taken, {taken_count});
}

template <class G, class T>
void DeviceSelector<G, T>::roll_back(const G* gradient, T* residual) {
  const Entries& other = selected_ == &candidates_ ? kept_ : candidates_;
  device::roll_back(queue(), gradient, residual, setup_.count, selected_->indices.data(), selected_->values.data(), count_,
                    keep_old_, other.values.data());
}

template class DeviceSelector<float, float>;
template class DeviceSelector<double, double>;
template class DeviceSelector<float16, float>;
template class DeviceSelector<bfloat16, float>;

}  // namespace weir::detail
