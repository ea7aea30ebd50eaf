#include "embedding/fuzz_table_cases.hpp"

#include <algorithm>

#include "embedding/fuzz_table_scripts.hpp"
#include "support/dice.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

using Kind = TableEvent::Kind;
using Wrong = TableEvent::Wrong;

/// Returns one node, or several nodes of uneven sizes.
std::string random_machine(Dice& dice, int ranks) {
  std::string machine;
  if (dice.chance(30)) return machine;
  for (int left = ranks; left > 0;) {
    const int size = dice.small(1, left);
    machine += (machine.empty() ? "nodes:" : ",") + std::to_string(size);
    left -= size;
  }
  return machine;
}

RankOptions random_options(Dice& dice, int ranks) {
  RankOptions options;
  if (dice.chance(70)) options.seed = dice.word();
  options.machine = random_machine(dice, ranks);
  if (!options.machine.empty() && dice.chance(40)) options.places = dice.order(static_cast<std::size_t>(ranks));
  options.settings.timeout_seconds = usual_timeout;
  if (ranks > 1 && dice.chance(3)) {
    options.fault = {dice.small(0, ranks - 1), dice.between(0, 500)};
    options.settings.timeout_seconds = 0.2;
  }
  return options;
}

EmbeddingConfig random_config(Dice& dice) {
  EmbeddingConfig config = make_table_config(dice.one_of(exchanges()).name, dice.between(1, dice.one_of({2, 9, 70, 300})),
                                             dice.between(1, dice.one_of({2, 9, 40})), dice.between(1, dice.one_of({2, 9, 60})));
  config.optimizer = dice.one_of({Optimizer::sgd, Optimizer::momentum, Optimizer::adagrad, Optimizer::adam});
  config.learning_rate = dice.one_of({0.25, 0.01, 0.0, -0.5});
  config.beta1 = dice.one_of({0.9, 0.0});
  config.beta2 = dice.one_of({0.999, 0.0, 0.5});
  config.epsilon = dice.one_of({1e-8, 0.1});
  config.average = dice.chance(50);
  config.wire_values = dice.one_of({WireValues::native, WireValues::bfloat16, WireValues::float16});
  config.routing = dice.one_of({Routing::automatic, Routing::direct, Routing::by_node});
  config.seed = dice.word();
  config.initial_range = dice.one_of({0.05, 0.0, 3.0});
  config.delayed_priority = dice.one_of({-1000000, config.priority, config.priority + 1});
  return config;
}

std::vector<float> initial_values(const EmbeddingConfig& config) {
  std::vector<float> values;
  run_ranks(1, [&](Communicator& comm) {
    EmbeddingTable table(comm, config);
    values = all_rows(table);
  });
  return values;
}

/// Makes the events, and performs each on the oracle.
class Writer {
 public:
  Writer(Dice& dice, TableCase& c)
      : dice_(dice), case_(c), config_(c.config), initial_(initial_values(c.config)), oracle_(c.config, initial_) {
    plan();
  }

  void write() {
    for (int left = dice_.small(1, 6); left > 0; --left) round();
    if (dice_.chance(70)) export_all();
  }

 private:
  /// Adds a lookup and the calls before the next one.
  void round() {
    lookup();
    std::vector<void (Writer::*)()> calls;
    for (int left = dice_.one_of({0, 1, 1, 1, 2, 2, 3}); left > 0; --left) calls.push_back(&Writer::prefetch);
    for (int left = dice_.one_of({0, 1, 1, 1, 1, 1, 2}); left > 0; --left) calls.push_back(&Writer::update);
    if (dice_.chance(15)) calls.push_back(&Writer::set_rate);
    if (dice_.chance(15)) calls.push_back(&Writer::export_rows);
    if (dice_.chance(15)) calls.push_back(&Writer::import_rows);
    if (dice_.chance(10)) calls.push_back(&Writer::move);
    if (dice_.chance(4)) calls.push_back(&Writer::remake);
    for (const std::size_t i : dice_.order(calls.size())) (this->*calls[i])();
  }

