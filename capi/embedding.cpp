// The C ABI of embedding tables: thin shims over weir/embedding.hpp.
#include <weir/embedding.h>

#include <limits>
#include <optional>
#include <weir/embedding.hpp>

#include "shim.hpp"

using namespace weir::capi;

struct weir_embedding {
  weir_comm* comm;
  weir::EmbeddingTable table;
  std::optional<weir::Operation> prefetch{}, lookup{}, update{};  ///< the last ones started
};

namespace {

template <class Body>
weir_status guard_table(const weir_embedding* table, Body body) noexcept {
  return guard(table != nullptr ? table->comm : nullptr, [&] {
    need(table != nullptr, "the table is NULL");
    body();
  });
}

weir::EmbeddingConfig read_config(const weir_embedding_config* given) {
  const weir_embedding_config c = read_struct<weir_embedding_config>(
      given, WEIR_EMBEDDING_CONFIG_INIT, "struct_size of the config makes no sense: start from WEIR_EMBEDDING_CONFIG_INIT");
  weir::EmbeddingConfig config;
  config.rows = c.rows;
  config.width = c.width;
  config.largest_batch = c.largest_batch;
  config.seed = static_cast<std::uint64_t>(c.seed);
  config.learning_rate = c.learning_rate;
  config.beta1 = c.beta1;
  config.beta2 = c.beta2;
  config.epsilon = c.epsilon;
  config.initial_range = c.initial_range;
  config.exchange = c.exchange != nullptr ? c.exchange : "";
  config.name = c.name != nullptr ? c.name : "";
  config.optimizer = static_cast<weir::Optimizer>(c.optimizer);
  config.wire_values = static_cast<weir::WireValues>(c.wire_values);
  config.routing = static_cast<weir::Routing>(c.routing);
  config.average = c.average != 0;
  config.priority = c.priority;
  config.delayed_priority = c.delayed_priority;
  config.memory = static_cast<weir::MemorySpace>(c.memory);
  return config;
}

/// A count that makes no sense becomes a huge size: the call refuses it on all ranks, which are in it by now. So does one whose
/// elements 64 bits cannot count: modulo 2^64 they might be just as many as expected.
template <class Id>
std::span<const Id> ids_of(const Id* ids, std::int64_t count) {
  return {ids, static_cast<std::size_t>(count)};
}
template <class T>
std::span<T> rows_of(const weir_embedding* table, T* values, std::int64_t count) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  const auto rows = static_cast<std::size_t>(count), width = static_cast<std::size_t>(table->table.config().width);
  return {values, rows <= most / width ? rows * width : most};
}

template <class Id>
weir_status lookup(weir_embedding* table, const Id* ids, std::int64_t count, float* vectors, void* stream) {
  return guard_table(table,
                     [&] { table->lookup = table->table.lookup(ids_of(ids, count), rows_of(table, vectors, count), stream); });
}

template <class Id>
weir_status prefetch(weir_embedding* table, const Id* ids, std::int64_t count, void* stream) {
  return guard_table(table, [&] { table->prefetch = table->table.prefetch(ids_of(ids, count), stream); });
}

using Call = std::optional<weir::Operation> weir_embedding::*;

weir_status test_call(weir_embedding* table, Call call, int* done) {
  return guard_table(table, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (table->*call) *done = (table->*call)->test() ? 1 : 0;
  });
}

weir_status wait_for(weir_embedding* table, Call call) {
  return guard_table(table, [&] {
    if (table->*call) (table->*call)->wait();
  });
}

}  // namespace

extern "C" {

const char* weir_exchange_name(int index) {
  static const std::vector<weir::ExchangeInfo> list = weir::exchanges();
  return index >= 0 && index < static_cast<int>(list.size()) ? list[static_cast<std::size_t>(index)].name.data() : nullptr;
}

weir_status weir_embedding_create(weir_comm* comm, const weir_embedding_config* config, weir_embedding** table) {
  if (table != nullptr) *table = nullptr;
  return guard(comm, [&] {
    need(comm != nullptr, "the communicator is NULL");
    weir::EmbeddingConfig described;
    try {
      need(table != nullptr, "the address for the table is NULL");
      described = read_config(config);
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "table", error);
    }
    *table = new weir_embedding{comm, weir::EmbeddingTable(comm->communicator, described)};
    ++comm->plans;
  });
}

weir_status weir_embedding_destroy(weir_embedding* table) {
  if (table == nullptr) return WEIR_OK;
  weir_comm* const comm = table->comm;
  return guard(comm, [&] {
    delete table;
    --comm->plans;
  });
}

