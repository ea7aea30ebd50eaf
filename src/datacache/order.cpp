#include "datacache/order.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/splitmix.hpp"

namespace weir::datacache {
namespace {

constexpr int feistel_rounds = 6;
constexpr std::int64_t most_samples = std::int64_t{1} << 48, most_groups = std::int64_t{1} << 20;

/// Returns an independent seed for each purpose in an epoch.
std::uint64_t seed_of(std::int64_t seed, std::int64_t epoch, std::uint64_t purpose) {
  return splitmix64(splitmix64(splitmix64(static_cast<std::uint64_t>(seed)) + static_cast<std::uint64_t>(epoch)) + purpose);
}

std::int64_t sum(std::span<const std::int64_t> numbers) { return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}); }

/// Returns the begin of part `rank` of `count` things divided among `ranks`.
std::int64_t part_begin(std::int64_t count, std::int64_t rank, std::int64_t ranks) {
  return count / ranks * rank + count % ranks * rank / ranks;
}

}  // namespace

Permutation::Permutation(std::int64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
  while (2 * half_bits_ < 62 && std::int64_t{1} << (2 * half_bits_) < count) ++half_bits_;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto number = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t left = number >> half_bits_, right = number & mask;
    for (std::uint64_t round = 0; round < feistel_rounds; ++round) {
      const std::uint64_t mixed = left ^ (splitmix64(seed_ + (round << 56) + right) & mask);
      left = right;
      right = mixed;
    }
    number = left << half_bits_ | right;
  } while (number >= static_cast<std::uint64_t>(count_));
  return static_cast<std::int64_t>(number);
}

EpochOrder::EpochOrder(const OrderSetup& setup, std::int64_t epoch) : shuffled_(setup.shuffle != Shuffle::none), exchange_(0, 0) {
  begin(setup, epoch);
}

void EpochOrder::begin(const OrderSetup& setup, std::int64_t epoch) {
  groups_.clear();
  groups_.reserve(setup.counts.size());
  std::int64_t first = 0, first_exchanged = 0;
  for (std::size_t i = 0; i < setup.counts.size(); ++i) {
    const std::int64_t count = setup.counts[i];
    const std::int64_t exchanged =
        setup.shuffle == Shuffle::node ? std::llround(setup.exchanged_share * static_cast<double>(count)) : 0;
    groups_.push_back({first, count, first_exchanged, exchanged, Permutation(count, seed_of(setup.seed, epoch, 2 * i + 1)),
                       Permutation(count, seed_of(setup.seed, epoch, 2 * i + 2))});
    first += count;
    first_exchanged += exchanged;
  }
  exchange_ = Permutation(first_exchanged, seed_of(setup.seed, epoch, 0));
}

std::int64_t EpochOrder::sample(std::size_t group, std::int64_t position) const {
  const Group& mine = groups_[group];
  if (!shuffled_) return mine.first + position;
  const std::int64_t number = mine.places(position);
  if (number >= mine.exchanged) return own(mine, number);
  const std::int64_t exchanged = exchange_(mine.first_exchanged + number);
  const auto after = std::upper_bound(groups_.begin(), groups_.end(), exchanged,
                                      [](std::int64_t value, const Group& other) { return value < other.first_exchanged; });
  // If several groups begin at the same place, the last one is right: the others exchange nothing.
  const Group& other = *(after - 1);
  return own(other, exchanged - other.first_exchanged);
}

std::int64_t Position::samples() const { return sum(order.counts); }
std::int64_t Position::rest() const { return samples() - sum(taken); }

namespace {

std::string joined(std::span<const std::int64_t> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
    if (!text.empty()) text += ',';
    text += end - i == 1 ? fmt::format("{}", numbers[i]) : fmt::format("{}*{}", numbers[i], end - i);
    i = end;
  }
  return text;
}

