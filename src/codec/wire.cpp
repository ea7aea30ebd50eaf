#include "codec/wire.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "codec/parts.hpp"

namespace weir::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

template <class T>
Layout layout_for(Wire wire, std::int64_t count, std::uint64_t range) {
  return layout_of(wire.format, bytes_of_value<T>(wire.values), count, range);
}

std::string_view name(const Layout& layout) {
  switch (layout.form) {
    case Form::empty:
      return "empty";
    case Form::coo:
      return "coo";
    case Form::bitmap:
      return "bitmap";
    case Form::dense:
      return "dense";
    case Form::elias_fano:
      break;
  }
  switch (layout.low_bits) {
    case 4:
      return "elias_fano_4";
    case 8:
      return "elias_fano_8";
    case 12:
      return "elias_fano_12";
    default:
      return "elias_fano_16";
  }
}

/// Values converted at a time where they are not contiguous in the message.
constexpr std::int64_t block = 256;

/// An unsigned integer as large as a native value on the wire.
template <class T>
using NativeWord = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Word: an unsigned integer as large as a value on the wire.
template <class Word, class T>
void encode_dense(WireValues wire_values, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                  std::uint64_t range, std::byte* out) {
  std::memset(out, 0xff, range * sizeof(Word));
  std::byte packed[block * sizeof(Word)];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    pack_values(wire_values, values + begin, length, packed);
    for (std::int64_t i = 0; i < length; ++i) {
      std::memcpy(out + (indices[begin + i] - base) * sizeof(Word), packed + static_cast<std::size_t>(i) * sizeof(Word),
                  sizeof(Word));
    }
  }
}

/// False if there are not exactly `count` entries.
template <class Word, class T>
bool decode_dense(WireValues wire_values, const std::byte* in, std::int64_t count, std::uint32_t base, std::uint64_t range,
                  std::uint32_t* indices, T* values) {
  T unpacked[block];
  std::int64_t found = 0;
  for (std::uint64_t begin = 0; begin < range; begin += block) {
    const std::uint64_t length = std::min<std::uint64_t>(block, range - begin);
    unpack_values(wire_values, in + begin * sizeof(Word), static_cast<std::int64_t>(length), unpacked);
    for (std::uint64_t i = 0; i < length; ++i) {
      Word word;
      std::memcpy(&word, in + (begin + i) * sizeof(Word), sizeof word);
      const bool present = word != static_cast<Word>(-1);
      if (found == count) {
        if (present) return false;
        continue;
      }
      indices[found] = base + static_cast<std::uint32_t>(begin + i);
      values[found] = unpacked[i];
      found += present;
    }
  }
  return found == count;
}

/// False if the indices are not as many as announced.
template <class T>
bool decode_as(const Layout& layout, WireValues wire_values, const std::byte* in, std::int64_t count, std::uint32_t base,
               std::uint64_t range, std::uint32_t* indices, T* values) {
  if (layout.form == Form::dense) {
    if (wire_values == WireValues::native) return decode_dense<NativeWord<T>>(wire_values, in, count, base, range, indices, values);
    return decode_dense<std::uint16_t>(wire_values, in, count, base, range, indices, values);
  }
  unpack_values(wire_values, in, count, values);
  const std::byte* low = in + layout.value_bytes;
  if (layout.form != Form::coo) return unpack_bits(layout.low_bits, low, low + layout.low_bytes, layout.bits, count, base, indices);
  unpack_coo(low, count, base, indices);
  return true;
}

}  // namespace

template <class T>
std::int64_t message_bytes(Wire wire, std::int64_t count, std::uint64_t range) {
  return layout_for<T>(wire, count, range).bytes();
}

template <class T>
std::string_view format_name(Wire wire, std::int64_t count, std::uint64_t range) {
  return name(layout_for<T>(wire, count, range));
}

template <class T>
std::int64_t encode(Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                    std::uint64_t range, std::byte* out) {
  const Layout layout = layout_for<T>(wire, count, range);
  if (layout.form == Form::empty) return 0;
  if (layout.form == Form::dense) {
    if (wire.values == WireValues::native) {
      encode_dense<NativeWord<T>>(wire.values, indices, values, count, base, range, out);
    } else {
      encode_dense<std::uint16_t>(wire.values, indices, values, count, base, range, out);
    }
    return layout.bytes();
  }
  pack_values(wire.values, values, count, out);
  std::byte* low = out + layout.value_bytes;
  if (layout.form == Form::coo) {
    pack_coo(indices, count, base, low);
  } else {
    if (layout.form == Form::elias_fano) pack_low(layout.low_bits, indices, count, base, low);
    pack_bits(layout.low_bits, indices, count, base, layout.bits, low + layout.low_bytes);
  }
  return layout.bytes();
}

template <class T>
void decode(Wire wire, const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values) {
  const auto refuse = [&](std::string_view what) {
    fail(WEIR_ERR_TRANSPORT, "malformed message of {} entries in a range of {} ({}): {}", count, range,
         format_name<T>(wire, count, range), what);
  };
  if (count < 0 || static_cast<std::uint64_t>(count) > range) refuse("it cannot have that many entries");
  const Layout layout = layout_for<T>(wire, count, range);
  if (bytes != layout.bytes()) refuse(fmt::format("it has {} bytes instead of {}", bytes, layout.bytes()));
  if (layout.form == Form::empty) return;
  if (!decode_as(layout, wire.values, in, count, base, range, indices, values)) refuse("it holds another number of entries");
  if (!strictly_ascending(indices, count)) refuse("its indices are not ascending");
  // Ascending, so these two bound all, even where additions of `base` have wrapped around.
  if (indices[0] < base || indices[count - 1] - std::uint64_t{base} >= range) refuse("an index lies outside the range");
}

#define WEIR_INSTANTIATE(T)                                                                                                   \
  template std::int64_t message_bytes<T>(Wire, std::int64_t, std::uint64_t);                                                  \
  template std::string_view format_name<T>(Wire, std::int64_t, std::uint64_t);                                                \
  template std::int64_t encode(Wire, const std::uint32_t*, const T*, std::int64_t, std::uint32_t, std::uint64_t, std::byte*); \
  template void decode(Wire, const std::byte*, std::int64_t, std::int64_t, std::uint32_t, std::uint64_t, std::uint32_t*, T*);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::wire