weir_status weir_embedding_lookup_int32_on_stream(weir_embedding* table, const std::int32_t* ids, std::int64_t count,
                                                  float* vectors, void* stream) {
  return lookup(table, ids, count, vectors, stream);
}
weir_status weir_embedding_lookup_int32(weir_embedding* table, const std::int32_t* ids, std::int64_t count, float* vectors) {
  return lookup(table, ids, count, vectors, nullptr);
}
weir_status weir_embedding_lookup_int64_on_stream(weir_embedding* table, const std::int64_t* ids, std::int64_t count,
                                                  float* vectors, void* stream) {
  return lookup(table, ids, count, vectors, stream);
}
weir_status weir_embedding_lookup_int64(weir_embedding* table, const std::int64_t* ids, std::int64_t count, float* vectors) {
  return lookup(table, ids, count, vectors, nullptr);
}
weir_status weir_embedding_lookup_test(weir_embedding* table, int* done) { return test_call(table, &weir_embedding::lookup, done); }
weir_status weir_embedding_lookup_wait(weir_embedding* table) { return wait_for(table, &weir_embedding::lookup); }

weir_status weir_embedding_prefetch_int32_on_stream(weir_embedding* table, const std::int32_t* ids, std::int64_t count,
                                                    void* stream) {
  return prefetch(table, ids, count, stream);
}
weir_status weir_embedding_prefetch_int32(weir_embedding* table, const std::int32_t* ids, std::int64_t count) {
  return prefetch(table, ids, count, nullptr);
}
weir_status weir_embedding_prefetch_int64_on_stream(weir_embedding* table, const std::int64_t* ids, std::int64_t count,
                                                    void* stream) {
  return prefetch(table, ids, count, stream);
}
weir_status weir_embedding_prefetch_int64(weir_embedding* table, const std::int64_t* ids, std::int64_t count) {
  return prefetch(table, ids, count, nullptr);
}
weir_status weir_embedding_prefetch_wait(weir_embedding* table) { return wait_for(table, &weir_embedding::prefetch); }

weir_status weir_embedding_update_on_stream(weir_embedding* table, const float* gradients, std::int64_t count, void* stream) {
  return guard_table(table, [&] { table->update = table->table.update(rows_of(table, gradients, count), stream); });
}
weir_status weir_embedding_update(weir_embedding* table, const float* gradients, std::int64_t count) {
  return weir_embedding_update_on_stream(table, gradients, count, nullptr);
}
weir_status weir_embedding_update_test(weir_embedding* table, int* done) { return test_call(table, &weir_embedding::update, done); }
weir_status weir_embedding_update_wait(weir_embedding* table) { return wait_for(table, &weir_embedding::update); }

weir_status weir_embedding_set_learning_rate(weir_embedding* table, double learning_rate) {
  return guard_table(table, [&] { table->table.set_learning_rate(learning_rate); });
}

weir_status weir_embedding_export_rows(weir_embedding* table, std::int64_t first, std::int64_t count, float* values) {
  return guard_table(table, [&] { table->table.export_rows(first, count, rows_of(table, values, count)); });
}
weir_status weir_embedding_import_rows(weir_embedding* table, std::int64_t first, std::int64_t count, const float* values) {
  return guard_table(table, [&] { table->table.import_rows(first, count, rows_of(table, values, count)); });
}

weir_status weir_embedding_get_statistics(const weir_embedding* table, weir_embedding_statistics* statistics) {
  return guard_table(table, [&] {
    const weir::EmbeddingStatistics& s = table->table.statistics();
    weir_embedding_statistics full{};
    full.tokens = s.tokens;
    full.distinct_rows = s.distinct_rows;
    full.prior_rows = s.prior_rows;
    full.updated_rows = s.updated_rows;
    full.id_bytes_sent = s.id_bytes_sent;
    full.lookup_bytes_sent = s.lookup_bytes_sent;
    full.gradient_bytes_sent = s.gradient_bytes_sent;
    full.control_bytes_sent = s.control_bytes_sent;
    std::copy(s.bytes_sent.begin(), s.bytes_sent.end(), full.bytes_sent);
    full.seconds_lookup = s.seconds_lookup;
    full.seconds_coalesce = s.seconds_coalesce;
    full.seconds_prior = s.seconds_prior;
    full.seconds_update = s.seconds_update;
    full.prefetched = s.prefetched;
    full.by_node = s.by_node;
    fill_struct(statistics, full);
  });
}

}  // extern "C"
