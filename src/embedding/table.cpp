#include "embedding/table.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/fields.hpp"
#include "base/log.hpp"
#include "collectives/control.hpp"
#include "model/exchange_cost.hpp"

namespace weir::detail {

using namespace embedding;

namespace {

std::int64_t payload_sent(const TrafficCount& traffic) { return traffic.kind_sent[static_cast<std::size_t>(Traffic::payload)]; }
std::int64_t control_sent(const TrafficCount& traffic) { return traffic.kind_sent[static_cast<std::size_t>(Traffic::control)]; }

void add_sent(TrafficCount& sum, const TrafficCount& other) {
  for (std::size_t level = 0; level < level_count; ++level) sum.bytes_sent[level] += other.bytes_sent[level];
  for (std::size_t kind = 0; kind < sum.kind_sent.size(); ++kind) sum.kind_sent[kind] += other.kind_sent[kind];
}

[[noreturn]] void throw_input_error(std::span<const CallCard> cards, int rank, std::string_view table, const CallWords& call,
                                    std::int64_t rows) {
  const CallCard& card = cards[static_cast<std::size_t>(rank)];
  const char* const what = call.does;
  switch (card.input_error) {
    case CallError::bad_id:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} id {} at position {}: ids go from 0 to {}", table, rank, what, card.id,
                 card.place, rows - 1);
    case CallError::bad_range:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} {} rows from row {} on: the table has {} rows, 0 to {}", table, rank,
                 what, card.id, card.place, rows, rows - 1);
    case CallError::too_long:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} {} ids at once: largest_batch is {}", table, rank, what, card.place,
                 card.id);
    case CallError::wrong_size:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} with an array of {} elements: it must have {}, {}", table, rank, what,
                 card.place, card.id, call.array);
    case CallError::wrong_memory:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': {}", table,
                 memory_error_text(card.memory, rank, "table", card.of_ids != 0 ? "array of ids" : "array for vectors"));
    case CallError::not_in_host_memory:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} with an array in GPU memory: it must be in host memory", table, rank,
                 what);
    case CallError::device_failed:
      throw_device_failed(table, rank);
    default:
      fail_alike(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} with a null pointer{}", table, rank, what, refused_by_binding);
  }
}

}  // namespace

task<int> EmbeddingCall::share(CallCard card) {
  co_await allgather_control(channel(), reinterpret_cast<const std::byte*>(&card), sizeof card,
                             reinterpret_cast<std::byte*>(cards.data()), reinterpret_cast<std::byte*>(scratch_.data()));
  const auto faulty = std::find_if(cards.begin(), cards.end(), [](const CallCard& c) { return c.input_error != CallError::none; });
  co_return faulty != cards.end() ? static_cast<int>(faulty - cards.begin()) : -1;
}

void throw_device_failed(std::string_view table, int rank) {
  throw AgreedError(Error(WEIR_ERR_DEVICE, fmt::format("table '{}': CUDA failed on rank {}, whose log says how. Make a new "
                                                       "communicator and table",
                                                       table, rank)),
                    true);
}

bool routes_by_node(CommunicatorState& comm, const EmbeddingConfig& config) {
  const bool choice =
      comm.topology.node_count() > 1 && comm.topology.largest_node() > 1 && !find_exchange(config.exchange).replicated();
  if (!choice || config.routing == Routing::direct) return false;
  if (config.routing == Routing::by_node) return true;
  const FoundMachine& found = comm.agreed_machine();
  const Problem problem = make_problem(comm.topology, 0, 0);
  const double pair_bytes =
      static_cast<double>(config.largest_batch) * static_cast<double>(config.width) * sizeof(float) / problem.ranks;
  // Rank 0 decides, because the costs may differ in their last bits between processors.
  const std::int32_t mine = by_node_is_cheaper(found.machine, problem, pair_bytes) ? 1 : 0;
  return comm.share("choosing how rows travel", mine)[0] != 0;
}

