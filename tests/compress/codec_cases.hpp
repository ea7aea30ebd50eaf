// codec_cases.hpp: compressors with parameters, and the instruction sets and inputs to test them with.
#pragma once

#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress/compressor.hpp"
#include "support/dice.hpp"

namespace weir::test {

struct CodecCase {
  std::string name, parameters;

  [[nodiscard]] std::string text() const { return name + (parameters.empty() ? "" : " " + parameters); }
  [[nodiscard]] std::unique_ptr<PackedCodec> make() const {
    const compress::Compressor made = compress::make_compressor(name, parameters);
    return made.row->codec(made.parameters);
  }
};

/// Returns the parameters to test besides the defaults. Rows that are missing here are tested with the defaults only.
inline const std::multimap<std::string, std::string>& more_parameters() {
  static const std::multimap<std::string, std::string> more = {
      {"block_quantise", "format=int4,bucket=32"},
      {"block_quantise", "format=fp8,bucket=4096"},
      {"block_quantise", "format=int8,bucket=0"},
      {"eight_bit", "bucket=32"},
      {"eight_bit", "bucket=4096"},
      {"ef_sign_sgd", "bucket=64"},
      {"ef_sign_sgd", "bucket=1024"},
      {"error_bounded", "absolute=0"},
      {"error_bounded", "absolute=0.25"},
      {"error_bounded", "absolute=1e-41"},
      {"error_bounded", "absolute=1e38"},
      {"error_bounded", "relative=0.001"},
      {"error_bounded", "relative=0.001,row=65"},
      {"error_bounded", "absolute=0.25,row=64"},
      {"error_bounded", "absolute=0,row=1000"},
      {"inceptionn", "bound=4"},
      {"inceptionn", "bound=20"},
      {"one_bit_sgd", "bucket=0"},
      {"one_bit_sgd", "bucket=32"},
      {"qsgd", "levels=1,bucket=32"},
      {"qsgd", "levels=4,bucket=0"},
      {"qsgd", "levels=127,bucket=1024"},
      {"terngrad", "clip=0"},
      {"terngrad", "clip=1.5,bucket=64"},
      {"terngrad", "clip=0,bucket=2048"},
  };
  return more;
}

/// Returns the cases of every row that makes bytes.
inline std::vector<CodecCase> codec_cases() {
  std::vector<CodecCase> cases;
  for (const compress::CompressorRow* row : compress::compressor_registry()) {
    if (row->codec == nullptr) continue;
    const std::string name(row->name);
    cases.push_back({name, ""});
    for (auto [at, end] = more_parameters().equal_range(name); at != end; ++at) cases.push_back({name, at->second});
  }
  return cases;
}

/// While it lives, new codecs use one instruction set.
class OnTarget {
 public:
  explicit OnTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

/// Returns all instruction sets that are compiled and that this machine has.
inline std::vector<std::int64_t> instruction_sets() {
  std::vector<std::int64_t> targets;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

enum class Numbers { heavy_tailed, zeros, ties, denormals, huge, mixed_sizes, not_finite, few_nonzeros };
inline constexpr Numbers all_numbers[] = {Numbers::heavy_tailed, Numbers::zeros,       Numbers::ties,       Numbers::denormals,
                                          Numbers::huge,         Numbers::mixed_sizes, Numbers::not_finite, Numbers::few_nonzeros};
inline constexpr std::int64_t odd_sizes[] = {0, 1, 7, 31, 33, 255, 256, 257, 1000, 4097, 70000};

inline std::vector<float> numbers(Numbers kind, std::int64_t count, std::uint64_t seed = 1) {
  Dice dice(seed);
  std::vector<float> x(static_cast<std::size_t>(count));
  const auto uniform = [&] { return static_cast<double>(dice.word() >> 11) * 0x1p-52 - 1; };  // in [-1, 1)
  const auto wide = [&](double scale) { return std::copysign(std::exp(4 * uniform()) * scale, uniform()); };
  for (float& value : x) {
    switch (kind) {
      case Numbers::heavy_tailed:
        value = static_cast<float>(wide(1e-3));
        break;
      case Numbers::zeros:
        value = dice.chance(50) ? 0.0f : -0.0f;
        break;
      case Numbers::ties:
        value = static_cast<float>(dice.between(-4, 4)) / 8;
        break;
      case Numbers::denormals:
        value = static_cast<float>(std::ldexp(uniform(), dice.small(-149, -126)));
        break;
      case Numbers::huge:
        value = static_cast<float>(uniform() * 3.4e38);
        break;
      case Numbers::mixed_sizes:
        value = static_cast<float>(std::ldexp(uniform(), dice.small(-149, 127)));
        break;
      case Numbers::not_finite:
        value = static_cast<float>(wide(1));
        if (dice.chance(1))
          value = dice.one_of({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()});
        break;
      case Numbers::few_nonzeros:
        value = dice.chance(1) ? static_cast<float>(wide(1)) : 0.0f;
        break;
    }
  }
  return x;
}

/// Returns whether the numbers have the same bits, or are both NaN.
inline bool same_number(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

inline std::vector<std::byte> encoded(PackedCodec& codec, const Draw& draw, std::int64_t first, const std::vector<float>& x,
                                      float* rest = nullptr) {
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<std::byte> message(static_cast<std::size_t>(codec.most_bytes(count)), std::byte{0xA5});
  message.resize(static_cast<std::size_t>(codec.encode(draw, first, x.data(), count, message.data(), rest)));
  return message;
}

inline std::vector<float> decoded(PackedCodec& codec, const std::vector<std::byte>& message, std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count), 77.0f);
  codec.decode(message.data(), static_cast<std::int64_t>(message.size()), count, x.data(), false);
  return x;
}

inline std::vector<float> through(const CodecCase& what, const Draw& draw, const std::vector<float>& x, std::int64_t first = 0) {
  const auto codec = what.make();
  return decoded(*codec, encoded(*codec, draw, first, x), static_cast<std::int64_t>(x.size()));
}

}  // namespace weir::test
