// Memory runs out on one rank, at every allocation in making a table and in its calls. Every rank gets the right result or the same
// error, and the communicator still works.
#include <optional>

#include "support/failing_calls.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

using Verdict = FailingCalls::Verdict;

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "nodes:2,1", 0},
                                 FailingRank{3, "nodes:2,1", 2}, FailingRank{4, "node:2 rank:2", 1}};

EmbeddingConfig config_of(std::string_view exchange) {
  EmbeddingConfig config = make_table_config(exchange, 24, 3, 9);
  config.optimizer = Optimizer::adam;
  config.routing = Routing::by_node;
  return config;
}

/// One rank's table, and the calls of a training with their arguments prepared.
class Trainee {
 public:
  Trainee(const Communicator& comm, const EmbeddingConfig& config) : rank_(comm.rank()), table_(comm, config) {
    for (int step = 0; step < steps; ++step) batches_.push_back(make_table_batch(config, rank_, step));
    result.reserve(static_cast<std::size_t>(config.rows * config.width));
    import_.assign(static_cast<std::size_t>(5 * config.width), static_cast<float>(rank_));
  }
  static constexpr int steps = 8;

  std::vector<float> result;  ///< result of the last call

  void lookup(std::size_t step) {
    result.resize(batches_[step].gradients.size());
    table_.lookup(ids(step), result).wait();
  }
  void prefetch(std::size_t step) { table_.prefetch(ids(step)).wait(); }
  void update(std::size_t step) { table_.update(batches_[step].gradients).wait(); }
  /// Exports rows, different ones on each rank.
  void export_some() {
    result.resize(static_cast<std::size_t>(10 * table_.config().width));
    table_.export_rows(rank_, 10, result);
  }
  void import_some() { table_.import_rows(5 * rank_, 5, import_); }
  /// Runs another step, and leaves the rows after it in `result`.
  void go_on() {
    lookup(3);
    update(3);
    lookup(3);
  }
  /// Trains without waiting for prefetches and updates.
  void train() {
    for (std::size_t step = 4; step < 7; ++step) {
      lookup(step);
      table_.prefetch(ids(step + 1));
      table_.update(batches_[step].gradients);
    }
    export_some();
  }

 private:
  [[nodiscard]] std::span<const std::int64_t> ids(std::size_t step) const { return batches_[step].ids; }

  int rank_;
  std::vector<TableBatch> batches_;
  std::vector<float> import_;
  EmbeddingTable table_;
};

/// The calls and their names, in order.
struct Call {
  const char* name;
  void (*make)(Trainee&);
};
constexpr std::array calls_of_training = {
    Call{"lookup", [](Trainee& t) { t.lookup(0); }},         Call{"prefetch", [](Trainee& t) { t.prefetch(1); }},
    Call{"update", [](Trainee& t) { t.update(0); }},         Call{"lookup of what was prefetched", [](Trainee& t) { t.lookup(1); }},
    Call{"update of that", [](Trainee& t) { t.update(1); }}, Call{"export", [](Trainee& t) { t.export_some(); }},
    Call{"import", [](Trainee& t) { t.import_some(); }},     Call{"training", [](Trainee& t) { t.train(); }},
};
constexpr std::size_t call_count = calls_of_training.size();

/// results[call][rank] of a training without failures, and the results of continuing after any number of its calls.
struct Right {
  std::vector<std::vector<std::vector<float>>> results, later;
};

Right right_results(const FailingRank& machine, const EmbeddingConfig& config) {
  const std::vector<std::vector<float>> of_ranks(static_cast<std::size_t>(machine.ranks));
  Right right{{call_count, of_ranks}, {call_count + 1, of_ranks}};
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              const auto rank = static_cast<std::size_t>(comm.rank());
              for (std::size_t calls = 0; calls <= call_count; ++calls) {
                Trainee trainee(comm, config);
                for (std::size_t c = 0; c < calls; ++c) {
                  calls_of_training[c].make(trainee);
                  right.results[c][rank] = trainee.result;
                }
                trainee.go_on();
                right.later[calls][rank] = trainee.result;
              }
            },
            {.machine = machine.description});
  return right;
}

void check_usable(FailingCalls& calls, const Communicator& comm, const EmbeddingConfig& config, const Right& right) {
  std::vector<float> vectors;
  calls.call(comm.rank(), "another table afterwards", vectors, right.later[0][static_cast<std::size_t>(comm.rank())],
             {Verdict::right}, [&] {
               Trainee trainee(comm, config);
               trainee.go_on();
               vectors = trainee.result;
             });
}

void check_making(const FailingRank& machine, const EmbeddingConfig& config) {
  const Right right = right_results(machine, config);
  const auto make = [&](FailingCalls& calls, const Communicator& comm) {
    std::optional<EmbeddingTable> table;
    const Verdict made = calls.fail(comm.rank(), "making a table", {}, {}, [&] { table.emplace(comm, config); });
    if (made == Verdict::wrong) return;
    if (made == Verdict::split) return calls.note("a table was made on some ranks only");
    table.reset();
    check_usable(calls, comm, config, right);
  };
  fail_every_allocation("making " + config.exchange, machine.ranks, machine.victim, machine.description, make);
}

/// Checks that a failed call had no effect, or that the table is broken on all ranks.
void check_call(const FailingRank& machine, const EmbeddingConfig& config, const Right& right, std::size_t failing) {
  const Call& call = calls_of_training[failing];
  const auto train = [&](FailingCalls& calls, const Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    Trainee trainee(comm, config);
    for (std::size_t c = 0; c < failing; ++c) calls_of_training[c].make(trainee);
    const Verdict ended =
        calls.fail(comm.rank(), call.name, trainee.result, right.results[failing][rank], [&] { call.make(trainee); });
    if (ended == Verdict::wrong) return;
    const std::vector<float>& then = right.later[failing + (ended == Verdict::right ? 1 : 0)][rank];
    const std::vector<Verdict> allowed = ended == Verdict::right   ? std::vector{Verdict::right}
                                         : ended == Verdict::split ? std::vector{Verdict::refused}
                                                                   : std::vector{Verdict::right, Verdict::refused};
    const Verdict next = calls.call(comm.rank(), "the next step", trainee.result, then, allowed, [&] { trainee.go_on(); });
    if (next == Verdict::wrong) return;
    check_usable(calls, comm, config, right);
  };
  fail_every_allocation(std::string(call.name) + ", " + config.exchange, machine.ranks, machine.victim, machine.description, train);
}

}  // namespace

TEST_CASE("memory runs out while a table is made", "[failures]") {
  for (const ExchangeInfo& exchange : exchanges()) {
    DYNAMIC_SECTION(exchange.name) {
      for (const FailingRank& machine : machines) check_making(machine, config_of(exchange.name));
    }
  }
}

TEST_CASE("memory runs out in a call on a table", "[failures]") {
  for (const ExchangeInfo& exchange : exchanges()) {
    DYNAMIC_SECTION(exchange.name) {
      for (const FailingRank& machine : machines) {
        const EmbeddingConfig config = config_of(exchange.name);
        const Right right = right_results(machine, config);
        for (std::size_t call = 0; call < call_count; ++call) check_call(machine, config, right, call);
      }
    }
  }
}

}  // namespace weir::test
