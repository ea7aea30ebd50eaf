// Memory of tables: memory_bytes() is exact, and a table larger than a node's memory is refused on all ranks before it is touched.
#include <optional>
#include <weir/embedding.hpp>

#include "base/memory.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/same_errors.hpp"
#include "support/table_training.hpp"

namespace weir::test {
namespace {

/// The memory that a table reports, and the memory that it has allocated.
struct Taken {
  std::int64_t said, counted;
};

Taken make_and_count(const Communicator& comm, const EmbeddingConfig& config) {
  { const EmbeddingTable warm_up(comm, config); }  // leaves frames and messages of agreement for the next one
  const std::int64_t before = live_bytes_of_this_thread();
  const EmbeddingTable table(comm, config);
  return {table.memory_bytes(), live_bytes_of_this_thread() - before};
}

/// Returns the configuration of a table for whose batches alone every rank needs `share` of the available memory.
EmbeddingConfig make_large_batches(double share) {
  constexpr double bytes_for_an_id = 4 * 44;
  EmbeddingConfig config = make_table_config("columns", 20, 4, 1);
  config.largest_batch =
      std::min<std::int64_t>(0xffffffff, static_cast<std::int64_t>(share * available_memory() / bytes_for_an_id));
  return config;
}

/// Starts a call, perhaps without free memory, and waits for it.
template <class Call>
bool succeeds(bool without_memory, Call call) {
  try {
    std::optional<LargestAllocation> none;
    if (without_memory) none.emplace(0);
    Operation operation = call();
    none.reset();
    operation.wait();
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a table's memory_bytes() is what it has asked for, within 1 % and 2 KiB for lists of ranks") {
  for (const ExchangeInfo& exchange : exchanges()) {
    for (const auto& [machine, ranks] : {std::pair{"", 1}, {"", 3}, {"nodes:3,1,2", 6}, {"node:2 rank:4", 8}}) {
      for (const auto& [rows, width, largest] : {std::tuple{1, 1, 1}, {1, 1, 3000}, {100000, 1, 1}, {5000, 3, 700}, {2, 4099, 5}}) {
        for (const WireValues values : {WireValues::native, WireValues::float16}) {
          EmbeddingConfig config = make_table_config(exchange.name, rows, width, largest);
          config.routing = Routing::by_node;
          config.wire_values = values;
          config.optimizer = values == WireValues::native ? Optimizer::sgd : Optimizer::adam;
          RankCheck check;
          run_ranks(ranks,
                    [&](Communicator& comm) {
                      const auto [said, counted] = make_and_count(comm, config);
                      check.at_most(std::abs(said - counted), counted / 100 + 2048,
                                    "rank " + std::to_string(comm.rank()) + " says " + std::to_string(said) + ", has " +
                                        std::to_string(counted));
                    },
                    {.machine = machine});
          INFO(text_of(config, ranks, Prefetch::never, machine));
          CHECK(check.failure() == "");
        }
      }
    }
  }
}

TEST_CASE("a table whose batches a node has not the memory for is refused on all ranks, before it is touched") {
  const EmbeddingConfig config = make_large_batches(0.75);
  const auto make = [&](Communicator& comm) { const EmbeddingTable table(comm, config); };
  const std::string batches = std::to_string(config.largest_batch);
  for (const std::string& part :
       {"table 'words', rank 1: a table of 20 rows x 4 with its optimizer's state and batches of " + batches + " ids takes ",
        std::string(" GiB on this node's 2 rank(s); ")})
    CHECK(unlike_errors(3, WEIR_ERR_MEMORY, part, make, {.machine = "nodes:1,2"}) == "");
  RankCheck check;
  const EmbeddingConfig smaller = make_large_batches(0.3);  // available memory changes, so all ranks must use the same value
  run_ranks(2, [&](Communicator& comm) { check.that(EmbeddingTable(comm, smaller).memory_bytes() > 0, "made"); });
  CHECK(check.failure() == "");
}

TEST_CASE("memory that one rank cannot have is an error on every rank, and the communicator stays usable") {
  for (const ExchangeInfo& exchange : exchanges()) {
    SameErrors errors(3);
    run_ranks(3, [&](Communicator& comm) {
      const EmbeddingConfig config = make_table_config(exchange.name, 1000, 4, 100);
      for (const std::int64_t most : {60000, 30000, 10000}) {
        errors.expect(comm.rank(), WEIR_ERR_MEMORY, "table 'words': rank 1 has not enough memory for it", [&] {
          EmbeddingConfig large = config;
          large.largest_batch = 10000;
          std::optional<LargestAllocation> scarce;
          if (comm.rank() == 1) scarce.emplace(most);
          const EmbeddingTable table(comm, large);
        });
      }
      errors.check().that(train_table(comm, config, 3).vectors.size() == 3, "trained");
    });
    INFO(exchange.name);
    CHECK(errors.failure() == "");
  }
}

TEST_CASE("after a call that finds no memory to start with, the next ones end, and no vectors are wrong") {
  for (const int ranks : {1, 3}) {
    for (const int scarce : {0, 1, 2}) {  // which call
      RankCheck check;
      const auto run = [&](Communicator& comm) {
        const std::vector<std::int64_t> ids{1, 7, 1};
        std::vector<float> first(12), again(12), gradients(12, 0.5F);  // outlive operations in flight
        EmbeddingTable table(comm, make_table_config("columns", 20, 4, 6));
        set_timeout(comm, 0.5);
        const bool poor = comm.rank() == ranks / 2;
        const bool found = succeeds(poor && scarce == 0, [&] { return table.lookup(std::span(ids), first); });
        const bool prefetched = succeeds(poor && scarce == 1, [&] { return table.prefetch(std::span(ids)); });
        const bool updated = succeeds(poor && scarce == 2, [&] { return table.update(gradients); });
        check.that(!poor || !found || !prefetched || !updated, "there was memory");
        const bool found_again = succeeds(false, [&] { return table.lookup(std::span(ids), again); });
        check.that(!found || !found_again || same_bits(first, again) != updated, "vectors after an update, or none");
      };
      run_ranks(ranks, run);
      INFO(ranks << " ranks, call " << scarce);
      CHECK(check.failure() == "");
    }
  }
}

TEST_CASE("a table of more bytes than 64 bits can count is refused") {
  const EmbeddingConfig config = make_table_config("columns", 0xffffffff, 0xffffffff, 1);
  CHECK(unlike_errors(2, WEIR_ERR_ARGUMENT, "width is 4294967295: with 4294967295 rows it must be at most 67108864",
                      [&](Communicator& comm) { const EmbeddingTable table(comm, config); }) == "");
}

}  // namespace weir::test
