// Random calls on embedding tables against the serial oracle, bit for bit: any exchange, machine, order and delay, wrong prefetches
// and wrong calls, ranks that fall silent. Each case is a separate program; see support/fuzz_loop.hpp for the options.
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "embedding/fuzz_table_cases.hpp"
#include "support/fuzz_loop.hpp"
#include "support/other_floating_point.hpp"
#include "support/rank_check.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

using Kind = TableEvent::Kind;
using Wrong = TableEvent::Wrong;

/// One rank's part of a case.
class Player {
 public:
  Player(const Communicator& comm, const TableCase& c, RankCheck& check)
      : comm_(comm),
        case_(c),
        check_(check),
        rank_(static_cast<std::size_t>(comm.rank())),
        floats_(c.events.size()),
        operations_(c.events.size()) {}

  void play() {
    const OtherFloatingPoint other(comm_.rank() == case_.disturbed_rank);
    table_.emplace(comm_, case_.config);
    for (const TableAction& action : case_.scripts[rank_]) {
      event_ = action.event;
      if (action.kind == TableAction::Kind::start) start();
      if (action.kind == TableAction::Kind::wait) wait();
      if (action.kind == TableAction::Kind::test && operations_[event_]) operations_[event_]->test();
      if (action.kind == TableAction::Kind::pause) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

 private:
  [[nodiscard]] const TableEvent& event() const { return case_.events[event_]; }
  [[nodiscard]] bool is_wrong() const { return event().wrong_rank == comm_.rank(); }

  void start() {
    switch (event().kind) {
      case Kind::lookup:
        return start_lookup();
      case Kind::prefetch:
        return start_prefetch();
      case Kind::update:
        return start_update();
      case Kind::learning_rate:
        return table_->set_learning_rate(event().rate);
      case Kind::export_rows:
      case Kind::import_rows:
        return range();
      case Kind::move:
        return move();
      case Kind::remake:
        table_.reset();
        table_.emplace(comm_, case_.config);
    }
  }

  /// Calls f with temporary ids of either type.
  template <class F>
  Operation with_ids(F f) {
    std::vector<std::int64_t> wide = event().ids[rank_];
    std::vector<std::int32_t> narrow(wide.begin(), wide.end());
    Operation operation =
        (rank_ + event_) % 3 == 0 ? f(std::span<const std::int32_t>(narrow)) : f(std::span<const std::int64_t>(wide));
    std::fill(wide.begin(), wide.end(), -5);
    std::fill(narrow.begin(), narrow.end(), -5);
    return operation;
  }

  void start_lookup() {
    std::vector<float>& vectors = floats_[event_];
    vectors.assign(event().ids[rank_].size() * width(), -77);
    if (is_wrong() && event().wrong == Wrong::array_size) vectors.push_back(-77);
    operations_[event_] = with_ids([&](auto ids) { return table_->lookup(ids, vectors); });
  }
  void start_prefetch() {
    operations_[event_] = with_ids([&](auto ids) { return table_->prefetch(ids); });
  }
  void start_update() {
    std::vector<float> gradients = event().values[rank_];
    const bool other_rate = is_wrong() && event().wrong == Wrong::rate;
    if (is_wrong() && event().wrong == Wrong::array_size) gradients.push_back(0);
    if (other_rate) table_->set_learning_rate(event().rate + 1);
    const auto call = [&] { operations_[event_] = table_->update(gradients); };
    const bool throws_at_once = event().wrong == Wrong::not_ready || (is_wrong() && event().wrong == Wrong::array_size);
    if (throws_at_once)
      expect_end(call);
    else
      call();
    if (other_rate) table_->set_learning_rate(event().rate);
    std::fill(gradients.begin(), gradients.end(), 77.0F);
  }

  void range() {
    const TableEvent::Range& range = event().ranges[rank_];
    const std::vector<float>& values = event().values[rank_];
    if (event().kind == Kind::import_rows) return expect_end([&] { table_->import_rows(range.first, range.count, values); });
    std::vector<float> out(values.size(), -77);
    expect_end([&] { table_->export_rows(range.first, range.count, out); });
    if (event().wrong == Wrong::nothing) check(same_bits(out, values), "rows");
  }

  void move() {
    EmbeddingTable moved(std::move(*table_));
    *table_ = std::move(moved);
  }

  void wait() {
    if (!operations_[event_]) return;  // the start threw
    expect_end([&] { operations_[event_]->wait(); });
    if (event().wrong != Wrong::nothing) return;
    const EmbeddingStatistics& s = table_->statistics();
    if (event().kind == Kind::lookup) {
      const TableEvent::Counts& right = event().counts[rank_];
      check(same_bits(floats_[event_], event().values[rank_]), "vectors");
      check(s.tokens == right.tokens && s.distinct_rows == right.distinct, "tokens and distinct rows");
      check(s.prefetched == right.prefetched, "prefetched is " + std::to_string(s.prefetched));
    } else if (event().kind == Kind::update) {
      check(s.prior_rows == event().counts[rank_].prior, "prior rows are " + std::to_string(s.prior_rows));
    }
  }

  /// Checks that the event ends with its expected result.
  template <class Call>
  void expect_end(Call call) {
    std::string text;
    try {
      call();
    } catch (const Error& error) {
      if (case_.falls_silent() && error.status() == WEIR_ERR_TIMEOUT) throw;
      text = error.what();
    }
    const bool right = event().error.empty() ? text.empty() : text.find(event().error) != std::string::npos;
    check(right, "ends with '" + text + "'");
  }

  void check(bool right, const std::string& what) {
    check_.that(right, "rank " + std::to_string(rank_) + ", call " + std::to_string(event_) + ": " + what);
  }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(case_.config.width); }

  const Communicator& comm_;
  const TableCase& case_;
  RankCheck& check_;
  std::size_t rank_, event_ = 0;
  std::vector<std::vector<float>> floats_;  // vectors by event, which outlive operations in flight
  std::optional<EmbeddingTable> table_;
  std::vector<std::optional<Operation>> operations_;
};

std::string run_case(std::uint64_t seed, bool talk) {
  const TableCase c = make_table_case(seed);
  if (talk) std::printf("%s\n%s", c.text().c_str(), c.program().c_str());
  RankCheck check;
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(
        c.ranks,
        [&](Communicator& comm) {
          try {
            Player(comm, c, check).play();
          } catch (const Error& error) {
            check.that(c.falls_silent() && error.status() == WEIR_ERR_TIMEOUT,
                       "rank " + std::to_string(comm.rank()) + ": " + error.what());
          }
        },
        c.options);
  } catch (const Error& error) {  // the communicator could not be made
    check.that(c.falls_silent() && error.status() == WEIR_ERR_TIMEOUT, error.what());
  }
  // Destructors ignore the errors of operations that they wait for.
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  check.that(passed.count() < usual_timeout, "a call that nobody has waited for ran out of time");
  return check.failure().empty() ? "" : c.text() + "\n" + check.failure();
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) { return weir::test::fuzz_loop(argc, argv, weir::test::run_case); }
