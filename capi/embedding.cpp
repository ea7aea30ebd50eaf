// The C ABI of embedding tables: thin shims over weir/embedding.hpp.
#include "embedding.hpp"

#include <limits>

#include "convert.hpp"

using namespace weir::capi;

namespace {

/// Converts ids to a span. A negative count becomes a huge size, which the call refuses on all ranks: they are already in it. So
/// does a count whose elements 64 bits cannot count, which modulo 2^64 could match the expected size.
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
  return guard_handle(table,
                      [&] { table->lookup = table->table.lookup(ids_of(ids, count), rows_of(table, vectors, count), stream); });
}

template <class Id>
weir_status prefetch(weir_embedding* table, const Id* ids, std::int64_t count, void* stream) {
  return guard_handle(table, [&] { table->prefetch = table->table.prefetch(ids_of(ids, count), stream); });
}

const std::vector<weir::ExchangeInfo>& exchanges() {
  static const std::vector<weir::ExchangeInfo> list = weir::exchanges();
  return list;
}

using Call = std::optional<weir::Operation> weir_embedding::*;

weir_status test_call(weir_embedding* table, Call call, int* done) {
  return guard_handle(table, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (table->*call) *done = (table->*call)->test() ? 1 : 0;
  });
}

weir_status wait_for(weir_embedding* table, Call call) {
  return guard_handle(table, [&] {
    if (table->*call) (table->*call)->wait();
  });
}

weir_status wait_for(weir_embedding* table, Call call, double seconds, int* done) {
  return guard_handle(table, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (table->*call) *done = (table->*call)->wait_for(seconds) ? 1 : 0;
  });
}

}  // namespace

extern "C" {

const char* weir_exchange_name(int index) {
  return index >= 0 && index < static_cast<int>(exchanges().size()) ? exchanges()[static_cast<std::size_t>(index)].name.data()
                                                                    : nullptr;
}

weir_status weir_exchange(int index, weir_exchange_info* info) {
  return guard(nullptr, [&] { fill_struct(info, to_c(element(exchanges(), index, "exchange"))); });
}

weir_status weir_embedding_create(weir_comm* comm, const weir_embedding_config* config, weir_embedding** table) {
  return make_handle(comm, table, [&] {
    weir::EmbeddingConfig described;
    try {
      need(table != nullptr, "the address for the table is NULL");
      described = from_c(read_struct<weir_embedding_config>(config, WEIR_EMBEDDING_CONFIG_INIT, "WEIR_EMBEDDING_CONFIG_INIT"));
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "table", error);
    }
    return std::unique_ptr<weir_embedding>(new weir_embedding{comm, weir::EmbeddingTable(comm->communicator, described)});
  });
}

weir_status weir_embedding_destroy(weir_embedding* table) { return destroy_handle(table); }

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
weir_status weir_embedding_lookup_wait_for(weir_embedding* table, double seconds, int* done) {
  return wait_for(table, &weir_embedding::lookup, seconds, done);
}

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
weir_status weir_embedding_prefetch_test(weir_embedding* table, int* done) {
  return test_call(table, &weir_embedding::prefetch, done);
}
weir_status weir_embedding_prefetch_wait(weir_embedding* table) { return wait_for(table, &weir_embedding::prefetch); }
weir_status weir_embedding_prefetch_wait_for(weir_embedding* table, double seconds, int* done) {
  return wait_for(table, &weir_embedding::prefetch, seconds, done);
}

weir_status weir_embedding_update_on_stream(weir_embedding* table, const float* gradients, std::int64_t count, void* stream) {
  return guard_handle(table, [&] { table->update = table->table.update(rows_of(table, gradients, count), stream); });
}
weir_status weir_embedding_update(weir_embedding* table, const float* gradients, std::int64_t count) {
  return weir_embedding_update_on_stream(table, gradients, count, nullptr);
}
weir_status weir_embedding_update_test(weir_embedding* table, int* done) { return test_call(table, &weir_embedding::update, done); }
weir_status weir_embedding_update_wait(weir_embedding* table) { return wait_for(table, &weir_embedding::update); }
weir_status weir_embedding_update_wait_for(weir_embedding* table, double seconds, int* done) {
  return wait_for(table, &weir_embedding::update, seconds, done);
}

weir_status weir_embedding_set_learning_rate(weir_embedding* table, double learning_rate) {
  return guard_handle(table, [&] { table->table.set_learning_rate(learning_rate); });
}

weir_status weir_embedding_export_rows(weir_embedding* table, std::int64_t first, std::int64_t count, float* values) {
  return guard_handle(table, [&] { table->table.export_rows(first, count, rows_of(table, values, count)); });
}
weir_status weir_embedding_import_rows(weir_embedding* table, std::int64_t first, std::int64_t count, const float* values) {
  return guard_handle(table, [&] { table->table.import_rows(first, count, rows_of(table, values, count)); });
}

weir_status weir_embedding_get_config(const weir_embedding* table, weir_embedding_config* config) {
  return guard_handle(table, [&] { fill_struct(config, to_c(table->table.config())); });
}

weir_status weir_embedding_memory_bytes(const weir_embedding* table, std::int64_t* bytes) {
  return guard_handle(table, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = table->table.memory_bytes();
  });
}

weir_status weir_embedding_state_bytes(weir_embedding* table, std::int64_t* bytes) {
  return guard_handle(table, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = table->table.state_bytes();
  });
}

weir_status weir_embedding_save_state(weir_embedding* table, void* state, std::int64_t bytes) {
  return guard_handle(table, [&] { table->table.save_state(bytes_at(state, bytes)); });
}

weir_status weir_embedding_restore_state(weir_embedding* table, const void* state, std::int64_t bytes) {
  return guard_handle(table, [&] { table->table.restore_state(bytes_at(state, bytes)); });
}

weir_status weir_embedding_get_statistics(const weir_embedding* table, weir_embedding_statistics* statistics) {
  return guard_handle(table, [&] { fill_struct(statistics, to_c(table->table.statistics())); });
}

}  // extern "C"
