// The bounds of the papers: means, variances, errors.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/codec_cases.hpp"
#include "compress/references.hpp"
#include "support/catch.hpp"
#include "support/fields.hpp"

namespace {

using namespace weir;
using namespace weir::test;

double squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}
double squared_error(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += error * error;
  }
  return sum;
}

/// Statistics over many iterations.
struct Observed {
  double mean_squared_error = 0;
  double worst = 0;     ///< the largest distance of an element's mean, in standard errors, among elements that vary
  double together = 0;  ///< the same for the sum of all elements
};
Observed observe(const CodecCase& what, const std::vector<float>& x, int iterations) {
  const auto codec = what.make();
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<double> sum(x.size()), variance(x.size()), least(x.size(), 1e300), most(x.size(), -1e300);
  Observed observed;
  for (int t = 0; t < iterations; ++t) {
    const std::vector<float> y =
        decoded(*codec, encoded(*codec, {.seed = 42, .iteration = static_cast<std::uint64_t>(t), .stream = 1}, 0, x), count);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += error;
      variance[i] += error * error;
      least[i] = std::min(least[i], error);
      most[i] = std::max(most[i], error);
    }
  }
  double all = 0, all_variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    observed.mean_squared_error += variance[i] / iterations;
    all += sum[i];
    all_variance += variance[i];
    // Allow a rare value to occur once more than expected.
    if (most[i] > least[i])
      observed.worst = std::max(observed.worst, std::abs(sum[i]) / (std::sqrt(variance[i]) + most[i] - least[i]));
  }
  observed.together = all_variance > 0 ? std::abs(all) / std::sqrt(all_variance) : 0;
  return observed;
}

TEST_CASE("unbiased compressors keep means") {
  const std::vector<float> x = numbers(Numbers::heavy_tailed, 1000);
  std::vector<CodecCase> cases = {{"terngrad", "clip=0"},
                                  {"terngrad", "clip=0,bucket=64"},
                                  {"qsgd", "levels=1,bucket=32"},
                                  {"qsgd", "levels=127,bucket=0"},
                                  {"qsgd", "levels=7,bucket=128"}};
  for (const compress::CompressorRow* row : compress::compressor_registry()) {
    if (row->codec != nullptr && row->unbiased) cases.push_back({std::string(row->name), ""});
  }
  for (const CodecCase& what : cases) {
    INFO(what.text());
    const Observed observed = observe(what, x, 4000);
    CHECK(observed.worst < 5);
    CHECK(observed.together < 5);
  }
}

TEST_CASE("QSGD's variance is at most min(n / s^2, sqrt(n) / s) of the bucket's square (lemma 3.1)") {
  for (const Numbers kind : {Numbers::heavy_tailed, Numbers::ties, Numbers::few_nonzeros}) {
    for (const int n : {32, 512, 1000}) {
      for (const int s : {1, 7, 127}) {
        const std::vector<float> x = numbers(kind, n);
        const double bound = std::min(static_cast<double>(n) / (s * s), std::sqrt(n) / s);
        const CodecCase what{"qsgd", "bucket=0,levels=" + std::to_string(s)};
        CHECK(observe(what, x, 400).mean_squared_error <= 1.05 * bound * squares(x));
      }
    }
  }
}

TEST_CASE("natural compression's variance is at most an eighth of the square (theorem 1)") {
  for (const Numbers kind : {Numbers::heavy_tailed, Numbers::ties}) {
    const std::vector<float> x = numbers(kind, 1000);
    CHECK(observe({"natural", ""}, x, 400).mean_squared_error <= squares(x) / 8);
  }
  // At 4/3 of a power of two it is just that.
  const std::vector<float> worst(1000, 4.0f / 3);
  const double there = observe({"natural", ""}, worst, 400).mean_squared_error;
  CHECK(there > 0.97 * squares(worst) / 8);
  CHECK(there < 1.03 * squares(worst) / 8);
}

TEST_CASE("TernGrad clips at so many deviations") {
  std::vector<float> x(1000, 1.0f);
  x[500] = 100;
  const double deviation = std::sqrt(squares(x) / 1000);
  const std::vector<float> y = through({"terngrad", "clip=2.5"}, {1, 2, 3}, x);
  CHECK(y[500] == static_cast<float>(2.5 * deviation));
  for (const float value : y) CHECK((value == 0 || value == y[500]));
  const std::vector<float> equal(77, 0.5f);
  CHECK(through({"terngrad", "clip=2.5"}, {1, 2, 3}, equal) == equal);
}

