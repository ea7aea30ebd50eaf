#include "codec/wire.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>

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

/// Smallest number of entries that pays for waking a thread, which takes about as long as encoding them. Parts of entries and of
/// bits begin at multiples of `step`. A message has at most `most_parts` parts.
constexpr std::int64_t least = 65536, step = 64;
constexpr int most_parts = 32;

/// Values converted at a time if they are not contiguous in the message.
constexpr std::int64_t block = 256;

/// An unsigned integer as large as a native value on the wire.
template <class T>
using NativeWord = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Calls body with zero in an unsigned integer as large as a value on the wire.
template <class T, class Body>
auto with_word(WireValues values, const Body& body) {
  return values == WireValues::native ? body(NativeWord<T>{0}) : body(std::uint16_t{0});
}

/// Word: an unsigned integer as large as a value on the wire.
template <class Word, class T>
void encode_dense(Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                  std::uint64_t range, std::byte* out) {
  std::memset(out, 0xff, range * sizeof(Word));
  std::byte packed[block * sizeof(Word)];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    pack_values(wire.values, values + begin, length, packed, wire.halvings);
    for (std::int64_t i = 0; i < length; ++i) {
      std::memcpy(out + (indices[begin + i] - base) * sizeof(Word), packed + static_cast<std::size_t>(i) * sizeof(Word),
                  sizeof(Word));
    }
  }
}

template <class T>
struct Entries {
  const std::uint32_t* indices;
  const T* values;
  std::int64_t count;
};

/// Encodes the entries that lie in `mine` of the range.
template <class T>
void encode_dense_part(Wire wire, Entries<T> entries, std::uint32_t base, PartRange mine, std::byte* out) {
  const auto before = [&](std::int64_t element) {
    const auto index = base + static_cast<std::uint64_t>(element);
    return std::lower_bound(entries.indices, entries.indices + entries.count, index) - entries.indices;
  };
  const std::int64_t first = before(mine.begin);
  with_word<T>(wire.values, [&](auto zero) {
    using Word = decltype(zero);
    encode_dense<Word>(wire, entries.indices + first, entries.values + first, before(mine.end) - first,
                       base + static_cast<std::uint32_t>(mine.begin), static_cast<std::uint64_t>(mine.count()),
                       out + mine.begin * static_cast<std::int64_t>(sizeof(Word)));
  });
}

/// Returns false if there are not exactly `count` entries.
template <class Word, class T>
bool decode_dense(Wire wire, const std::byte* in, std::int64_t count, std::uint32_t base, std::uint64_t range,
                  std::uint32_t* indices, T* values) {
  T unpacked[block];
  std::int64_t found = 0;
  for (std::uint64_t begin = 0; begin < range; begin += block) {
    const std::uint64_t length = std::min<std::uint64_t>(block, range - begin);
    unpack_values(wire.values, in + begin * sizeof(Word), static_cast<std::int64_t>(length), unpacked, wire.halvings);
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

/// Returns the number of entries.
template <class Word>
std::int64_t count_dense(const std::byte* in, std::int64_t range) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < range; ++i) {
    Word value;
    std::memcpy(&value, in + i * static_cast<std::int64_t>(sizeof(Word)), sizeof value);
    found += value != static_cast<Word>(-1);
  }
  return found;
}

/// A place to cut a bit vector: before an entry, at a whole byte.
struct Cut {
  std::int64_t entry = 0;
  std::uint64_t bit = 0;  ///< at least `entry` if there are low bits
};

/// Returns a cut near entry i.
Cut cut_at(const Layout& layout, const std::uint32_t* indices, std::int64_t i, std::int64_t count, std::uint32_t base) {
  const auto bit_of = [&](std::int64_t entry) {
    return std::uint64_t{(indices[entry] - base) >> layout.low_bits} +
           (layout.low_bits != 0 ? static_cast<std::uint64_t>(entry) : 0);
  };
  if (i == 0) return {};
  if (i == count) return {count, layout.bits};
  const std::uint64_t bit = std::min((bit_of(i) + 7) / 8 * 8, layout.bits);
  while (i < count && bit_of(i) < bit) ++i;
  return {i, bit};
}

/// Writes the part of the bit vector for the entries near `mine`.
void pack_bits_part(const Layout& layout, const std::uint32_t* indices, PartRange mine, std::int64_t count, std::uint32_t base,
                    std::byte* out) {
  const Cut from = cut_at(layout, indices, mine.begin, count, base), to = cut_at(layout, indices, mine.end, count, base);
  // Entry i with high bits h has bit h + i. Both are smaller when counted from the cut.
  const std::uint64_t high = from.bit - (layout.low_bits != 0 ? static_cast<std::uint64_t>(from.entry) : 0);
  pack_bits(layout.low_bits, indices + from.entry, to.entry - from.entry,
            base + static_cast<std::uint32_t>(high << layout.low_bits), to.bit - from.bit, out + from.bit / 8);
}

/// Encodes entries `mine` of a message that is not dense.
template <class T>
void encode_part(const Layout& layout, Wire wire, Entries<T> entries, std::uint32_t base, PartRange mine, std::byte* out) {
  pack_values(wire.values, entries.values + mine.begin, mine.count(), out + mine.begin * bytes_of_value<T>(wire.values),
              wire.halvings);
  std::byte* const low = out + layout.value_bytes;
  if (layout.form == Form::coo) return pack_coo(entries.indices + mine.begin, mine.count(), base, low + 4 * mine.begin);
  if (layout.form == Form::elias_fano) pack_low(layout.low_bits, entries.indices, mine, entries.count, base, low);
  pack_bits_part(layout, entries.indices, mine, entries.count, base, low + layout.low_bytes);
}

