// ownership.hpp: which rank owns which samples. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weir::datacache {

struct SampleRange {
  std::int64_t first = 0, count = 0;
};

/// Divides packs of samples into contiguous ranges, one for each rank, as evenly as whole packs allow. A rank's `place` is its
/// position in this division. Ranks of one node have adjacent places, so a node's samples are contiguous.
class Ownership {
 public:
  Ownership(std::int64_t samples, std::int64_t pack_samples, std::int64_t ranks)
      : samples_(samples), pack_samples_(pack_samples), ranks_(ranks), packs_((samples + pack_samples - 1) / pack_samples) {}

  [[nodiscard]] std::int64_t pack_of(std::int64_t sample) const { return sample / pack_samples_; }
  [[nodiscard]] SampleRange pack(std::int64_t number) const {
    const std::int64_t first = number * pack_samples_;
    return {first, std::min(pack_samples_, samples_ - first)};
  }
  /// Returns the place of the sample's owner.
  [[nodiscard]] std::int64_t owner(std::int64_t sample) const { return ((pack_of(sample) + 1) * ranks_ - 1) / packs_; }
  [[nodiscard]] SampleRange owned(std::int64_t place) const {
    const std::int64_t first = first_sample(place);
    return {first, first_sample(place + 1) - first};
  }

 private:
  [[nodiscard]] std::int64_t first_sample(std::int64_t place) const {
    return std::min(packs_ * place / ranks_ * pack_samples_, samples_);
  }

  std::int64_t samples_, pack_samples_, ranks_, packs_;
};

}  // namespace weir::datacache
