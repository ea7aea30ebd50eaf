#include "contribution/selection_setup.hpp"

namespace weir {
namespace {

constexpr std::int64_t least_sample = 32768;
constexpr std::int64_t sampled_hits = 400;  // this many in a sample determine a count to about 5 %

/// Returns how many of `count` elements a sample needs to locate the k-th largest.
std::int64_t telling_size(std::int64_t count, std::int64_t k) { return std::max(least_sample, sampled_hits * (count / k)); }

/// Returns how many locate a safe threshold. It lets in half as many entries again as are wanted. Ranking these takes less time than
/// a larger sample.
std::int64_t safe_size(std::int64_t count, std::int64_t k) {
  constexpr std::int64_t least = 4096, hits = 100;
  return std::max(least, hits * (count / k));
}

}  // namespace

std::int64_t ThresholdSample::largest(std::int64_t count, std::int64_t k, bool always) {
  const std::int64_t most = std::max(least_sample, count / 100);
  if (always || k == 0) return std::min(count, most);
  return std::min({count, most, safe_size(count, k)});
}

ThresholdSample::ThresholdSample(std::int64_t count, std::int64_t room, std::int64_t k, bool safe, std::int64_t turn)
    : size(std::min(room, telling_size(count, k))),
      stride(count / size),
      rest(count % size),
      offset(static_cast<std::int64_t>(random_number(static_cast<std::uint64_t>(turn)) % static_cast<std::uint64_t>(stride))) {
  const double expected = static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(count);
  const double wanted = size == count ? expected : safe ? std::ceil(1.1 * expected + 4 * std::sqrt(expected) + 4) : expected;
  rank = std::clamp<std::int64_t>(std::llround(wanted), 1, size);
}

}  // namespace weir
