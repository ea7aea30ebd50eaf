// order.hpp: in which order the samples of an epoch come, and which rank works on which of them. Pure: no rank asks another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include <weir/types.hpp>

namespace weir::datacache {

/// A permutation of 0, 1, ..., count - 1 that takes no memory: a Feistel network over the next power of four, walked until it hits
/// the range (cycle walking: Black and Rogaway, 2002).
class Permutation {
 public:
  Permutation(std::int64_t count, std::uint64_t seed);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  std::int64_t count_;
  int half_bits_ = 0;  // of a number: two such halves
  std::uint64_t seed_;
};

/// What an epoch's order depends on, besides the epoch. Samples are divided in a row among groups of ranks: the nodes, or, where
/// nodes do not matter, one group of all.
struct OrderSetup {
  Shuffle shuffle = Shuffle::global;
  double exchanged_share = 0;
  std::int64_t seed = 0;
  std::vector<std::int64_t> counts;  ///< samples of each group
};

class EpochOrder {
 public:
  EpochOrder(const OrderSetup& setup, std::int64_t epoch);
  /// As if made anew. Allocates nothing for as many groups, or fewer.
  void begin(const OrderSetup& setup, std::int64_t epoch);
  /// The sample at `position` of those that a group works on. Over all groups and positions, each sample comes once.
  [[nodiscard]] std::int64_t sample(std::size_t group, std::int64_t position) const;

 private:
  struct Group {
    std::int64_t first, count;                ///< its samples
    std::int64_t first_exchanged, exchanged;  ///< of them, those that go to any group, among all of these
    Permutation places;                       ///< in which order it works on what it has got
    Permutation choice;                       ///< which of its samples are exchanged: those that come first
  };
  [[nodiscard]] std::int64_t own(const Group& group, std::int64_t number) const { return group.first + group.choice(number); }

  bool shuffled_;
  std::vector<Group> groups_;
  Permutation exchange_;
};

/// How far a run has got.
struct Position {
  OrderSetup order;
  std::vector<std::int64_t> ranks;  ///< of each group
  std::int64_t epoch = 0, step = 0;
  std::vector<std::int64_t> taken;  ///< of each group's positions in this epoch
  /// From an epoch's middle on, other ranks may go on: what the groups have left then is worked on as one. So much of it has been
  /// taken; -1: the groups go on.
  std::int64_t taken_of_rest = -1;

  [[nodiscard]] std::int64_t samples() const;
  [[nodiscard]] std::int64_t rest() const;  ///< left by the groups
  friend bool operator==(const Position&, const Position&) = default;
};

/// One line. Reading throws Error(WEIR_ERR_ARGUMENT) saying what makes no sense.
[[nodiscard]] std::string text_of(const Position& position);
[[nodiscard]] Position position_of(std::string_view text);
inline bool operator==(const OrderSetup& a, const OrderSetup& b) {
  return a.shuffle == b.shuffle && a.exchanged_share == b.exchanged_share && a.seed == b.seed && a.counts == b.counts;
}

/// Where a rank stands.
struct Seat {
  std::size_t group = 0;
  std::int64_t rank_in_group = 0;
  std::int64_t rank = 0;  ///< of all
};

/// Takes steps: everybody's at once, so that each rank knows where all are.
class Course {
 public:
  /// `here`: the beginning, for the groups and ranks that there are now.
  Course(Position here, std::int64_t batch);

  [[nodiscard]] const Position& position() const { return position_; }
  /// Goes on where a run was. Throws Error(WEIR_ERR_ARGUMENT) where that went over other samples, or in another order.
  void go_to(Position position);
  /// Steps from here to the end of the epoch.
  [[nodiscard]] std::int64_t steps_left() const;
  /// The samples of a rank in the next step. A group's last step is divided evenly.
  void samples(const Seat& seat, std::vector<std::int64_t>& samples) const;
  void advance();
  /// At the end of an epoch: the next one begins.
  void begin_epoch();

 private:
  [[nodiscard]] bool takes_rest() const { return position_.taken_of_rest >= 0; }
  [[nodiscard]] std::int64_t sample_of_rest(std::int64_t position) const;

  Position here_, position_;
  std::int64_t batch_, all_ranks_;
  EpochOrder order_;
};

}  // namespace weir::datacache