/// Splits a line into words KEY=VALUE, which must come in a fixed order.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  std::string_view value(std::string_view key) {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
    const std::string_view word = text_.substr(0, text_.find(' '));
    text_.remove_prefix(word.size());
    if (!word.starts_with(key) || word.size() <= key.size() || word[key.size()] != '=')
      fail(WEIR_ERR_ARGUMENT, "'{}' is no position of a loader: where '{}' stands, {}=... is expected", whole_, word, key);
    return word.substr(key.size() + 1);
  }
  template <class T>
  T number(std::string_view key, T least, T most) {
    return number_of(key, value(key), least, most);
  }
  std::vector<std::int64_t> list(std::string_view key, std::int64_t least, std::int64_t most) {
    std::vector<std::int64_t> numbers;
    std::string_view left = value(key);
    while (!left.empty()) {
      const std::string_view item = left.substr(0, left.find(','));
      left.remove_prefix(std::min(left.size(), item.size() + 1));
      const std::size_t star = item.find('*');
      const std::int64_t number = number_of(key, item.substr(0, star), least, most);
      std::int64_t times = 1;
      if (star != std::string_view::npos) times = number_of(key, item.substr(star + 1), std::int64_t{1}, most_groups);
      if (std::ssize(numbers) + times > most_groups) wrong(key, item);
      numbers.insert(numbers.end(), static_cast<std::size_t>(times), number);
    }
    if (numbers.empty()) wrong(key, "");
    return numbers;
  }
  void end() const {
    if (text_.find_first_not_of(" \n") != std::string_view::npos)
      fail(WEIR_ERR_ARGUMENT, "'{}' is no position of a loader: nothing is expected where '{}' stands", whole_, text_);
  }
  [[noreturn]] void wrong(std::string_view key, std::string_view value) const {
    fail(WEIR_ERR_ARGUMENT, "'{}' is no position of a loader: {}={} makes no sense there", whole_, key, value);
  }

 private:
  template <class T>
  T number_of(std::string_view key, std::string_view text, T least, T most) const {
    T number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !(number >= least && number <= most)) wrong(key, text);
    return number;
  }

  std::string_view text_;
  std::string_view whole_ = text_;
};

}  // namespace

std::string text_of(const Position& position) {
  return fmt::format("samples={} shuffle={} share={} seed={} epoch={} step={} ranks={} counts={} taken={} rest={}",
                     position.samples(), name_of(position.order.shuffle), position.order.exchanged_share, position.order.seed,
                     position.epoch, position.step, joined(position.ranks), joined(position.order.counts), joined(position.taken),
                     position.taken_of_rest);
}

Position position_of(std::string_view text) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max(), furthest = any / 2;
  Words words(text);
  Position position;
  const auto samples = words.number<std::int64_t>("samples", 0, most_samples);
  const std::string_view shuffle = words.value("shuffle");
  const auto& names = names_of<Shuffle>;
  const auto found = std::find(names.begin(), names.end(), shuffle);
  if (found == names.end()) words.wrong("shuffle", shuffle);
  position.order.shuffle = static_cast<Shuffle>(found - names.begin());
  position.order.exchanged_share = words.number("share", 0.0, 1.0);
  position.order.seed = words.number("seed", -any - 1, any);
  position.epoch = words.number<std::int64_t>("epoch", 0, furthest);
  position.step = words.number<std::int64_t>("step", 0, furthest);
  position.ranks = words.list("ranks", 1, most_groups);
  position.order.counts = words.list("counts", 0, most_samples);
  position.taken = words.list("taken", 0, most_samples);
  position.taken_of_rest = words.number<std::int64_t>("rest", -1, most_samples);
  words.end();
  const std::size_t groups = position.ranks.size();
  if (position.order.counts.size() != groups) words.wrong("counts", joined(position.order.counts));
  double together = 0;  // double: numbers that would overflow do not fit either
  for (const std::int64_t count : position.order.counts) together += static_cast<double>(count);
  if (together > static_cast<double>(most_samples) || position.samples() != samples)
    words.wrong("counts", joined(position.order.counts));
  bool fits = position.taken.size() == groups;
  for (std::size_t i = 0; fits && i < groups; ++i) fits = position.taken[i] <= position.order.counts[i];
  if (!fits) words.wrong("taken", joined(position.taken));
  if (position.taken_of_rest > position.rest()) words.wrong("rest", fmt::format("{}", position.taken_of_rest));
  return position;
}