/// A message that is being read.
struct Message {
  const Layout& layout;
  Wire wire;
  const std::byte* in;
  std::int64_t count;
  std::uint32_t base;
  std::int64_t range;

  [[nodiscard]] const std::byte* low() const { return in + layout.value_bytes; }
  [[nodiscard]] const std::byte* bits() const { return low() + layout.low_bytes; }
  [[nodiscard]] PartRange part_of_bits(int part, int parts) const {
    return part_range(static_cast<std::int64_t>(layout.bits), step, part, parts);
  }
};

/// Returns the number of entries in a part.
template <class T>
std::int64_t count_part(const Message& m, int part, int parts) {
  if (parts == 1) return m.count;
  if (m.layout.form == Form::coo) return part_range(m.count, step, part, parts).count();
  if (m.layout.form != Form::dense) return count_bits(m.bits(), m.part_of_bits(part, parts));
  const PartRange mine = part_range(m.range, step, part, parts);
  return with_word<T>(m.wire.values, [&](auto zero) {
    using Word = decltype(zero);
    return count_dense<Word>(m.in + mine.begin * static_cast<std::int64_t>(sizeof(Word)), mine.count());
  });
}

/// Decodes all of a part except the values, which are those of `entries`; for `dense`, the values too. Returns false if the part
/// has another number of entries.
template <class T>
bool decode_part(const Message& m, int part, int parts, PartRange entries, std::uint32_t* indices, T* values) {
  if (m.layout.form == Form::dense) {
    const PartRange mine = part_range(m.range, step, part, parts);
    return with_word<T>(m.wire.values, [&](auto zero) {
      using Word = decltype(zero);
      return decode_dense<Word>(m.wire, m.in + mine.begin * static_cast<std::int64_t>(sizeof(Word)), entries.count(),
                                m.base + static_cast<std::uint32_t>(mine.begin), static_cast<std::uint64_t>(mine.count()),
                                indices + entries.begin, values + entries.begin);
    });
  }
  if (m.layout.form != Form::coo)
    return unpack_bits(m.layout.low_bits, m.low(), m.bits(), m.part_of_bits(part, parts), entries, m.count, m.base, indices);
  unpack_coo(m.low() + 4 * entries.begin, entries.count(), m.base, indices + entries.begin);
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
                    std::uint64_t range, std::byte* out, const Threads& threads) {
  const Layout layout = layout_for<T>(wire, count, range);
  if (layout.form == Form::empty) return 0;
  const int parts = threads.parts(count, least);
  threads.run(parts, [&](int part) {
    if (layout.form == Form::dense)
      encode_dense_part<T>(wire, {indices, values, count}, base, part_range(static_cast<std::int64_t>(range), step, part, parts),
                           out);
    else
      encode_part<T>(layout, wire, {indices, values, count}, base, part_range(count, step, part, parts), out);
  });
  return layout.bytes();
}

template <class T>
void decode(Wire wire, const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values, const Threads& threads) {
  const auto refuse = [&](std::string_view what) {
    fail(WEIR_ERR_TRANSPORT, "malformed message of {} entries in a range of {} ({}): {}", count, range,
         format_name<T>(wire, count, range), what);
  };
  if (count < 0 || static_cast<std::uint64_t>(count) > range) refuse("it cannot have that many entries");
  const Layout layout = layout_for<T>(wire, count, range);
  if (bytes != layout.bytes()) refuse(fmt::format("it has {} bytes instead of {}", bytes, layout.bytes()));
  if (layout.form == Form::empty) return;

  const Message message{layout, wire, in, count, base, static_cast<std::int64_t>(range)};
  const int parts = std::min(threads.parts(count, least), most_parts);
  std::array<std::int64_t, most_parts + 1> first{};  // entries before each part
  threads.run(parts, [&](int part) {
    first[static_cast<std::size_t>(part) + 1] = count_part<T>(message, part, parts);
    if (layout.form == Form::dense) return;
    const PartRange mine = part_range(count, step, part, parts);
    unpack_values(wire.values, in + mine.begin * bytes_of_value<T>(wire.values), mine.count(), values + mine.begin, wire.halvings);
  });
  std::partial_sum(first.begin(), first.begin() + parts + 1, first.begin());
  std::atomic<bool> complete = first[static_cast<std::size_t>(parts)] == count, ascending = true;
  if (complete) {
    threads.run(parts, [&](int part) {
      const PartRange mine{first[static_cast<std::size_t>(part)], first[static_cast<std::size_t>(part) + 1]};
      if (!decode_part(message, part, parts, mine, indices, values)) complete = false;
      if (!strictly_ascending(indices + mine.begin, mine.count())) ascending = false;
    });
  }
  if (!complete) refuse("it holds another number of entries");
  for (int part = 1; part < parts; ++part) {
    const std::int64_t at = first[static_cast<std::size_t>(part)];
    if (at > 0 && at < count && indices[at - 1] >= indices[at]) ascending = false;
  }
  if (!ascending) refuse("its indices are not ascending");
  // Indices ascend, so these two bound all, even if additions of `base` have wrapped around.
  if (indices[0] < base || indices[count - 1] - std::uint64_t{base} >= range) refuse("an index lies outside the range");
}

#define WEIR_INSTANTIATE(T)                                                                                                  \
  template std::int64_t message_bytes<T>(Wire, std::int64_t, std::uint64_t);                                                 \
  template std::string_view format_name<T>(Wire, std::int64_t, std::uint64_t);                                               \
  template std::int64_t encode(Wire, const std::uint32_t*, const T*, std::int64_t, std::uint32_t, std::uint64_t, std::byte*, \
                               const Threads&);                                                                              \
  template void decode(Wire, const std::byte*, std::int64_t, std::int64_t, std::uint32_t, std::uint64_t, std::uint32_t*, T*, \
                       const Threads&);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::wire
