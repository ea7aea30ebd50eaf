// Implements the classes of weir/embedding.hpp on the table's state.
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/state_bytes.hpp"
#include "communicator/config_card.hpp"
#include "communicator/owner.hpp"
#include "embedding/table.hpp"

namespace weir {
namespace {

std::shared_ptr<detail::EmbeddingState> make_table(std::shared_ptr<detail::CommunicatorState> comm, const EmbeddingConfig& config) {
  detail::Lease lease = embedding::agree_on_config(*comm, config);
  const bool by_node = detail::routes_by_node(*comm, config);
  std::shared_ptr<detail::EmbeddingState> state;
  comm->agree("making a table", "table", config.name,
              [&] { state = std::make_shared<detail::EmbeddingState>(comm, config, std::move(lease), by_node); });
  // Without this, memory that the system has overcommitted would be missed only at the first write, which kills the process.
  embedding::agree_on_memory(*comm, config, state->untouched_bytes());
  comm->agree("filling a table", "table", config.name, [&] { state->fill(); });
  log(comm->settings.log, LogLevel::info, "rank {}: table '{}': {} x {} by {}, {} bytes", comm->topology.rank(), config.name,
      config.rows, config.width, config.exchange, state->memory_bytes());
  return state;
}

/// Returns an operation that keeps the table alive.
Operation operation(const detail::Owner<detail::EmbeddingState>& state, detail::AsynchronousCall& call) {
  return Operation(std::shared_ptr<detail::AsynchronousCall>(*state, &call));
}

std::string words(const detail::EmbeddingState& table) { return fmt::format("table '{}'", table.config().name); }

}  // namespace

EmbeddingTable::EmbeddingTable(const Communicator& comm, const EmbeddingConfig& config)
    : state_(owned(comm.state(), [&] { return make_table(comm.state(), config); })) {}

Operation EmbeddingTable::lookup(std::span<const std::int64_t> ids, std::span<float> vectors, void* stream) {
  const auto table = enter(state_);
  table->start_lookup(ids, vectors, stream);
  return operation(state_, table->lookup());
}
Operation EmbeddingTable::lookup(std::span<const std::int32_t> ids, std::span<float> vectors, void* stream) {
  const auto table = enter(state_);
  table->start_lookup(ids, vectors, stream);
  return operation(state_, table->lookup());
}
Operation EmbeddingTable::prefetch(std::span<const std::int64_t> ids, void* stream) {
  const auto table = enter(state_);
  table->start_prefetch(ids, stream);
  return operation(state_, table->prefetch());
}
Operation EmbeddingTable::prefetch(std::span<const std::int32_t> ids, void* stream) {
  const auto table = enter(state_);
  table->start_prefetch(ids, stream);
  return operation(state_, table->prefetch());
}
Operation EmbeddingTable::update(std::span<const float> gradients, void* stream) {
  const auto table = enter(state_);
  table->start_update(gradients, stream);
  return operation(state_, table->update());
}

void EmbeddingTable::set_learning_rate(double learning_rate) { enter(state_)->set_learning_rate(learning_rate); }
void EmbeddingTable::export_rows(std::int64_t first, std::int64_t count, std::span<float> values) {
  enter(state_)->export_rows(first, count, values);
}
void EmbeddingTable::import_rows(std::int64_t first, std::int64_t count, std::span<const float> values) {
  enter(state_)->import_rows(first, count, values);
}
const EmbeddingStatistics& EmbeddingTable::statistics() const { return enter(state_)->statistics(); }
const EmbeddingConfig& EmbeddingTable::config() const { return unguarded(state_).config(); }
std::int64_t EmbeddingTable::memory_bytes() const { return enter(state_)->memory_bytes(); }
std::int64_t EmbeddingTable::state_bytes() const { return weir::state_bytes(*enter(state_)); }
void EmbeddingTable::save_state(std::span<std::byte> state) const {
  const auto table = enter(state_);
  weir::save_state(*table, state, words(*table));
}
void EmbeddingTable::restore_state(std::span<const std::byte> state) {
  const auto table = enter(state_);
  weir::restore_state(*table, state, words(*table));
}

}  // namespace weir