Course::Course(Position here, std::int64_t batch)
    : here_(std::move(here)),
      position_(here_),
      batch_(batch),
      all_ranks_(sum(here_.ranks)),
      order_(position_.order, position_.epoch) {}

void Course::go_to(Position position) {
  const OrderSetup &there = position.order, &here = here_.order;
  require(position.samples() == here_.samples(), "the position is one among {} samples: there are {}", position.samples(),
          here_.samples());
  require(there.shuffle == here.shuffle, "the position is one with shuffle {}: that of this loader is {}", name_of(there.shuffle),
          name_of(here.shuffle));
  require(there.seed == here.seed, "the position is one with seed {}: that of this loader is {}", there.seed, here.seed);
  require(there.exchanged_share == here.exchanged_share, "the position is one with exchanged_share {}: that of this loader is {}",
          there.exchanged_share, here.exchanged_share);
  const bool same_ranks = position.ranks == here_.ranks && there.counts == here.counts;
  if (!same_ranks) position.taken_of_rest = std::max<std::int64_t>(position.taken_of_rest, 0);
  order_.begin(there, position.epoch);
  position_ = std::move(position);
  // Reserve, so that the next epoch begins without allocations.
  for (auto* list : {&position_.ranks, &position_.order.counts, &position_.taken}) list->reserve(here_.ranks.size());
}

std::int64_t Course::steps_left() const {
  const auto steps = [&](std::int64_t left, std::int64_t ranks) { return (left + ranks * batch_ - 1) / (ranks * batch_); };
  if (takes_rest()) return steps(position_.rest() - position_.taken_of_rest, all_ranks_);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < position_.ranks.size(); ++i)
    most = std::max(most, steps(position_.order.counts[i] - position_.taken[i], position_.ranks[i]));
  return most;
}

void Course::samples(const Seat& seat, std::vector<std::int64_t>& samples) const {
  samples.clear();
  const bool rest = takes_rest();
  const std::int64_t ranks = rest ? all_ranks_ : position_.ranks[seat.group];
  const std::int64_t rank = rest ? seat.rank : seat.rank_in_group;
  const std::int64_t begin = rest ? position_.taken_of_rest : position_.taken[seat.group];
  const std::int64_t left = (rest ? position_.rest() : position_.order.counts[seat.group]) - begin;
  const std::int64_t now = std::min(left, ranks * batch_);
  for (std::int64_t i = part_begin(now, rank, ranks); i < part_begin(now, rank + 1, ranks); ++i)
    samples.push_back(rest ? sample_of_rest(begin + i) : order_.sample(seat.group, begin + i));
}

/// Returns a sample of the rest: what the first group has left, then the second, and so on.
std::int64_t Course::sample_of_rest(std::int64_t position) const {
  for (std::size_t i = 0;; ++i) {
    const std::int64_t left = position_.order.counts[i] - position_.taken[i];
    if (position < left) return order_.sample(i, position_.taken[i] + position);
    position -= left;
  }
}

void Course::advance() {
  ++position_.step;
  if (takes_rest()) {
    position_.taken_of_rest = std::min(position_.rest(), position_.taken_of_rest + all_ranks_ * batch_);
    return;
  }
  for (std::size_t i = 0; i < position_.ranks.size(); ++i)
    position_.taken[i] = std::min(position_.order.counts[i], position_.taken[i] + position_.ranks[i] * batch_);
}

void Course::begin_epoch() {
  const std::int64_t next = position_.epoch + 1;
  position_ = here_;
  position_.epoch = next;
  order_.begin(position_.order, next);
}

}  // namespace weir::datacache
