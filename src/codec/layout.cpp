#include "codec/layout.hpp"

namespace weir::wire {
namespace {

Layout elias_fano(int low_bits, std::int64_t value_bytes, std::int64_t count, std::uint64_t range) {
  return {.form = Form::elias_fano,
          .low_bits = low_bits,
          .value_bytes = count * value_bytes,
          .low_bytes = (count * low_bits + 7) / 8,
          .bits = static_cast<std::uint64_t>(count) + ((range - 1) >> low_bits)};
}

}  // namespace

Layout layout_of(WireFormat format, std::int64_t value_bytes, std::int64_t count, std::uint64_t range) {
  if (count <= 0) return {};
  Layout best{.form = Form::coo, .value_bytes = count * value_bytes, .low_bytes = count * 4};
  if (format == WireFormat::coo || static_cast<std::uint64_t>(count) > range) return best;
  // Considered in the order of reading speed: of equal sizes the first stays.
  const auto consider = [&best](const Layout& other) {
    if (other.bytes() < best.bytes()) best = other;
  };
  consider({.form = Form::dense, .value_bytes = static_cast<std::int64_t>(range) * value_bytes});
  consider({.form = Form::bitmap, .value_bytes = count * value_bytes, .bits = range});
  for (const int low_bits : {8, 16, 4, 12}) consider(elias_fano(low_bits, value_bytes, count, range));
  return best;
}

}  // namespace weir::wire
