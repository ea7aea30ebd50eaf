// In every epoch each sample comes exactly once, on one rank, in an order that depends only on seed and epoch, also if other ranks
// continue in its middle.
#include <numeric>
#include <set>
#include <weir/weir.hpp>

#include "datacache/order.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"

namespace weir::test {
namespace {

using namespace weir::datacache;

/// The groups of a made-up machine, or one group of all ranks.
struct Ranks {
  std::vector<std::int64_t> of_group;

  [[nodiscard]] std::int64_t all() const { return std::accumulate(of_group.begin(), of_group.end(), std::int64_t{0}); }
};

Position beginning(Shuffle shuffle, double share, std::int64_t seed, std::int64_t samples, const Ranks& ranks) {
  Position position;
  position.order = {shuffle, share, seed, {}};
  position.ranks = shuffle == Shuffle::node ? ranks.of_group : std::vector<std::int64_t>{ranks.all()};
  const std::int64_t all = ranks.all();
  std::int64_t given = 0, seats = 0;
  for (const std::int64_t group : position.ranks) {
    seats += group;
    position.order.counts.push_back(samples * seats / all - given);
    given = samples * seats / all;
  }
  position.taken.resize(position.ranks.size());
  return position;
}

std::vector<Seat> seats_of(Shuffle shuffle, const Ranks& ranks) {
  std::vector<Seat> seats;
  for (std::size_t group = 0; group < ranks.of_group.size(); ++group) {
    for (std::int64_t i = 0; i < ranks.of_group[group]; ++i) {
      const auto rank = static_cast<std::int64_t>(seats.size());
      seats.push_back(shuffle == Shuffle::node ? Seat{group, i, rank} : Seat{0, rank, rank});
    }
  }
  return seats;
}

/// Takes one step on all ranks.
void take(Course& course, const std::vector<Seat>& seats, std::int64_t batch, std::vector<std::int64_t>& taken) {
  std::vector<std::int64_t> samples;
  for (const Seat& seat : seats) {
    course.samples(seat, samples);
    REQUIRE(std::ssize(samples) <= batch);
    taken.insert(taken.end(), samples.begin(), samples.end());
  }
  course.advance();
}

bool each_once(std::vector<std::int64_t> taken, std::int64_t samples) {
  std::sort(taken.begin(), taken.end());
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  return taken == all;
}

TEST_CASE("permutations hit every number once, whatever their size") {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 5000}) {
    const Permutation permutation(count, 42);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(permutation(i));
    INFO("count " << count);
    REQUIRE(each_once(numbers, count));
  }
  const std::int64_t large = (std::int64_t{1} << 47) + 12345;
  const Permutation permutation(large, 7);
  std::set<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 1000; ++i) numbers.insert(permutation(large - 1 - i));
  REQUIRE(numbers.size() == 1000);
  REQUIRE(*numbers.begin() >= 0);
  REQUIRE(*numbers.rbegin() < large);
}

TEST_CASE("permutations move numbers about evenly") {
  // Where each tenth of the positions comes from: with 100,000 numbers, 1,000 +- 150 from each tenth of the range.
  constexpr std::int64_t count = 100000;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const Permutation permutation(count, seed);
    std::array<std::array<int, 10>, 10> hits{};
    for (std::int64_t i = 0; i < count; ++i)
      ++hits[static_cast<std::size_t>(i / 10000)][static_cast<std::size_t>(permutation(i) / 10000)];
    for (const auto& row : hits) {
      for (const int hit : row) {
        REQUIRE(hit > 850);
        REQUIRE(hit < 1150);
      }
    }
  }
}

const std::vector<Ranks> all_ranks = {{{1}}, {{2}}, {{1, 2}}, {{3, 1, 1}}, {{2, 2, 2, 1}}, {{11, 11, 11}}};
constexpr std::array shuffles = {Shuffle::none, Shuffle::global, Shuffle::node};

TEST_CASE("an epoch has each sample once") {
  for (const Ranks& ranks : all_ranks) {
    for (const Shuffle shuffle : shuffles) {
      for (const double share : {0.0, 0.3, 1.0}) {
        for (const std::int64_t samples : {0, 1, 2, 7, 100, 513}) {
          for (const std::int64_t batch : {1, 3, 64}) {
            const std::vector<Seat> seats = seats_of(shuffle, ranks);
            Course course(beginning(shuffle, share, 5, samples, ranks), batch);
            for (int epoch = 0; epoch < 2; ++epoch) {
              std::vector<std::int64_t> taken;
              const std::int64_t steps = course.steps_left();
              for (std::int64_t step = 0; step < steps; ++step) {
                REQUIRE(course.position().step == step);
                take(course, seats, batch, taken);
              }
              INFO("P " << ranks.all() << " shuffle " << static_cast<int>(shuffle) << " share " << share << " samples " << samples
                        << " batch " << batch);
              REQUIRE(course.steps_left() == 0);
              REQUIRE(each_once(taken, samples));
              if (samples > 0) course.begin_epoch();
            }
          }
        }
      }
    }
  }
}

