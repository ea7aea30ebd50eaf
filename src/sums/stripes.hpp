// stripes.hpp: how indices are dealt to ranks by a hash, so that neighbours stay together and a rank's indices stay in order.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::sums {

/// Deals stripes of 2^bits neighbouring indices below `count` to ranks. In each round every rank gets one stripe. A hash of the
/// round's number picks the rank that gets the first one. The indices of a rank are numbered by places, in the same order.
class Stripes {
 public:
  Stripes(std::int64_t count, int ranks, int bits)
      : count_(count), ranks_(static_cast<std::uint64_t>(ranks)), bits_(bits), mask_((std::int64_t{1} << bits) - 1) {}

  struct Stripe {
    int rank = 0;
    std::int64_t last = -1;   ///< its last index
    std::int64_t before = 0;  ///< indices before it that other ranks have: its places are its indices less this
    [[nodiscard]] std::int64_t last_place() const { return last - before; }
  };

  /// Returns the stripe that has an index.
  [[nodiscard]] Stripe with_index(std::int64_t index) const {
    const std::uint64_t number = static_cast<std::uint64_t>(index) >> bits_, round = number / ranks_;
    const std::uint64_t rank = number - round * ranks_ + first_rank(round);
    return {static_cast<int>(rank < ranks_ ? rank : rank - ranks_), index | mask_,
            static_cast<std::int64_t>(number - round) << bits_};
  }
  /// Returns the stripe that has a place of a rank.
  [[nodiscard]] Stripe with_place(int rank, std::int64_t place) const {
    const std::uint64_t round = static_cast<std::uint64_t>(place) >> bits_;
    const std::int64_t before = static_cast<std::int64_t>(round * (ranks_ - 1) + turn(rank, round)) << bits_;
    return {rank, (place | mask_) + before, before};
  }
  /// Returns how many indices a rank has.
  [[nodiscard]] std::int64_t places(int rank) const {
    const std::int64_t round = static_cast<std::int64_t>(ranks_) << bits_, rounds = count_ / round;
    const std::int64_t begin = static_cast<std::int64_t>(turn(rank, static_cast<std::uint64_t>(rounds))) << bits_;
    return (rounds << bits_) + std::clamp<std::int64_t>(count_ % round - begin, 0, mask_ + 1);
  }
  [[nodiscard]] int bits() const { return bits_; }

 private:
  /// Returns the rank that gets the first stripe of a round.
  [[nodiscard]] std::uint64_t first_rank(std::uint64_t round) const {
    std::uint64_t hash = (round + 1) * 0x9e3779b97f4a7c15U;
    hash = (hash ^ hash >> 32) * 0xbf58476d1ce4e5b9U;
    return (hash >> 32) * ranks_ >> 32;
  }
  /// Returns how many ranks get a stripe before this one in a round.
  [[nodiscard]] std::uint64_t turn(int rank, std::uint64_t round) const {
    const std::uint64_t first = first_rank(round), mine = static_cast<std::uint64_t>(rank);
    return mine >= first ? mine - first : mine + ranks_ - first;
  }

  std::int64_t count_;
  std::uint64_t ranks_;
  int bits_;
  std::int64_t mask_;
};

}  // namespace weir::sums