TEST_CASE("EF-signSGD is a contraction of ||x||_1^2 / (n ||x||_2^2) (lemma 8)") {
  for (const Numbers kind : {Numbers::heavy_tailed, Numbers::ties, Numbers::few_nonzeros, Numbers::huge}) {
    for (const int n : {1, 31, 1000, 4097}) {
      const std::vector<float> x = numbers(kind, n);
      double magnitudes = 0;
      for (const float value : x) magnitudes += std::abs(static_cast<double>(value));
      const double delta = squares(x) > 0 ? magnitudes * magnitudes / (n * squares(x)) : 1;
      const double error = squared_error(x, through({"ef_sign_sgd", ""}, {}, x));
      CHECK(error <= (1 - delta) * squares(x) * (1 + 1e-5) + 1e-12 * squares(x));
    }
  }
}

TEST_CASE("1-bit SGD keeps the sum of each side") {
  const std::vector<float> x = numbers(Numbers::heavy_tailed, 4096);
  const std::vector<float> y = through({"one_bit_sgd", "bucket=1024"}, {}, x);
  for (std::size_t bucket = 0; bucket < x.size(); bucket += 1024) {
    double sums[2][2] = {};
    for (std::size_t i = bucket; i < bucket + 1024; ++i) {
      sums[x[i] < 0 ? 1 : 0][0] += static_cast<double>(x[i]);
      sums[x[i] < 0 ? 1 : 0][1] += static_cast<double>(y[i]);
    }
    for (const auto& side : sums) CHECK(std::abs(side[0] - side[1]) <= 1e-6 * std::abs(side[0]));
  }
  CHECK(through({"one_bit_sgd", ""}, {}, {-1, -3, 2}) == std::vector<float>{-2, -2, 2});
  CHECK(through({"one_bit_sgd", ""}, {}, {-1, -3}) == std::vector<float>{-2, -2});
}

TEST_CASE("block_quantise is off by half a step at most, and ties go to even") {
  const std::vector<float> x = numbers(Numbers::heavy_tailed, 4096);
  for (const auto& [format, levels] : {std::pair{"int8", 127}, std::pair{"int4", 7}}) {
    const std::vector<float> y = through({"block_quantise", std::string("bucket=128,format=") + format}, {}, x);
    for (std::size_t bucket = 0; bucket < x.size(); bucket += 128) {
      float most = 0;
      for (std::size_t i = bucket; i < bucket + 128; ++i) most = std::max(most, std::abs(x[i]));
      for (std::size_t i = bucket; i < bucket + 128; ++i)
        CHECK(std::abs(x[i] - y[i]) <= most / static_cast<float>(levels) / 2 * 1.0001f);
    }
  }
  const std::vector<float> ties = {7, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f};
  CHECK(through({"block_quantise", "format=int4"}, {}, ties) == std::vector<float>{7, 0, 2, 2, 0, -2, -2});
  // E4M3 has 4 bits of significand: half of the last place
  const std::vector<float> floats = through({"block_quantise", "format=fp8"}, {}, {448, 100, 17, 18, 19, -0.3f});
  CHECK(floats == std::vector<float>{448, 96, 16, 18, 20, -0.3125f});
}

TEST_CASE("INCEPTIONN is off by its bound at most, and sends no more than it says") {
  for (const int bound : {1, 7, 10, 15, 16, 30}) {
    const CodecCase what{"inceptionn", "bound=" + std::to_string(bound)};
    for (const Numbers kind : all_numbers) {
      const std::vector<float> x = numbers(kind, 5000);
      const std::vector<float> y = through(what, {}, x);
      bool within = true;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float error = std::abs(x[i] - y[i]);
        within = within && (std::isfinite(x[i]) ? error <= std::ldexp(1.0f, -bound) : same_number(x[i], y[i]));
      }
      INFO(what.text() << ", kind " << static_cast<int>(kind));
      CHECK(within);
    }
    const auto codec = what.make();
    CHECK(encoded(*codec, {}, 0, numbers(Numbers::zeros, 4096)).size() == 4096 / 4);
  }
}

TEST_CASE("error_bounded is off by its bound at most, at every element") {
  for (const Field kind : all_fields) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{63}, std::int64_t{65}, std::int64_t{1'000'003}}) {
      const std::vector<float> x = field(kind, count);
      for (const double absolute : {1e-4, 0x1p-10, 0.3, 1e-30, 1e-37, 1e5, 1e30, 1e38, 0.0}) {
        for (const double relative : {0.0, 1e-3, 1e-6, 0.5}) {
          if (relative > 0 && absolute != 1e-4) continue;
          const CodecCase what{"error_bounded", fmt::format("absolute={},relative={}", absolute, relative)};
          const double bound = reference::bound_of(x, absolute, relative);
          const auto codec = what.make();
          const std::vector<std::byte> message = encoded(*codec, {}, 0, x);
          const std::vector<float> y = decoded(*codec, message, count);
          double worst = 0;
          for (std::size_t i = 0; i < x.size(); ++i)
            worst = std::max(worst, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
          INFO(what.text() << ", kind " << static_cast<int>(kind) << ", " << count << ", bound " << bound);
          CHECK(worst <= bound);
          codec->agree(codec->measure(x.data(), count));
          const bool kept = decoded(*codec, encoded(*codec, {}, 0, y), count) == y;  // with the same unit
          CHECK(kept);
        }
      }
    }
  }
}