TEST_CASE("epochs and seeds have orders of their own; nodes keep what they do not exchange") {
  const Ranks ranks{{2, 2}};
  const auto order = [&](std::int64_t seed, std::int64_t epoch, Shuffle shuffle, double share) {
    Position position = beginning(shuffle, share, seed, 1000, ranks);
    position.epoch = epoch;
    Course course(position, 1000);
    std::vector<std::int64_t> taken;
    take(course, seats_of(shuffle, ranks), 1000, taken);
    return taken;
  };
  REQUIRE(order(1, 0, Shuffle::global, 0) == order(1, 0, Shuffle::global, 0));
  REQUIRE(order(1, 0, Shuffle::global, 0) != order(1, 1, Shuffle::global, 0));
  REQUIRE(order(1, 0, Shuffle::global, 0) != order(2, 0, Shuffle::global, 0));
  for (const double share : {0.0, 0.2}) {
    const std::vector<std::int64_t> taken = order(1, 0, Shuffle::node, share);
    const auto foreign = std::count_if(taken.begin(), taken.begin() + 500, [](std::int64_t sample) { return sample >= 500; });
    if (share == 0.0) REQUIRE(foreign == 0);
    if (share == 0.2) {
      REQUIRE(foreign > 25);  // half of the 100 that are exchanged, more or less
      REQUIRE(foreign < 75);
    }
  }
}

TEST_CASE("whoever goes on in the middle of an epoch takes what is left, once") {
  Dice dice(11);
  for (int round = 0; round < 300; ++round) {
    const Shuffle shuffle = dice.one_of(shuffles);
    const double share = 0.1 * dice.small(0, 10);
    const std::int64_t samples = dice.between(1, 400);
    Ranks ranks = dice.one_of(all_ranks);
    std::int64_t batch = dice.between(1, 9);
    Course course(beginning(shuffle, share, round, samples, ranks), batch);
    std::vector<std::int64_t> taken;
    while (course.steps_left() > 0) {
      take(course, seats_of(shuffle, ranks), batch, taken);
      if (!dice.chance(20)) continue;
      const std::string text = text_of(course.position());
      if (dice.chance(70)) {
        ranks = dice.one_of(all_ranks);
        batch = dice.between(1, 9);
      }
      course = Course(beginning(shuffle, share, round, samples, ranks), batch);
      course.go_to(position_of(text));
      REQUIRE(text_of(position_of(text)) == text);
    }
    INFO("round " << round << " samples " << samples);
    REQUIRE(each_once(taken, samples));
    course.begin_epoch();  // of the ranks that there are now
    REQUIRE(course.position().taken_of_rest == -1);
    REQUIRE(course.steps_left() > 0);
  }
}

TEST_CASE("the same ranks go on with the same batches") {
  for (const Shuffle shuffle : shuffles) {
    const Ranks ranks{{2, 1}};
    const std::vector<Seat> seats = seats_of(shuffle, ranks);
    Course whole(beginning(shuffle, 0.25, 3, 100, ranks), 4), resumed = whole;
    for (int step = 0; whole.steps_left() > 0; ++step) {
      std::vector<std::int64_t> a, b;
      take(whole, seats, 4, a);
      take(resumed, seats, 4, b);
      REQUIRE(a == b);
      const std::string text = text_of(resumed.position());
      resumed = Course(beginning(shuffle, 0.25, 3, 100, ranks), 4);
      resumed.go_to(position_of(text));
    }
  }
}

TEST_CASE("text that is no position is refused") {
  const Ranks ranks{{2, 2}};
  Course course(beginning(Shuffle::node, 0.5, 3, 100, ranks), 4);
  course.advance();
  const std::string good = text_of(course.position());
  REQUIRE(good == "samples=100 shuffle=node share=0.5 seed=3 epoch=0 step=1 ranks=2*2 counts=50*2 taken=8*2 rest=-1");
  REQUIRE(position_of(good) == course.position());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string("samples=100"), good + " more=1", with("samples=100", "samples=99"),
        with("taken=8*2", "taken=8"), with("taken=8*2", "taken=8,51"), with("shuffle=node", "shuffle=nodes"),
        with("share=0.5", "share=nan"), with("share=0.5", "share=2"), with("ranks=2*2", "ranks=2*9999999"),
        with("ranks=2*2", "ranks=0*2"), with("counts=50*2", "counts=281474976710656*2"), with("epoch=0", "epoch=-1"),
        with("rest=-1", "rest=85"), with("seed=3", "seed=99999999999999999999"), with("step=1", "step=")}) {
    INFO(bad);
    REQUIRE_THROWS_AS(position_of(bad), Error);
  }
  Course other(beginning(Shuffle::node, 0.5, 4, 100, ranks), 4);
  REQUIRE_THROWS_AS(other.go_to(position_of(good)), Error);
  // A position with any character removed or changed is refused or is a valid position.
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {' ', '0', '9', '*', ',', '=', '-', 'x'}) {
      std::string text = good;
      text[i] = c;
      try {
        const Position position = position_of(text);
        REQUIRE(position.rest() >= 0);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
