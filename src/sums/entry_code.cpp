#include "sums/entry_code.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace weir::sums {
namespace {

constexpr std::int64_t word_bits = 64, most_low_bits = 56;  // low bits are read from 8 bytes at any bit of the first

std::int64_t words_of(std::int64_t bits) { return (bits + word_bits - 1) / word_bits; }

/// The layout of Elias-Fano: the words of low bits, then those of high bits.
struct Layout {
  int low_bits;
  std::int64_t low_words, high_words;

  Layout(std::int64_t count, std::int64_t range)
      : low_bits(
            static_cast<int>(std::min<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(range / count)) - 1, most_low_bits))),
        low_words(words_of(count * low_bits)),
        high_words(words_of(count + ((range - 1) >> low_bits))) {}
  [[nodiscard]] std::int64_t bytes() const { return 8 * (low_words + high_words); }
};

/// Returns the range of what travels for indices of a range.
std::int64_t travelling_range(std::int64_t count, std::int64_t range, bool repeats) { return repeats ? range + count - 1 : range; }

bool is_full(std::int64_t count, std::int64_t range) { return count == range; }
bool is_bitmap(std::int64_t count, std::int64_t range) { return 8 * words_of(range) <= Layout(count, range).bytes(); }

std::uint64_t load(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void store(std::byte* at, std::uint64_t word) { std::memcpy(at, &word, sizeof word); }

/// Writes words of bits that are set in ascending order.
class AscendingBits {
 public:
  explicit AscendingBits(std::byte* words) : next_(words) {}
  void set(std::int64_t bit) {
    end(bit / word_bits);
    word_ |= std::uint64_t{1} << (bit % word_bits);
  }
  /// Writes all words before number `word`.
  void end(std::int64_t word) {
    for (; written_ < word; ++written_, next_ += 8) store(next_, std::exchange(word_, 0));
  }

 private:
  std::byte* next_;
  std::int64_t written_ = 0;
  std::uint64_t word_ = 0;  // of bits in word `written_`
};

[[noreturn]] void fail_malformed() { fail(WEIR_ERR_TRANSPORT, "a message of a sparse sum is damaged: its indices do not ascend"); }

void decode_bitmap(const std::byte* in, std::int64_t count, std::int64_t base, std::int64_t range, std::int64_t* indices) {
  std::int64_t found = 0;
  for (std::int64_t word = 0; word < words_of(range); ++word) {
    for (std::uint64_t bits = load(in + 8 * word); bits != 0; bits &= bits - 1) {
      const std::int64_t index = word * word_bits + std::countr_zero(bits);
      if (found == count || index >= range) fail_malformed();
      indices[found++] = base + index;
    }
  }
  if (found != count) fail_malformed();
}

void decode_elias_fano(const std::byte* in, std::int64_t count, std::int64_t base, std::int64_t range, std::int64_t* indices) {
  const Layout layout(count, range);
  const std::uint64_t mask = (std::uint64_t{1} << layout.low_bits) - 1;
  const std::byte* const high = in + 8 * layout.low_words;
  std::int64_t found = 0, previous = -1;
  for (std::int64_t word = 0; word < layout.high_words; ++word) {
    for (std::uint64_t bits = load(high + 8 * word); bits != 0; bits &= bits - 1) {
      if (found == count) fail_malformed();
      const std::int64_t upper = word * word_bits + std::countr_zero(bits) - found, position = found * layout.low_bits;
      const std::uint64_t lower = load(in + position / 8) >> (position % 8) & mask;
      const std::int64_t index = upper << layout.low_bits | static_cast<std::int64_t>(lower);
      if (index <= previous || index >= range) fail_malformed();
      indices[found++] = base + index;
      previous = index;
    }
  }
  if (found != count) fail_malformed();
}

}  // namespace

std::int64_t index_bytes(std::int64_t count, std::int64_t range, bool repeats) {
  range = travelling_range(count, range, repeats);
  if (count == 0 || is_full(count, range)) return 0;
  return std::min(8 * words_of(range), Layout(count, range).bytes());
}

void encode_indices(const std::int64_t* indices, std::int64_t count, std::int64_t base, std::int64_t range, std::byte* out,
                    bool repeats) {
  range = travelling_range(count, range, repeats);
  if (count == 0 || is_full(count, range)) return;
  const std::int64_t step = repeats ? 1 : 0;
  if (is_bitmap(count, range)) {
    AscendingBits bits(out);
    for (std::int64_t i = 0; i < count; ++i) bits.set(indices[i] - base + step * i);
    bits.end(words_of(range));
    return;
  }
  const Layout layout(count, range);
  const std::uint64_t mask = (std::uint64_t{1} << layout.low_bits) - 1;
  AscendingBits high(out + 8 * layout.low_words);
  std::uint64_t word = 0;
  int filled = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[i] - base + step * i;
    const std::uint64_t low = static_cast<std::uint64_t>(index) & mask;
    high.set((index >> layout.low_bits) + i);
    word |= low << filled;
    filled += layout.low_bits;
    if (filled < word_bits) continue;
    store(out, word);
    out += 8;
    filled -= static_cast<int>(word_bits);
    word = low >> (layout.low_bits - filled);
  }
  if (filled > 0) store(out, word);
  high.end(layout.high_words);
}

void decode_indices(const std::byte* in, std::int64_t count, std::int64_t base, std::int64_t range, std::int64_t* indices,
                    bool repeats) {
  if (count == 0) return;
  range = travelling_range(count, range, repeats);
  if (is_full(count, range))
    std::iota(indices, indices + count, base);
  else if (is_bitmap(count, range))
    decode_bitmap(in, count, base, range, indices);
  else
    decode_elias_fano(in, count, base, range, indices);
  if (!repeats) return;
  for (std::int64_t i = 0; i < count; ++i) indices[i] -= i;
}

}  // namespace weir::sums