EmbeddingState::EmbeddingState(std::shared_ptr<CommunicatorState> comm, const EmbeddingConfig& config, Lease lease, bool by_node)
    : comm_(std::move(comm)),
      lease_(std::move(lease)),
      config_(config),
      exchange_(find_exchange(config.exchange)),
      partition_(exchange_.split, config.rows, config.width, comm_->topology),
      setup_{&partition_, &comm_->topology, &exchange_, config.largest_batch, by_node, config.wire_values},
      host_(make_host_rows(config.width, comm_->threads_for(0))),
      space_(config.memory == MemorySpace::cuda ? make_device_rows(config.largest_batch)
                                                : make_host_rows(config.width, comm_->threads_for(0))),
      slice_(config, partition_, comm_->topology.rank(), *space_),
      fetch_(setup_, *space_),
      delivery_(setup_, *space_),
      token_work_(space_->make_work(3 * config.largest_batch + 1)),
      lookup_caller_(space_->make_caller()),
      update_caller_(space_->make_caller()),
      coalesced_(space_->take_rows(setup_.most_asked() * config.width)),
      marks_((config.rows + 63) / 64),
      pending_(marks_.size()),
      prefetch_(comm_, config.name + ": prefetch", config.priority, lease_.tag(0), comm_->topology.size()),
      lookup_(comm_, config.name + ": lookup", config.priority, lease_.tag(1), comm_->topology.size()),
      update_(comm_, config.name + ": update", config.priority, lease_.tag(2), 0),
      // needs no network: delayed gradients need not wait for it
      ids_arrival_(comm_, config.name + ": ids", config.delayed_priority, lease_.tag(3), 0) {
  const int ranks = comm_->topology.size();
  for (auto* batch : {&next_, &current_, &updating_, &spare_})
    *batch = std::make_unique<Batch>(config.rows, config.largest_batch, ranks);
  if (exchange_.path == GradientPath::allreduce) dense_.emplace(partition_, comm_->topology);
  statistics_.by_node = setup_.by_node;
  for (EmbeddingCall* call : {&prefetch_, &lookup_, &update_, &ids_arrival_}) call->run.on_gpu = config.memory == MemorySpace::cuda;
  prefetch_.run.holds_at_once = false;  // it is for the next step: dense blocks may be needed before
  set_learning_rate(config.learning_rate);
}

// Ids.

/// Returns the ids where the host can read them, after waiting if necessary. Errors in the ids themselves are left to Batch::take.
CallIds EmbeddingState::ids_on_host(CallIds ids, void* stream) {
  if (ids.count == 0 || ids.data == nullptr || ids.count > static_cast<std::size_t>(config_.largest_batch)) return ids;
  try {
    ids_arrival_.check_startable();
    Completion* const ready = space_->bring_ids(ids, stream);
    if (ids.memory != InputError::none) ids.refuse(CallError::wrong_memory);
    if (ready != nullptr) {
      ids_arrival_.launch([&] { return run_ids_arrival(ready); });
      ids_arrival_.wait();
    }
  } catch (const Error& error) {
    if (error.status() == WEIR_ERR_TIMEOUT) throw;  // the other ranks' calls time out as well
    ids.refuse(device_failed(error));
  }
  return ids;
}

task<void> EmbeddingState::run_ids_arrival(Completion* ready) {
  const Channel channel = ids_arrival_.channel();
  const StageScope stage = channel.stage(Stage::wait_for_ids);
  co_await channel.done(*ready);
}

/// Returns what a call sends to the other ranks if CUDA has failed here before its launch: they would wait for this rank.
CallError EmbeddingState::device_failed(const Error& error) {
  log(comm_->settings.log, LogLevel::error, "rank {}: table '{}': {}", comm_->topology.rank(), config_.name, error.what());
  return CallError::device_failed;
}

// Prefetch.

void EmbeddingState::start_prefetch(CallIds ids, void* stream) {
  prefetch_.wait();
  prefetch_.check_startable();
  const CallIds there = ids_on_host(ids, stream);
  prefetch_.launch([&] { return run_prefetch(there); });
}

task<void> EmbeddingState::run_prefetch(CallIds ids) {
  if (!split_ && next_.get() == foreseen_) std::swap(next_, spare_);
  Batch& batch = *next_;
  const CallCard card = batch.take(ids, partition_);
  next_known_ = card.input_error == CallError::none;
  batch.prefetch = ++prefetches_;
  batch.broken_off = nullptr;
  batch.settled = false;
  const OpenAtEnd gates(std::array{&batch.settled});
  const Channel channel = prefetch_.channel();
  StageScope stage = channel.stage(Stage::announce);
  int faulty = -1;
  try {
    faulty = co_await prefetch_.share(card);
    stage.end();
    if (faulty < 0) co_await batch.gather(channel, prefetch_.cards);
  } catch (...) {
    batch.broken_off = std::current_exception();
    throw;
  }
  if (faulty >= 0) throw_input_error(prefetch_.cards, faulty, config_.name, {"prefetches", ""}, config_.rows);
  batch.prefetch_traffic = prefetch_.traffic;
}