  void lookup() {
    TableEvent& event = add(Kind::lookup);
    event.ids = dice_.chance(10) ? batch() : planned_;
    if (dice_.chance(6)) spoil(event, dice_.one_of({Wrong::id, Wrong::too_many, Wrong::array_size}), "looks up");
    ready_ = event.wrong == Wrong::nothing;
    current_ = event.ids;
    if (ready_) {
      for (const auto& ids : event.ids) event.values.push_back(oracle_.lookup(ids));
    }
    plan();
  }

  void prefetch() {
    TableEvent& event = add(Kind::prefetch);
    event.ids = planned_;
    if (dice_.chance(15)) event.ids = batch();
    auto& ids = event.ids[static_cast<std::size_t>(dice_.small(0, case_.ranks - 1))];
    if (dice_.chance(15)) std::reverse(ids.begin(), ids.end());
    if (dice_.chance(10)) ids = ids_of_rank();
    if (dice_.chance(5)) spoil(event, dice_.one_of({Wrong::id, Wrong::too_many}), "prefetches");
  }

  void update() {
    if (!ready_ && dice_.chance(70)) return;
    TableEvent& event = add(Kind::update);
    event.ids = current_;
    event.rate = config_.learning_rate;
    for (const auto& ids : event.ids) event.values.push_back(numbers(ids.size() * width(), config_.exchange == "dense_allreduce"));
    if (!ready_) {
      event.wrong = Wrong::not_ready;
      event.error = "updates without a finished lookup";
    } else if (dice_.chance(6)) {
      spoil(event, case_.ranks > 1 ? dice_.one_of({Wrong::rate, Wrong::array_size}) : Wrong::array_size, "");
    }
    if (event.wrong != Wrong::nothing) return;
    oracle_.update(event.ids, event.values);
    ready_ = false;
  }

  void set_rate() {
    config_.learning_rate = dice_.one_of({0.25, 0.125, 1e-3, 0.0});
    add(Kind::learning_rate).rate = config_.learning_rate;
    oracle_.set_learning_rate(config_.learning_rate);
  }

  void export_rows() {
    TableEvent& event = add(Kind::export_rows);
    random_ranges(event);
    expect_export(event);
    if (dice_.chance(10)) spoil(event, Wrong::range, "exports");
  }
  void export_all() {
    TableEvent& event = add(Kind::export_rows);
    event.ranges.assign(static_cast<std::size_t>(case_.ranks), {0, config_.rows});
    expect_export(event);
  }
  void expect_export(TableEvent& event) {
    for (const auto& [first, count] : event.ranges) {
      const float* const row = oracle_.values().data() + first * config_.width;
      event.values.emplace_back(row, row + count * config_.width);
    }
  }

  void import_rows() {
    TableEvent& event = add(Kind::import_rows);
    random_ranges(event);
    for (const auto& [first, count] : event.ranges)
      event.values.push_back(numbers(static_cast<std::size_t>(count) * width(), false));
    if (dice_.chance(10)) return spoil(event, Wrong::range, "imports");
    for (std::size_t rank = 0; rank < event.ranges.size(); ++rank)
      oracle_.import_rows(event.ranges[rank].first, event.values[rank]);
  }

  void move() { add(Kind::move); }

  void remake() {
    add(Kind::remake);
    config_.learning_rate = case_.config.learning_rate;
    oracle_ = TableOracle(config_, initial_);
    ready_ = false;
  }

  TableEvent& add(Kind kind) { return case_.events.emplace_back(TableEvent{.kind = kind}); }

