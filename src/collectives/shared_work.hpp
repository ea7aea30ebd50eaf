// shared_work.hpp: work on entries and dense parts in host memory that the threads of a rank share. The results are bitwise those
// of one thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/buffer.hpp"
#include "base/threads.hpp"
#include "codec/coo.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// Elements of a pass that pay for waking a thread; the alignment of parts, in elements.
inline constexpr std::int64_t least_of_pass = 262144, line = 64;

/// Computes y += x.
template <class T>
void add_values(const Threads& threads, const T* x, T* y, std::int64_t count) {
  threads.run_ranges(count, least_of_pass, line,
                     [=](PartRange mine) { kernels::host::add(x + mine.begin, y + mine.begin, mine.count()); });
}

/// Computes y = x.
template <class T>
void copy_values(const Threads& threads, const T* x, T* y, std::int64_t count) {
  threads.run_ranges(count, least_of_pass, line, [=](PartRange mine) { std::copy(x + mine.begin, x + mine.end, y + mine.begin); });
}

/// Sums of sorted sparse vectors.
template <class T>
class SharedMerge {
 public:
  using Segment = coo::Segment<T>;

  /// Shares sums of up to `most` entries together; one thread merges longer ones.
  SharedMerge(Threads threads, std::int64_t most)
      : threads_(std::move(threads)),
        most_parts_(threads_.parts(most, least)),
        counts_(static_cast<std::size_t>(most_parts_)),
        indices_(most_parts_ > 1 ? most : 0),
        values_(most_parts_ > 1 ? most : 0) {}

  /// Merges as kernels::host::merge_add does, into the memory of `to`. Returns the count.
  std::int64_t merge_add(const Segment& a, const Segment& b, const Segment& to) {
    const int parts = a.count + b.count > values_.size() ? 1 : std::min(most_parts_, threads_.parts(a.count + b.count, least));
    if (parts == 1) return merge({a, b, 0, a.count, 0, b.count}, to.indices, to.values);
    // Each part except the first goes to memory of its own, since the sizes of the parts before it are not known yet.
    threads_.run(parts, [&](int part) {
      const Piece piece = piece_of(a, b, part, parts);
      const std::int64_t place = piece.a_begin + piece.b_begin;
      counts_[static_cast<std::size_t>(part)] =
          merge(piece, part == 0 ? to.indices : indices_.data() + place, part == 0 ? to.values : values_.data() + place);
    });
    threads_.run(parts, [&](int copier) {
      std::int64_t at = counts_[0];
      for (int part = 1; part < parts; ++part) {
        const Piece piece = piece_of(a, b, part, parts);
        const std::int64_t count = counts_[static_cast<std::size_t>(part)], place = piece.a_begin + piece.b_begin;
        const PartRange mine = part_range(count, 1, copier, parts);
        std::copy_n(indices_.data() + place + mine.begin, mine.count(), to.indices + at + mine.begin);
        std::copy_n(values_.data() + place + mine.begin, mine.count(), to.values + at + mine.begin);
        at += count;
      }
    });
    return at_end(parts);
  }
  [[nodiscard]] std::int64_t memory_bytes() const { return indices_.bytes() + values_.bytes(); }

 private:
  /// Entries of both vectors that pay for waking a thread.
  static constexpr std::int64_t least = 32768;

  struct Piece {
    const Segment &a, &b;
    std::int64_t a_begin, a_end, b_begin, b_end;
  };

  /// Returns the part of an equal division of the longer vector, and the matching range of the other.
  static Piece piece_of(const Segment& a, const Segment& b, int part, int parts) {
    const bool by_a = a.count >= b.count;
    const Segment &longer = by_a ? a : b, &other = by_a ? b : a;
    const PartRange mine = part_range(longer.count, 1, part, parts);
    const auto begin_in_other = [&](std::int64_t at) {
      if (at == 0) return std::int64_t{0};
      if (at == longer.count) return other.count;
      return std::int64_t{std::lower_bound(other.indices, other.indices + other.count, longer.indices[at]) - other.indices};
    };
    const std::int64_t begin = begin_in_other(mine.begin), end = begin_in_other(mine.end);
    if (by_a) return {a, b, mine.begin, mine.end, begin, end};
    return {a, b, begin, end, mine.begin, mine.end};
  }
  static std::int64_t merge(const Piece& piece, std::uint32_t* indices, T* values) {
    const Segment &a = piece.a, &b = piece.b;
    return kernels::host::merge_add(a.indices + piece.a_begin, a.values + piece.a_begin, piece.a_end - piece.a_begin,
                                    b.indices + piece.b_begin, b.values + piece.b_begin, piece.b_end - piece.b_begin, indices,
                                    values);
  }
  [[nodiscard]] std::int64_t at_end(int parts) const {
    std::int64_t sum = 0;
    for (int part = 0; part < parts; ++part) sum += counts_[static_cast<std::size_t>(part)];
    return sum;
  }

  Threads threads_;
  int most_parts_;
  std::vector<std::int64_t> counts_;
  Buffer<std::uint32_t> indices_;
  Buffer<T> values_;
};

}  // namespace weir