TEST_CASE("error_bounded makes the same values with rows of any length") {
  for (const std::string bound :
       {"absolute=1e-4", "absolute=0.3", "absolute=1e30", "absolute=0", "relative=1e-3", "relative=1e-6"}) {
    for (const Field kind : all_fields) {
      for (const std::int64_t count : {1, 63, 65, 577, 20'011}) {
        std::vector<float> x = field(kind, count);
        if (count > 1000) x[700] = std::numeric_limits<float>::infinity(), x[800] = reference::nan, x[801] = -x[801] * 1e20F;
        const std::vector<float> plain = through({"error_bounded", bound}, {}, x);
        for (const std::int64_t row : {64, 65, 100, 127, 1000, 30'000}) {
          const CodecCase what{"error_bounded", fmt::format("{},row={}", bound, row)};
          INFO(what.text() << ", kind " << static_cast<int>(kind) << ", " << count);
          const std::vector<float> y = through(what, {}, x);
          CHECK(std::equal(y.begin(), y.end(), plain.begin(), plain.end(), same_number));
        }
      }
    }
  }
}

TEST_CASE("error_bounded keeps NaN and infinity, and their neighbours within the bound") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::string parameters : {"absolute=0.01", "relative=0.001"}) {
    std::vector<float> x = field(Field::waves_3d, 1000);
    const double bound = reference::bound_of(x, 0.01, parameters == "relative=0.001" ? 0.001 : 0);
    x[10] = infinity, x[500] = -infinity, x[501] = reference::nan, x[999] = reference::nan;
    const std::vector<float> y = through({"error_bounded", parameters}, {}, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool within = std::isfinite(x[i]) && std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])) <= bound;
      CHECK((within || (!std::isfinite(x[i]) && same_number(x[i], y[i]))));
    }
  }
}

TEST_CASE("error_bounded sends smooth fields in a tenth of their bytes, and zeros in a byte for each 64") {
  const auto bytes_of = [](const std::vector<float>& x, const std::string& parameters) {
    return encoded(*CodecCase{"error_bounded", parameters}.make(), {}, 0, x).size();
  };
  for (const Field kind : {Field::waves_2d, Field::waves_3d}) {
    const std::vector<float> x = field(kind, 1'000'000);
    const std::string row = kind == Field::waves_2d ? ",row=1000" : ",row=100";
    CHECK(bytes_of(x, "relative=0.001") <= 360'000);
    CHECK(bytes_of(x, "relative=0.001" + row) <= 360'000);
    CHECK(5 * bytes_of(x, "relative=0.000001" + row) <= 4 * bytes_of(x, "relative=0.000001"));
  }
  std::vector<float> noise(1'000'000);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>((i * 2654435761U) >> 16 & 127);
  CHECK(bytes_of(noise, "absolute=0.5") <= 1'030'000);  // differences of differences would take a bit more
  for (const std::string parameters : {"absolute=0.01", "relative=0.001", "absolute=0"})
    CHECK(encoded(*CodecCase{"error_bounded", parameters}.make(), {}, 0, std::vector<float>(6400)).size() == 104 + 8);
  const std::vector<float> constant(6400, 3.25F);
  CHECK(encoded(*CodecCase{"error_bounded", "absolute=0.01"}.make(), {}, 0, constant).size() == 104 + 8);
}

TEST_CASE("8-bit quantisation takes the nearest value of the tree") {
  const auto& tree = reference::dynamic_tree();
  CHECK(std::is_sorted(tree.begin(), tree.end()));
  for (const Numbers kind : {Numbers::heavy_tailed, Numbers::ties, Numbers::few_nonzeros, Numbers::mixed_sizes}) {
    std::vector<float> x = numbers(kind, 20000);
    if (kind == Numbers::heavy_tailed) {
      for (float& value : x) value = std::pow(value * 10, 3.0f);  // all seven decades
    }
    const std::vector<float> y = through({"eight_bit", ""}, {}, x);
    double most = 0;
    for (const float value : x) most = std::max(most, std::abs(static_cast<double>(value)));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double magnitude = std::abs(static_cast<double>(x[i])) / most;
      double nearest = 1;
      for (const double value : tree) nearest = std::min(nearest, std::abs(value - magnitude));
      const double error = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])) / most;
      worst = std::max(worst, error - nearest - 1e-6 * magnitude);
      if (y[i] != 0) CHECK(std::signbit(x[i]) == std::signbit(y[i]));
    }
    CHECK(worst <= 0);
  }
}

}  // namespace