  /// Adds a mistake of one rank. `does` is the error's text.
  void spoil(TableEvent& event, Wrong wrong, const std::string& does) {
    event.wrong = wrong;
    event.wrong_rank = dice_.small(0, case_.ranks - 1);
    const auto rank = static_cast<std::size_t>(event.wrong_rank);
    const std::string who = "rank " + std::to_string(event.wrong_rank) + " " + does;
    if (wrong == Wrong::id) {
      auto& ids = event.ids[rank];
      if (ids.empty()) ids.push_back(0);
      dice_.one_of(std::vector{&ids.front(), &ids.back()})[0] =
          dice_.one_of({std::int64_t{-1}, config_.rows, std::int64_t{1} << 30});
      event.error = who + " id ";
    } else if (wrong == Wrong::too_many) {
      event.ids[rank].resize(static_cast<std::size_t>(config_.largest_batch) + 1);
      event.error = who + " " + std::to_string(config_.largest_batch + 1) + " ids at once";
    } else if (wrong == Wrong::array_size) {
      event.error = event.kind == Kind::lookup ? who + " with an array of" : who + "gave gradients";
    } else if (wrong == Wrong::rate) {
      event.error = "ranks disagree about the learning rate";
    } else {
      event.ranges[rank].first = config_.rows;
      event.ranges[rank].count = 1;
      event.values[rank].resize(width());
      event.error = who + " 1 rows from row " + std::to_string(config_.rows) + " on";
    }
  }

  void plan() { planned_ = batch(); }
  [[nodiscard]] Ids batch() {
    Ids ids;
    for (int rank = 0; rank < case_.ranks; ++rank) ids.push_back(ids_of_rank());
    return ids;
  }
  /// Returns ids with frequent low ones, perhaps an empty batch.
  [[nodiscard]] std::vector<std::int64_t> ids_of_rank() {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(dice_.chance(15) ? 0 : dice_.between(0, config_.largest_batch)));
    for (std::int64_t& id : ids) id = dice_.between(0, dice_.between(0, config_.rows - 1));
    return ids;
  }
  /// Returns gradients, with integers if the oracle does not know the order of their additions.
  [[nodiscard]] std::vector<float> numbers(std::size_t count, bool integers) {
    std::vector<float> list(count);
    for (float& x : list)
      x = integers ? static_cast<float>(dice_.between(-4, 4))
                   : static_cast<float>(static_cast<double>(dice_.word() >> 11) * 0x1p-51 - 2);
    return list;
  }
  void random_ranges(TableEvent& event) {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const std::int64_t first = dice_.between(0, config_.rows);
      event.ranges.push_back({first, dice_.chance(20) ? 0 : dice_.between(0, config_.rows - first)});
    }
  }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(config_.width); }

  Dice& dice_;
  TableCase& case_;
  EmbeddingConfig config_;  // with the learning rate in force
  std::vector<float> initial_;
  TableOracle oracle_;
  Ids planned_, current_;  // ids of the next lookup, and of the last one
  bool ready_ = false;     // an update is allowed
};

}  // namespace

std::string TableCase::text() const {
  const auto number = [](auto value) { return std::to_string(static_cast<std::int64_t>(value)); };
  std::string places;
  for (const std::size_t place : options.places) places += " " + number(place);
  std::string text = config.exchange + " P " + number(ranks) + " on '" + options.machine + "' places" + places + ", V " +
                     number(config.rows) + " D " + number(config.width) + " largest batch " + number(config.largest_batch) +
                     " optimizer " + number(config.optimizer) + " values " + number(config.wire_values) + " routing " +
                     number(config.routing) + ", " + number(events.size()) + " calls";
  if (options.seed != 0) text += ", delays";
  if (disturbed_rank >= 0) text += ", rank " + number(disturbed_rank) + " disturbed";
  if (falls_silent()) text += ", rank " + number(options.fault.rank) + " silent after " + number(options.fault.after) + " messages";
  return text;
}

TableCase make_table_case(std::uint64_t seed) {
  Dice dice(seed);
  TableCase c{.config = random_config(dice), .ranks = dice.small(1, 8), .options = {}, .events = {}, .scripts = {}};
  c.options = random_options(dice, c.ranks);
  Writer(dice, c).write();
  write_scripts(dice, c);
  if (dice.chance(30)) c.disturbed_rank = dice.small(0, c.ranks - 1);
  return c;
}

}  // namespace weir::test
