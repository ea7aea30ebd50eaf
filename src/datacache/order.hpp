// order.hpp: the order of an epoch's samples, and which rank works on which of them. Pure: ranks do not communicate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include <weir/types.hpp>

namespace weir::datacache {

/// A permutation of 0, 1, ..., count - 1 that takes no memory: a Feistel network over the next power of four, applied until the
/// result is in range (cycle walking: Black and Rogaway, 2002).
class Permutation {
 public:
  Permutation(std::int64_t count, std::uint64_t seed);
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  std::int64_t count_;
  int half_bits_ = 0;  // a number has two such halves
  std::uint64_t seed_;
};

/// What an epoch's order depends on, besides the epoch. Groups of ranks get contiguous ranges of samples. Groups are the nodes, or
/// one group of all ranks if nodes do not matter.
struct OrderSetup {
  Shuffle shuffle = Shuffle::global;
  double exchanged_share = 0;
  std::int64_t seed = 0;
  std::vector<std::int64_t> counts;  ///< samples of each group

  friend bool operator==(const OrderSetup&, const OrderSetup&) = default;
};

class EpochOrder {
 public:
  EpochOrder(const OrderSetup& setup, std::int64_t epoch);
  /// Sets the same state as the constructor. Allocates nothing if there are not more groups than before.
  void begin(const OrderSetup& setup, std::int64_t epoch);
  /// Returns the sample at `position` of a group. Over all groups and positions, each sample comes once.
  [[nodiscard]] std::int64_t sample(std::size_t group, std::int64_t position) const;

 private:
  struct Group {
    std::int64_t first, count;                ///< its samples
    std::int64_t first_exchanged, exchanged;  ///< samples that go to any group: begin among those of all groups, number
    Permutation places;                       ///< the order in which the group works on its samples
    Permutation choice;                       ///< selects its samples to exchange: the first `exchanged` of this permutation
  };
  [[nodiscard]] std::int64_t own(const Group& group, std::int64_t number) const { return group.first + group.choice(number); }

  bool shuffled_;
  std::vector<Group> groups_;
  Permutation exchange_;
};

/// The progress of a run.
struct Position {
  OrderSetup order;
  std::vector<std::int64_t> ranks;  ///< of each group
  std::int64_t epoch = 0, step = 0;
  std::vector<std::int64_t> taken;  ///< by each group, of its positions in this epoch
  /// From the middle of an epoch, a run may continue with other ranks. What all groups have left is then one list. This counts the
  /// samples taken from it; -1: the groups continue.
  std::int64_t taken_of_rest = -1;

  [[nodiscard]] std::int64_t samples() const;
  [[nodiscard]] std::int64_t rest() const;  ///< the number that the groups have left
  friend bool operator==(const Position&, const Position&) = default;
};

/// Convert a position to and from one line of text. position_of() throws Error(WEIR_ERR_ARGUMENT) saying what is wrong.
[[nodiscard]] std::string text_of(const Position& position);
[[nodiscard]] Position position_of(std::string_view text);

/// A rank's place among all ranks.
struct Seat {
  std::size_t group = 0;
  std::int64_t rank_in_group = 0;
  std::int64_t rank = 0;  ///< among all
};

/// Steps through epochs. A step is taken for all ranks at once, so each rank knows the position of all.
class Course {
 public:
  /// `here`: the beginning, with the present groups and ranks.
  Course(Position here, std::int64_t batch);

  [[nodiscard]] const Position& position() const { return position_; }
  /// Continues at the position of an earlier run. Throws Error(WEIR_ERR_ARGUMENT) if its samples or their order differ.
  void go_to(Position position);
  /// Returns the number of steps from here to the end of the epoch.
  [[nodiscard]] std::int64_t steps_left() const;
  /// Returns a rank's samples of the next step in `samples`. A group's last step is divided evenly.
  void samples(const Seat& seat, std::vector<std::int64_t>& samples) const;
  void advance();
  /// Begins the next epoch. Valid at the end of an epoch.
  void begin_epoch();

 private:
  [[nodiscard]] bool takes_rest() const { return position_.taken_of_rest >= 0; }
  [[nodiscard]] std::int64_t sample_of_rest(std::int64_t position) const;

  Position here_, position_;
  std::int64_t batch_, all_ranks_;
  EpochOrder order_;
};

}  // namespace weir::datacache
