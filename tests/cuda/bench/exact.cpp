#include "bench/exact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace weir::bench {
namespace {

namespace device = kernels::cuda;

SelectionSetup setup_of(std::int64_t count, std::int64_t k) { return {.count = count, .largest_k = k}; }

}  // namespace

Exact::Exact(std::int64_t count, std::int64_t k, void* stream)
    : setup_(setup_of(count, k)),
      count_(count),
      k_(k),
      stream_(stream),
      scratch_(device::scratch_bytes(count)),
      indices_(setup_.capacity()),
      kept_indices_(indices_.size()),
      values_(indices_.size()),
      kept_values_(indices_.size()),
      sample_(ThresholdSample::largest(count, k, false)),
      found_(1),
      kth_(1),
      kept_(1) {}

std::int64_t Exact::bytes(std::int64_t count, std::int64_t k) {
  return device::scratch_bytes(count) + 16 * setup_of(count, k).capacity() + 4 * ThresholdSample::largest(count, k, false);
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
  const std::int64_t candidates = std::min(count_, k_ + k_ * 7 / 100 + 1);
  device::kth_key<float, float>(queue(), x, {count_}, candidates, kth_.data());
  floor_ = fetch(kth_.data()).key;
  device::kth_key<float, float>(queue(), x, {count_}, k_, kth_.data());
  learned_ = fetch(kth_.data());
}

void Exact::select_above(const float* x, Key<float> floor) {
  device::select<float, float>(queue(), x, count_, floor, indices_.data(), values_.data(), capacity(), found_.data());
  const device::Extent candidates{capacity(), &found_.data()->hits};
  device::kth_key<float, float>(queue(), values_.data(), candidates, k_, kth_.data());
  device::select_band<float, float>(queue(), indices_.data(), values_.data(), candidates, {{}, kth_.data(), k_},
                                    kept_indices_.data(), kept_values_.data(), nullptr, 0, kept_.data());
}

void Exact::warm(const float* x) { select_above(x, floor_); }

void Exact::ranked(const float* x) {
  device::kth_key<float, float>(queue(), x, {count_}, k_, kth_.data());
  device::select_band<float, float>(queue(), nullptr, x, {count_}, {{}, kth_.data(), k_}, kept_indices_.data(), kept_values_.data(),
                                    nullptr, 0, kept_.data());
}

void Exact::cold(const float* x) {
  for (const int turn : {1, 2}) {
    const ThresholdSample sample(count_, sample_.size(), k_, true, turn);
    device::sample<float, float>(queue(), x, nullptr, sample.size, sample.stride, sample.rest, sample.offset, sample_.data());
    device::kth_key<float, float>(queue(), sample_.data(), {sample.size}, sample.rank, kth_.data());
    const Key<float> floor = fetch(kth_.data()).key;
    select_above(x, floor);
    if (found_enough(floor)) return;
  }
  ranked(x);
}

bool Exact::found_enough(Key<float> floor) { return setup_.has_enough(fetch(&found_.data()->hits), k_, floor); }

bool Exact::warm_is_exact(const float* x) {
  warm(x);
  return found_enough(floor_);
}

void Exact::check() {
  const std::int64_t kept = fetch(kept_.data());
  if (kept != selected()) throw std::runtime_error(fmt::format("{} entries were selected instead of {}", kept, selected()));
  const KthKey<float> kth = fetch(kth_.data());
  if (kth.key != learned_.key || kth.greater != learned_.greater)
    throw std::runtime_error(fmt::format("the {} largest were not selected: the threshold is off", k_));
}

}  // namespace weir::bench
