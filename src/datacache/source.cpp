// Defaults that all sources share.
#include <algorithm>
#include <weir/datacache.hpp>

#include "base/error.hpp"

namespace weir {

SampleSource::~SampleSource() = default;

std::uint64_t SampleSource::changes(std::int64_t /*first*/, std::int64_t /*count*/) const { return 0; }

std::int64_t SampleSource::decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) {
  require(encoded.size() <= value.size(), "sample {} has {} bytes: at most {} are expected", sample, encoded.size(), value.size());
  std::copy(encoded.begin(), encoded.end(), value.begin());
  return static_cast<std::int64_t>(encoded.size());
}

}  // namespace weir
