// Memory runs out on one rank, at every allocation of making a table and of its calls: every rank ends with the right result, or
// with the same error, and the communicator goes on.
#include <optional>

#include "support/failing_calls.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

using Verdict = FailingCalls::Verdict;

struct Machine {
  int ranks;
  const char* description;
  int victim;
};
constexpr std::array machines = {Machine{1, "", 0}, Machine{2, "", 1}, Machine{3, "nodes:2,1", 0}, Machine{3, "nodes:2,1", 2},
                                 Machine{4, "node:2 rank:2", 1}};

EmbeddingConfig config_of(std::string_view exchange) {
  EmbeddingConfig config = make_table_config(exchange, 24, 3, 9);
  config.optimizer = Optimizer::adam;
  config.routing = Routing::by_node;
  return config;
}

/// One rank's table, and the calls that a training makes.
class Trainee {
 public:
  Trainee(const Communicator& comm, const EmbeddingConfig& config) : rank_(comm.rank()), table_(comm, config) {}

  std::vector<float> lookup(int step) {
    const TableBatch mine = batch(step);
    std::vector<float> vectors = room_for(table_, mine);
    table_.lookup(std::span<const std::int64_t>(mine.ids), vectors).wait();
    return vectors;
  }
  std::vector<float> prefetch(int step) {
    table_.prefetch(std::span<const std::int64_t>(batch(step).ids)).wait();
    return {};
  }
  std::vector<float> update(int step) {
    table_.update(batch(step).gradients).wait();
    return {};
  }
  /// Each rank other rows than the next.
  std::vector<float> export_some() {
    std::vector<float> values(static_cast<std::size_t>(10 * table_.config().width));
    table_.export_rows(rank_, 10, values);
    return values;
  }
  std::vector<float> import_some() {
    std::vector<float> values(static_cast<std::size_t>(5 * table_.config().width), static_cast<float>(rank_));
    table_.import_rows(5 * rank_, 5, values);
    return {};
  }
  /// Nobody waits for ids and updates.
  std::vector<float> train() {
    std::vector<float> vectors;
    for (int step = 4; step < 7; ++step) {
      vectors = lookup(step);
      table_.prefetch(std::span<const std::int64_t>(batch(step + 1).ids));
      table_.update(batch(step).gradients);
    }
    export_some();
    return vectors;
  }

 private:
  [[nodiscard]] TableBatch batch(int step) const { return make_table_batch(table_.config(), rank_, step); }

  int rank_;
  EmbeddingTable table_;
};

/// A call and what it is called; each comes after those before it.
struct Call {
  const char* name;
  std::vector<float> (*make)(Trainee&);
};
constexpr std::array calls_of_training = {
    Call{"lookup", [](Trainee& t) { return t.lookup(0); }},
    Call{"prefetch", [](Trainee& t) { return t.prefetch(1); }},
    Call{"update", [](Trainee& t) { return t.update(0); }},
    Call{"lookup of what was prefetched", [](Trainee& t) { return t.lookup(1); }},
    Call{"update of that", [](Trainee& t) { return t.update(1); }},
    Call{"export", [](Trainee& t) { return t.export_some(); }},
    Call{"import", [](Trainee& t) { return t.import_some(); }},
    Call{"training", [](Trainee& t) { return t.train(); }},
};

/// right[call][rank], when nothing fails, and what a lookup would give after each: lookups[call][rank], before all calls first.
struct Right {
  std::vector<std::vector<std::vector<float>>> of, lookups;
};

Right right_results(const Machine& machine, const EmbeddingConfig& config) {
  const auto ranks = static_cast<std::size_t>(machine.ranks);
  Right right{{calls_of_training.size(), std::vector<std::vector<float>>(ranks)},
              {calls_of_training.size() + 1, std::vector<std::vector<float>>(ranks)}};
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              const auto rank = static_cast<std::size_t>(comm.rank());
              for (std::size_t calls = 0; calls <= calls_of_training.size(); ++calls) {
                Trainee trainee(comm, config);
                for (std::size_t c = 0; c < calls; ++c) right.of[c][rank] = calls_of_training[c].make(trainee);
                right.lookups[calls][rank] = trainee.lookup(3);
              }
            },
            {.machine = machine.description});
  return right;
}

void check_usable(FailingCalls& calls, const Communicator& comm, const EmbeddingConfig& config, const Right& right) {
  calls.call(comm.rank(), "another table afterwards", right.lookups[0][static_cast<std::size_t>(comm.rank())], false, [&] {
    Trainee trainee(comm, config);
    return trainee.lookup(3);
  });
}

void check_making(const Machine& machine, const EmbeddingConfig& config) {
  const Right right = right_results(machine, config);
  fail_every_allocation("making " + config.exchange, machine.ranks, machine.victim, machine.description,
                        [&](FailingCalls& calls, Communicator& comm) {
                          const auto rank = static_cast<std::size_t>(comm.rank());
                          std::optional<Trainee> trainee;
                          const Verdict made = calls.fail(comm.rank(), "making a table", {}, [&] {
                            trainee.emplace(comm, config);
                            return std::vector<float>();
                          });
                          if (made == Verdict::wrong) return;
                          if (made == Verdict::right) {
                            const Verdict looked = calls.call(comm.rank(), "its lookup", right.lookups[0][rank], false,
                                                              [&] { return trainee->lookup(3); });
                            if (looked == Verdict::wrong) return;
                          }
                          check_usable(calls, comm, config, right);
                        });
}

/// What has failed has not happened, or the table is broken on all ranks.
void check_call(const Machine& machine, const EmbeddingConfig& config, std::size_t failing) {
  const Right right = right_results(machine, config);
  const Call& call = calls_of_training[failing];
  fail_every_allocation(
      std::string(call.name) + ", " + config.exchange, machine.ranks, machine.victim, machine.description,
      [&](FailingCalls& calls, Communicator& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        Trainee trainee(comm, config);
        for (std::size_t c = 0; c < failing; ++c) calls_of_training[c].make(trainee);
        const Verdict ended = calls.fail(comm.rank(), call.name, right.of[failing][rank], [&] { return call.make(trainee); });
        if (ended == Verdict::wrong) return;
        const bool happened = ended == Verdict::right;
        const Verdict next = calls.call(comm.rank(), "the next lookup", right.lookups[failing + (happened ? 1 : 0)][rank],
                                        !happened, [&] { return trainee.lookup(3); });
        if (next == Verdict::wrong) return;
        check_usable(calls, comm, config, right);
      });
}

}  // namespace

TEST_CASE("memory runs out while a table is made", "[failures]") {
  for (const ExchangeInfo& exchange : exchanges()) {
    DYNAMIC_SECTION(exchange.name) {
      for (const Machine& machine : machines) check_making(machine, config_of(exchange.name));
    }
  }
}

TEST_CASE("memory runs out in a call on a table", "[failures]") {
  for (const ExchangeInfo& exchange : exchanges()) {
    DYNAMIC_SECTION(exchange.name) {
      for (const Machine& machine : machines) {
        for (std::size_t call = 0; call < calls_of_training.size(); ++call) check_call(machine, config_of(exchange.name), call);
      }
    }
  }
}

}  // namespace weir::test
