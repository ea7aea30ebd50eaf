// test_resampling.cpp: resized images against the same computation in real numbers.
#include <algorithm>
#include <cmath>

#include "datacache/resampling.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"

namespace weir::test {
namespace {

using datacache::Between;
using datacache::CentredCrop;
using datacache::Extent2;

struct Picture {
  Extent2 extent;
  std::vector<std::byte> pixels;

  explicit Picture(Extent2 of) : extent(of), pixels(3 * static_cast<std::size_t>(of.height) * static_cast<std::size_t>(of.width)) {}
  [[nodiscard]] std::span<const std::byte> line(int y) const {
    const std::size_t bytes = 3 * static_cast<std::size_t>(extent.width);
    return std::span(pixels).subspan(static_cast<std::size_t>(y) * bytes, bytes);
  }
  [[nodiscard]] double at(int y, int x, int colour) const {
    return std::to_integer<int>(line(y)[3 * static_cast<std::size_t>(x) + static_cast<std::size_t>(colour)]);
  }
  /// Interpolates between pixels. The outermost pixels extend beyond the image.
  [[nodiscard]] double at(double y, double x, int colour) const {
    y = std::clamp(y, 0.0, extent.height - 1.0);
    x = std::clamp(x, 0.0, extent.width - 1.0);
    const int y0 = static_cast<int>(y), x0 = static_cast<int>(x);
    const int y1 = std::min(y0 + 1, extent.height - 1), x1 = std::min(x0 + 1, extent.width - 1);
    const double above = at(y0, x0, colour) * (1 - (x - x0)) + at(y0, x1, colour) * (x - x0);
    const double below = at(y1, x0, colour) * (1 - (x - x0)) + at(y1, x1, colour) * (x - x0);
    return above * (1 - (y - y0)) + below * (y - y0);
  }
};

Picture resampled(const Picture& from, Extent2 to) {
  Picture result(to);
  const CentredCrop crop(from.extent, to);
  const std::size_t bytes = 3 * static_cast<std::size_t>(to.width);
  for (int y = 0; y < to.height; ++y) {
    const Between& at = crop.lines[static_cast<std::size_t>(y)];
    blend(from.line(at.first), from.line(at.second), at.weight, crop.columns,
          std::span(result.pixels).subspan(static_cast<std::size_t>(y) * bytes, bytes));
  }
  return result;
}

TEST_CASE("every pixel is where real numbers put it") {
  Dice dice(5);
  for (int round = 0; round < 200; ++round) {
    Picture from({dice.small(1, 40), dice.small(1, 40)});
    for (std::byte& value : from.pixels) value = static_cast<std::byte>(dice.word() & 0xff);
    const Extent2 to{dice.small(1, 40), dice.small(1, 40)};
    const Picture result = resampled(from, to);
    const double step =
        std::min(static_cast<double>(from.extent.height) / to.height, static_cast<double>(from.extent.width) / to.width);
    double worst = 0;
    for (int y = 0; y < to.height; ++y) {
      for (int x = 0; x < to.width; ++x) {
        const double there_y = (y + 0.5 - to.height / 2.0) * step + from.extent.height / 2.0 - 0.5;
        const double there_x = (x + 0.5 - to.width / 2.0) * step + from.extent.width / 2.0 - 0.5;
        for (int colour = 0; colour < 3; ++colour)
          worst = std::max(worst, std::abs(result.at(y, x, colour) - from.at(there_y, there_x, colour)));
      }
    }
    INFO(from.extent.height << " x " << from.extent.width << " to " << to.height << " x " << to.width);
    REQUIRE(worst < 0.5 + 2 * 255.0 / datacache::weights);
  }
}

TEST_CASE("an image of the right size stays as it is; a larger one loses its margins only") {
  Picture from({17, 23});
  for (std::size_t i = 0; i < from.pixels.size(); ++i) from.pixels[i] = static_cast<std::byte>(i * 7 & 0xff);
  CHECK(resampled(from, {17, 23}).pixels == from.pixels);
  const Picture square = resampled(from, {17, 17});
  for (int y = 0; y < 17; ++y) CHECK(std::equal(square.line(y).begin(), square.line(y).end(), from.line(y).begin() + 9));
}

}  // namespace
}  // namespace weir::test