/// Throws if the prefetch of `batch` broke off: its messages may still write to that memory.
void EmbeddingState::check_gathering(const Batch& batch) {
  if (batch.broken_off) std::rethrow_exception(batch.broken_off);
}

// Lookup.

void EmbeddingState::start_lookup(CallIds ids, std::span<float> vectors, void* stream) {
  lookup_.check_startable();
  const CallIds there = ids_on_host(ids, stream);
  lookup_.launch([&] { return run_lookup(there, vectors, stream); });
}

/// Makes the current batch the one that the call asks for.
CallCard EmbeddingState::begin_lookup(const CallIds& ids, std::span<float> vectors, void* stream) {
  current_ready_ = false;
  CallCard card;
  if (next_known_ && ids.input_error == CallError::none && next_->holds(ids, partition_)) {
    std::swap(current_, next_);
    card.prefetch = current_->prefetch;
    card.distinct = current_->groups().count();
  } else {
    card = current_->take(ids, partition_);
  }
  next_known_ = false;
  if (card.input_error == CallError::none) card.check_array(vectors.data(), vectors.size(), current_->tokens() * config_.width);
  if (card.input_error == CallError::none && !vectors.empty()) card.check_memory(lookup_caller_->enter(vectors.data(), stream));
  ++lookups_;
  return card;
}

task<void> EmbeddingState::share_cards(Channel channel, CallWords call, CallCard card) {
  const int faulty = co_await lookup_.share(card);
  if (faulty < 0) co_return;
  co_await channel.opened(split_, update_.run);  // the update in flight may read the batch that this call gives up
  throw_input_error(lookup_.cards, faulty, config_.name, call, config_.rows);
}

task<void> EmbeddingState::run_lookup(CallIds ids, std::span<float> vectors, void* stream) {
  CallCard card = begin_lookup(ids, vectors, stream);
  const Channel channel = lookup_.channel();
  Batch& batch = *current_;
  StageScope stage = channel.stage(Stage::wait_for_prefetch);
  co_await channel.opened(batch.settled, prefetch_.run);
  check_gathering(batch);
  stage.next(Stage::announce);
  const bool foreseen = card.prefetch != 0;
  if (!batch.gathered()) card.prefetch = 0;
  co_await share_cards(channel, {"looks up", "one row for each id"}, card);
  // The numbers of prefetches so far may differ between ranks.
  const bool prefetched = card.prefetch != 0 && std::all_of(lookup_.cards.begin(), lookup_.cards.end(),
                                                            [&](const CallCard& c) { return c.prefetch == card.prefetch; });
  if (!prefetched && foreseen) co_await channel.opened(split_, update_.run);  // the update in flight may read this batch
  stage.end();
  if (!prefetched) co_await batch.gather(channel, lookup_.cards);
  const std::int64_t id_bytes = payload_sent(prefetched ? batch.prefetch_traffic : lookup_.traffic);
  co_await wait_for_rows(channel, batch);
  co_await list_tokens(channel, batch);
  const std::int64_t before = payload_sent(lookup_.traffic);
  co_await fetch_.fetch(channel, batch, slice_);
  stage.next(Stage::wait_for_caller);
  co_await channel.caller();
  stage.next(Stage::apply);
  if (has_owner_) fetch_.deliver(batch, slice_, rows_of_tokens_, *lookup_caller_, vectors.data());
  statistics_.tokens = batch.tokens();
  statistics_.distinct_rows = batch.groups().count();
  statistics_.prefetched = prefetched;
  statistics_.id_bytes_sent = id_bytes;
  statistics_.lookup_bytes_sent = payload_sent(lookup_.traffic) - before;
  batch_traffic_ = lookup_.traffic;
  if (prefetched) add_sent(batch_traffic_, batch.prefetch_traffic);
  statistics_.seconds_lookup = seconds_since(lookup_.run.begun);
  current_ready_ = true;
}

