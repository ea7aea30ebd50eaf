#include "bench/exact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plan/threshold_estimators.hpp"
#include "plan/threshold_forecast.hpp"

namespace weir::bench {
namespace {

namespace device = kernels::cuda;

std::int64_t capacity_of(std::int64_t count, std::int64_t k) { return SelectionSetup{.count = count, .largest_k = k}.capacity(); }

}  // namespace

Exact::Exact(std::int64_t count, std::int64_t k, void* stream)
    : count_(count),
      k_(k),
      stream_(stream),
      scratch_(device::scratch_bytes(count)),
      indices_(capacity_of(count, k)),
      kept_indices_(indices_.size()),
      values_(indices_.size()),
      kept_values_(indices_.size()),
      sample_(ThresholdSample::largest(count, false)),
      found_(1),
      kth_(1),
      kept_(1) {}

std::int64_t Exact::bytes(std::int64_t count, std::int64_t k) {
  return device::scratch_bytes(count) + 16 * capacity_of(count, k) + 4 * ThresholdSample::largest(count, false);
}

template <class V>
V Exact::fetch(const V* from) const {
  V value{};
  cuda::copy(&value, from, sizeof value, stream_);
  cuda::synchronize(stream_);
  return value;
}

std::int64_t Exact::selected() const { return std::min(k_, learned_.greater + learned_.equal); }

void Exact::learn(const float* x) {
  device::kth_key<float, float>(queue(), x, {count_, nullptr}, k_, kth_.data());
  learned_ = fetch(kth_.data());
}

void Exact::select_above(const float* x, Key<float> floor) {
  device::select<float, float>(queue(), x, count_, floor, indices_.data(), values_.data(), capacity(), found_.data());
  const device::Extent candidates{capacity(), &found_.data()->hits};
  device::kth_key<float, float>(queue(), values_.data(), candidates, k_, kth_.data());
  device::select_ties<float, float>(queue(), indices_.data(), values_.data(), candidates, k_, kth_.data(), kept_indices_.data(),
                                    kept_values_.data(), nullptr, 0, kept_.data());
}

void Exact::warm(const float* x) {
  constexpr Key<float> margin = octave<float> / 16;
  select_above(x, learned_.key - std::min<Key<float>>(learned_.key - 1, margin));
}

void Exact::ranked(const float* x) {
  device::kth_key<float, float>(queue(), x, {count_, nullptr}, k_, kth_.data());
  device::select_ties<float, float>(queue(), nullptr, x, {count_, nullptr}, k_, kth_.data(), kept_indices_.data(),
                                    kept_values_.data(), nullptr, 0, kept_.data());
}

void Exact::cold(const float* x) {
  const ThresholdSample sample(count_, sample_.size(), k_, true, 1);
  device::sample<float, float>(queue(), x, nullptr, sample.size, sample.stride, sample.rest, sample.offset, sample_.data());
  device::kth_key<float, float>(queue(), sample_.data(), {sample.size, nullptr}, sample.rank, kth_.data());
  select_above(x, fetch(kth_.data()).key);
}

bool Exact::warm_is_exact(const float* x) {
  warm(x);
  return fetch(&found_.data()->hits) <= capacity();
}

void Exact::check_count() {
  const std::int64_t kept = fetch(kept_.data());
  if (kept != selected()) throw std::runtime_error(fmt::format("{} entries were selected instead of {}", kept, selected()));
}

}  // namespace weir::bench
