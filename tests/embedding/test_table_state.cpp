// A table that continues from a saved state trains the same as an uninterrupted table, bit for bit. It refuses states that are not
// its own.
#include "embedding/trainee.hpp"
#include "support/catch.hpp"
#include "support/table_states.hpp"

namespace weir::test {
namespace {

struct HostTable {
  HostTable(const Communicator& comm, const EmbeddingConfig& config) : table(comm, config) {}
  std::vector<float> lookup(const std::vector<std::int64_t>& ids) {
    std::vector<float> vectors(ids.size() * static_cast<std::size_t>(table.config().width));
    table.lookup(std::span(ids), vectors).wait();
    return vectors;
  }
  Operation prefetch(const std::vector<std::int64_t>& ids) { return table.prefetch(std::span(ids)); }
  Operation update(const std::vector<float>& gradients) { return table.update(gradients); }

  EmbeddingTable table;
};

/// Returns the error's text, or "" if `saved` is accepted.
std::string refusal(EmbeddingTable& table, const SavedState& saved) {
  try {
    restore_state(*table.state(), saved, "table 'x'");
    return "";
  } catch (const Error& error) {
    return error.status() == WEIR_ERR_ARGUMENT ? error.what() : "other status";
  }
}

}  // namespace

TEST_CASE("every exchange and optimizer goes on from a saved state") {
  for (const ExchangeInfo& exchange : exchanges()) CHECK(tables_going_on<HostTable>(exchange.name) == "");
}

TEST_CASE("a batch that has been looked up is given up with a restored state") {
  with_tables([](Trainee& t, SameErrors& errors) {
    t.lookup(0);
    const SavedState saved = save_state(*t.table.state());
    t.update(0);  // the saved table continues
    t.lookup(1);
    t.prefetch(2).wait();
    restore_state(*t.table.state(), saved, "table 'words'");
    std::string text;
    try {
      static_cast<void>(t.table.update(t.batch(1).gradients));
    } catch (const Error& error) {  // the text names each rank's own call
      text = error.what();
    }
    errors.check().that(text.find("updates without a finished lookup") != std::string::npos, text);
    t.oracle = TableOracle(t.table.config(), all_rows(t.table));
    t.lookup(2);
    t.update(2);
  });
}

TEST_CASE("a table with a call in flight is neither saved nor restored") {
  with_tables([](Trainee& t, SameErrors& errors) {
    const SavedState fresh = save_state(*t.table.state());
    const auto busy = [&](const std::string& call) {
      errors.expect(t.rank(), WEIR_ERR_BUSY, "'words: " + call + "' is running",
                    [&] { static_cast<void>(save_state(*t.table.state())); });
      errors.expect(t.rank(), WEIR_ERR_BUSY, "'words: " + call + "' is running",
                    [&] { restore_state(*t.table.state(), fresh, "table 'words'"); });
    };
    Operation prefetch = t.prefetch(0);
    busy("prefetch");
    prefetch.wait();
    const TableBatch batch = t.batch(0);
    std::vector<float> vectors = room_for(t.table, batch);
    Operation lookup = t.table.lookup(std::span(batch.ids), vectors);
    busy("lookup");
    lookup.wait();
    Operation update = t.table.update(batch.gradients);
    busy("update");
    update.wait();
    t.updated(0);
  });
}

TEST_CASE("a table's state that is spoilt or foreign is refused by name, and changes nothing") {
  with_tables([](Trainee& t, SameErrors& errors) {
    t.lookup(0);
    t.update(0);
    const SavedState saved = save_state(*t.table.state());
    const std::string accepted = accepted_spoilt(saved, [&](const SavedState& spoilt) { return refusal(t.table, spoilt); });
    errors.check().that(accepted.empty(), accepted);
    const auto refused = [&](const SavedState& foreign, const std::string& field) {
      const std::string text = refusal(t.table, foreign);
      errors.check().that(text.find("does not fit table 'x': field '" + field + "'") != std::string::npos,
                          field + ": " + (text.empty() ? "accepted" : text));
    };
    refused(with(saved, "rank", std::int64_t{77}), "rank");
    refused(with(saved, "exchange", 'X'), "exchange");
    refused(with(saved, "optimizer", std::int64_t{3}), "optimizer': it is 'adam' in the state and ");
    refused(with(saved, "learning_rate", 1e300), "learning_rate");
    refused(with(saved, "steps", std::int64_t{-1}), "steps");
    refused(with(saved, "rows/first_row", std::int64_t{1000}), "rows/first_row");
    errors.check().that(first_difference(save_state(*t.table.state()), saved) == "", "changed");
  });
}

}  // namespace weir::test