/// Makes the lists of the space that lookup and update need of the batch.
task<void> EmbeddingState::list_tokens(Channel channel, const Batch& batch) {
  co_await token_work_->cleared(channel);
  const RowGroups& groups = batch.groups();
  const auto count = static_cast<std::size_t>(groups.count());
  rows_of_tokens_ = token_work_->put(fetch_.rows_of_tokens(batch));
  token_groups_.first = token_work_->put({groups.first(), count + 1});
  token_groups_.order = token_work_->put({groups.order(), static_cast<std::size_t>(batch.tokens())});
  token_groups_.count = groups.count();
}

task<void> EmbeddingState::wait_for_rows(Channel channel, const Batch& batch) {
  const StageScope stage = channel.stage(Stage::wait_for_rows);
  co_await channel.opened(prior_applied_, update_.run);
  bool somebody_waits = false, waits = false;
  for (int rank = 0; rank < channel.size(); ++rank) {
    somebody_waits = somebody_waits || is_delayed(batch.rows(rank));
    const auto sent_from_here = within(batch.rows(rank), slice_.part().first_row, slice_.part().rows);
    waits = waits || ((!exchange_.replicated() || rank == channel.rank()) && is_delayed(sent_from_here));
  }
  if (somebody_waits) hurry_update();
  if (waits) co_await channel.opened(updated_, update_.run);
  if (!updated_ || (!half_applied_ && !update_.run.broken)) co_return;
  update_.finish();  // throws the update's error, if it has not been thrown yet
  fail(WEIR_ERR_STATE, "table '{}': an update broke off; its rows are not all applied. Make a new communicator and table",
       config_.name);
}

bool EmbeddingState::retire() noexcept {
  has_owner_ = false;
  bool ended = true;
  for (AsynchronousCall* call : {&prefetch_, &lookup_, &update_, &ids_arrival_}) ended = detail::retire(*call) && ended;
  return ended;
}

const EmbeddingStatistics& EmbeddingState::statistics() {
  statistics_.gradient_bytes_sent = payload_sent(update_.traffic);
  TrafficCount all = batch_traffic_;
  add_sent(all, update_.traffic);
  statistics_.control_bytes_sent = control_sent(all);
  statistics_.bytes_sent = all.bytes_sent;
  return statistics_;
}

void EmbeddingState::State::visit(StateVisitor& visitor) {
  visitor.value("learning_rate", learning_rate);
  visitor.check(is_learning_rate(learning_rate), "learning_rate", "finite as float32");
  visitor.value("steps", steps);
  visitor.check(steps >= 0, "steps", "at least 0");
}

void EmbeddingState::visit_state(StateVisitor& visitor) {
  for (EmbeddingCall* call : {&prefetch_, &update_, &ids_arrival_})  // callers need not wait for these
    if (call->run.finished) call->finish();
  for (EmbeddingCall* call : {&prefetch_, &lookup_, &update_, &ids_arrival_}) {
    if (!call->waited_for())
      fail(WEIR_ERR_BUSY, "'{}' is running: wait before the table's state is saved or restored", call->run.name);
    call->check_startable();
  }
  visitor.fixed("rank", comm_->topology.rank(), Share::layout);
  visitor.fixed("ranks", comm_->topology.size(), Share::layout);
  visitor.fixed("table_rows", config_.rows);
  visitor.fixed("width", config_.width);
  visitor.text("exchange", exchange_.name);
  visitor.fixed("optimizer", static_cast<std::int32_t>(config_.optimizer), Share::each, names_of<Optimizer>);
  visitor.state(state_);
  slice_.visit_state(visitor, *space_, config_);
  if (visitor.restores()) next_known_ = current_ready_ = false;
}

std::int64_t EmbeddingState::memory_bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(sizeof *this) + partition_.memory_bytes() + host_->memory_bytes() +
                       space_->memory_bytes() + fetch_.memory_bytes() + delivery_.memory_bytes() + marks_.bytes() +
                       pending_.bytes() + prefetch_.memory_bytes() + lookup_.memory_bytes();
  return bytes + 4 * current_->memory_bytes() + (dense_ ? dense_->memory_bytes() : 0);
}

std::int64_t EmbeddingState::untouched_bytes() const { return memory_bytes() - (space_->is_host() ? 0 : space_->memory_bytes()); }

void EmbeddingState::fill() {
  slice_.fill(config_, partition_, *space_);
  for (Buffer<std::uint64_t>* bits : {&marks_, &pending_}) std::fill_n(bits->data(), bits->size(), 0);
}

}  // namespace weir::detail
