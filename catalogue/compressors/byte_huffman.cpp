#include "catalogue/compressors/byte_huffman.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.hpp"

namespace weir::compress {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int longest = 11;
constexpr int streams = 4;
constexpr std::int64_t entries = 1 << longest;

enum Kind : std::uint8_t { plain, constant, huffman };

using Counts = std::array<std::uint32_t, 256>;
using Lengths = std::array<std::uint8_t, 256>;

struct Code {
  std::uint16_t bits = 0, length = 0;
};

[[noreturn]] void malformed(const char* what) { fail(WEIR_ERR_TRANSPORT, "a compressed message is malformed: {}", what); }

template <class T>
T load(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
void store(T x, std::byte* to) {
  std::memcpy(to, &x, sizeof x);
}

/// Returns how many values are in the streams before `stream`.
constexpr std::int64_t stream_begin(std::int64_t count, int stream) { return stream == streams ? count : count / streams * stream; }

Counts count_values(const std::uint8_t* values, std::int64_t count) {
  std::array<Counts, 4> parts{};  // several, since equal neighbours would wait for each other
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto eight = load<std::uint64_t>(reinterpret_cast<const std::byte*>(values + i));
    for (int j = 0; j < 8; ++j) ++parts[static_cast<std::size_t>(j % 4)][eight >> (8 * j) & 0xff];
  }
  for (; i < count; ++i) ++parts[0][values[i]];
  Counts total;
  for (std::size_t v = 0; v < total.size(); ++v) total[v] = parts[0][v] + parts[1][v] + parts[2][v] + parts[3][v];
  return total;
}

/// Returns the lengths of the best code; the longest may be too long. There must be at least two different values.
Lengths best_lengths(const Counts& counts) {
  struct Node {
    std::uint32_t weight;
    std::int16_t parent;
  };
  std::array<std::uint8_t, 256> leaves{};
  int size = 0;
  for (int v = 0; v < 256; ++v) {
    if (counts[static_cast<std::size_t>(v)] != 0) leaves[static_cast<std::size_t>(size++)] = static_cast<std::uint8_t>(v);
  }
  std::sort(leaves.begin(), leaves.begin() + size,
            [&](std::uint8_t a, std::uint8_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a < b; });
  std::array<Node, 511> nodes;
  for (int i = 0; i < size; ++i) nodes[static_cast<std::size_t>(i)] = {counts[leaves[static_cast<std::size_t>(i)]], 0};
  // Leaves, and the nodes made of the two lightest, are each in order of weight.
  int leaf = 0, made = size;
  for (int next = size; next < 2 * size - 1; ++next) {
    std::uint32_t weight = 0;
    for (int child = 0; child < 2; ++child) {
      const bool from_leaves = leaf < size && (made == next || nodes[static_cast<std::size_t>(leaf)].weight <=
                                                                   nodes[static_cast<std::size_t>(made)].weight);
      Node& lightest = nodes[static_cast<std::size_t>(from_leaves ? leaf++ : made++)];
      weight += lightest.weight;
      lightest.parent = static_cast<std::int16_t>(next);
    }
    nodes[static_cast<std::size_t>(next)] = {weight, 0};
  }
  std::array<std::uint8_t, 511> depth{};
  Lengths lengths{};
  for (int i = 2 * size - 3; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    depth[at] = static_cast<std::uint8_t>(depth[static_cast<std::size_t>(nodes[at].parent)] + 1);
    if (i < size) lengths[leaves[at]] = depth[at];
  }
  return lengths;
}

Lengths code_lengths(Counts counts) {
  for (;;) {
    const Lengths lengths = best_lengths(counts);
    if (*std::max_element(lengths.begin(), lengths.end()) <= longest) return lengths;
    for (std::uint32_t& count : counts) count = count == 0 ? 0 : count / 2 + 1;  // makes rare values less rare
  }
}

constexpr std::uint16_t reversed(std::uint32_t bits, int length) {
  std::uint32_t result = 0;
  for (int i = 0; i < length; ++i) result |= (bits >> i & 1) << (length - 1 - i);
  return static_cast<std::uint16_t>(result);
}

/// Returns the canonical codes: shorter codes first, values of the same length in their order. The lengths fill the code exactly.
std::array<Code, 256> codes_of(const Lengths& lengths) {
  std::array<Code, 256> codes{};
  std::uint32_t next = 0;
  for (int length = 1; length <= longest; ++length) {
    for (std::size_t v = 0; v < codes.size(); ++v) {
      if (lengths[v] == length) codes[v] = {reversed(next++, length), static_cast<std::uint16_t>(length)};
    }
    next <<= 1;
  }
  return codes;
}

/// Encodes one stream. Returns its end. Up to 7 more bytes are written.
std::byte* encode_stream(const std::array<Code, 256>& codes, const std::uint8_t* values, std::int64_t count, std::byte* out) {
  std::uint64_t bits = 0;
  unsigned filled = 0;
  const auto push = [&](std::uint8_t value) {
    const Code code = codes[value];
    bits |= std::uint64_t{code.bits} << filled;
    filled += code.length;
  };
  const auto flush = [&] {
    store(bits, out);
    out += filled / 8;
    bits >>= filled / 8 * 8;
    filled %= 8;
  };
  std::int64_t i = 0;
  for (; i + 5 <= count; i += 5) {  // at most 7 bits are left, and 5 codes have at most 55
    for (int j = 0; j < 5; ++j) push(values[i + j]);
    flush();
  }
  for (; i < count; ++i) push(values[i]);
  flush();
  if (filled > 0) *out++ = static_cast<std::byte>(bits);
  return out;
}

std::int64_t encode_plain(const std::uint8_t* values, std::int64_t count, std::byte* out) {
  *out = std::byte{plain};
  std::memcpy(out + 1, values, static_cast<std::size_t>(count));
  return 1 + count;
}

/// Decodes the beginning of `bits`, the next ones of a stream: up to four values, and their number and bits.
struct Entry {
  std::uint32_t values;
  std::uint8_t count, bits;
};

class Decoder {
 public:
  explicit Decoder(const Lengths& lengths) : lengths_(lengths) {
    const std::array<Code, 256> codes = codes_of(lengths);
    std::array<std::uint8_t, entries> first;
    for (std::size_t v = 0; v < codes.size(); ++v) {
      if (codes[v].length == 0) continue;
      for (std::int64_t at = codes[v].bits; at < entries; at += std::int64_t{1} << codes[v].length)
        first[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(v);
    }
    for (std::size_t at = 0; at < table_.size(); ++at) {
      Entry entry{0, 0, 0};
      while (entry.count < 4) {
        const std::uint8_t value = first[at >> entry.bits];
        if (entry.bits + lengths[value] > longest) break;
        entry.values |= std::uint32_t{value} << (8 * entry.count++);
        entry.bits = static_cast<std::uint8_t>(entry.bits + lengths[value]);
      }
      table_[at] = entry;
    }
  }

  struct Stream {
    std::uint8_t *out, *end;
    const std::byte* begin;
    std::int64_t size;     ///< bytes
    std::int64_t bit = 0;  ///< bits that have been decoded
  };
  static constexpr std::int64_t most_at_once = 5 * 4;

  /// Decodes some values, up to most_at_once, which must be left. Eight bytes from the current one on must be readable.
  void some(Stream& stream) const {
    std::uint64_t bits = load<std::uint64_t>(stream.begin + stream.bit / 8) >> (stream.bit % 8);
    for (int lookup = 0; lookup < 5; ++lookup) {
      const Entry entry = table_[bits % entries];
      std::memcpy(stream.out, &entry.values, 4);
      stream.out += entry.count;
      stream.bit += entry.bits;
      bits >>= entry.bits;
    }
  }
  [[nodiscard]] static bool has_some(const Stream& stream, const std::byte* readable_end) {
    return stream.end - stream.out >= most_at_once && readable_end - stream.begin - stream.bit / 8 >= 8;
  }
  /// Decodes the rest of a stream.
  void finish(Stream& stream, const std::byte* readable_end) const {
    while (has_some(stream, readable_end)) some(stream);
    while (stream.out < stream.end) {
      const std::int64_t left = stream.size - stream.bit / 8;
      if (left <= 0) malformed("a stream of codes ends early");
      std::uint64_t bits = 0;
      std::memcpy(&bits, stream.begin + stream.bit / 8, static_cast<std::size_t>(std::min<std::int64_t>(left, 8)));
      const auto value = static_cast<std::uint8_t>(table_[(bits >> (stream.bit % 8)) % entries].values);
      *stream.out++ = value;
      stream.bit += lengths_[value];
    }
    if ((stream.bit + 7) / 8 != stream.size) malformed("a stream of codes has another length than it says");
  }

 private:
  Lengths lengths_;
  std::array<Entry, entries> table_;
};

void check_lengths(const Lengths& lengths) {
  std::int64_t filled = 0;
  for (const std::uint8_t length : lengths) {
    if (length > longest) malformed("a code is too long");
    if (length > 0) filled += entries >> length;
  }
  if (filled != entries) malformed("lengths of codes make no code");
}

}  // namespace

std::int64_t encode_block(const std::uint8_t* values, std::int64_t count, std::byte* out) {
  const Counts counts = count_values(values, count);
  int least = 0, greatest = 255;
  while (counts[static_cast<std::size_t>(least)] == 0) ++least;
  while (counts[static_cast<std::size_t>(greatest)] == 0) --greatest;
  if (least == greatest) {
    out[0] = std::byte{constant};
    out[1] = static_cast<std::byte>(least);
    return 2;
  }
  const Lengths lengths = code_lengths(counts);
  std::uint64_t bits = 0;
  for (std::size_t v = 0; v < counts.size(); ++v) bits += std::uint64_t{counts[v]} * lengths[v];
  const std::int64_t header = 3 + (greatest - least + 2) / 2 + streams * 4;
  if (header + static_cast<std::int64_t>(bits / 8) + streams >= 1 + count) return encode_plain(values, count, out);
  std::byte* to = out;
  *to++ = std::byte{huffman};
  *to++ = static_cast<std::byte>(least);
  *to++ = static_cast<std::byte>(greatest);
  for (int v = least; v <= greatest; v += 2) {
    const unsigned second = v < greatest ? lengths[static_cast<std::size_t>(v + 1)] : 0;
    *to++ = static_cast<std::byte>(lengths[static_cast<std::size_t>(v)] | second << 4);
  }
  std::byte* const sizes = to;
  to += streams * 4;
  const std::array<Code, 256> codes = codes_of(lengths);
  for (int stream = 0; stream < streams; ++stream) {
    const std::int64_t begin = stream_begin(count, stream);
    std::byte* const end = encode_stream(codes, values + begin, stream_begin(count, stream + 1) - begin, to);
    store(static_cast<std::uint32_t>(end - to), sizes + stream * 4);
    to = end;
  }
  return to - out;
}

std::int64_t decode_block(const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint8_t* values) {
  const auto needs = [&](std::int64_t size) {
    if (size > bytes) malformed("it ends early");
  };
  needs(2);
  if (in[0] == std::byte{plain}) {
    needs(1 + count);
    std::memcpy(values, in + 1, static_cast<std::size_t>(count));
    return 1 + count;
  }
  if (in[0] == std::byte{constant}) {
    std::memset(values, static_cast<int>(in[1]), static_cast<std::size_t>(count));
    return 2;
  }
  if (in[0] != std::byte{huffman}) malformed("a block is of no known kind");
  needs(3);
  const int least = static_cast<int>(in[1]), greatest = static_cast<int>(in[2]);
  if (least >= greatest) malformed("a code has no values");
  std::int64_t at = 3;
  needs(at + (greatest - least + 2) / 2 + streams * 4);
  Lengths lengths{};
  for (int v = least; v <= greatest; v += 2) {
    const auto both = static_cast<unsigned>(in[at++]);
    lengths[static_cast<std::size_t>(v)] = both & 0xf;
    if (v < greatest)
      lengths[static_cast<std::size_t>(v + 1)] = static_cast<std::uint8_t>(both >> 4);
    else if (both >> 4 != 0)
      malformed("a code has more values than it says");
  }
  check_lengths(lengths);
  std::array<Decoder::Stream, streams> stream;
  std::int64_t begin = at + streams * 4;
  for (int s = 0; s < streams; ++s) {
    const auto size = std::int64_t{load<std::uint32_t>(in + at + s * 4)};
    needs(begin + size);
    stream[static_cast<std::size_t>(s)] = {values + stream_begin(count, s), values + stream_begin(count, s + 1), in + begin, size};
    begin += size;
  }
  const Decoder decoder(lengths);
  const std::byte* const readable_end = in + bytes;
  Decoder::Stream &a = stream[0], &b = stream[1], &c = stream[2], &d = stream[3];
  const auto all_have_some = [&] {
    return Decoder::has_some(a, readable_end) && Decoder::has_some(b, readable_end) && Decoder::has_some(c, readable_end) &&
           Decoder::has_some(d, readable_end);
  };
  while (all_have_some()) {
    decoder.some(a);
    decoder.some(b);
    decoder.some(c);
    decoder.some(d);
  }
  for (Decoder::Stream& each : stream) decoder.finish(each, readable_end);
  return begin;
}

}  // namespace weir::compress
