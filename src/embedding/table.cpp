#include "embedding/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "embedding/embedding_config.hpp"
#include "kernels/kernels.hpp"
#include "model/exchange_cost.hpp"

namespace weir::detail {

using namespace embedding;

namespace {

constexpr std::int64_t sum_bytes = 1 << 15;  // sums of rows stay in the innermost cache until the optimizer reads them

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::int64_t payload_sent(const TrafficCount& traffic) { return traffic.kind_sent[static_cast<std::size_t>(Traffic::payload)]; }
std::int64_t control_sent(const TrafficCount& traffic) { return traffic.kind_sent[static_cast<std::size_t>(Traffic::control)]; }

void add_sent(TrafficCount& sum, const TrafficCount& other) {
  for (std::size_t level = 0; level < level_count; ++level) sum.bytes_sent[level] += other.bytes_sent[level];
  for (std::size_t kind = 0; kind < sum.kind_sent.size(); ++kind) sum.kind_sent[kind] += other.kind_sent[kind];
}

/// Opens gates when a call ends, however it does.
template <std::size_t N>
class OpenAtEnd {
 public:
  explicit OpenAtEnd(std::array<bool*, N> gates) : gates_(gates) {}
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;
  ~OpenAtEnd() {
    for (bool* gate : gates_) *gate = true;
  }

 private:
  std::array<bool*, N> gates_;
};

/// Collective where routing is automatic.
RowExchangeSetup make_setup(CommunicatorState& comm, const EmbeddingConfig& config, const Exchange& exchange,
                            const Partition& partition) {
  RowExchangeSetup setup{&partition, &comm.topology, &exchange, config.largest_batch, config.routing == Routing::by_node};
  const bool choice = comm.topology.node_count() > 1 && comm.topology.largest_node() > 1 && !exchange.replicated();
  if (config.routing == Routing::automatic && choice) {
    const Problem problem = make_problem(comm.topology, 0, 0);
    const double pair_bytes =
        static_cast<double>(config.largest_batch) * static_cast<double>(config.width) * sizeof(float) / problem.ranks;
    setup.by_node = by_node_is_cheaper(comm.agreed_machine().machine, problem, pair_bytes);
  }
  setup.by_node = setup.by_node && choice;
  return setup;
}

[[noreturn]] void throw_fault(const CallCard& card, int rank, std::string_view table, const char* what, std::int64_t rows) {
  switch (card.fault) {
    case CallFault::bad_id:
      fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} id {} at position {}: ids go from 0 to {}", table, rank, what, card.id,
           card.place, rows - 1);
    case CallFault::bad_count:
      fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} {} rows: a count must not be negative", table, rank, what, card.place);
    case CallFault::too_long:
      fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} {} ids at once: largest_batch is {}", table, rank, what, card.place, card.id);
    case CallFault::wrong_size:
      fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} with an array of {} elements: it must have {}, one row for each id", table,
           rank, what, card.place, card.id);
    default:
      fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} {} with a null pointer", table, rank, what);
  }
}

}  // namespace

EmbeddingState::EmbeddingState(std::shared_ptr<CommunicatorState> comm, const EmbeddingConfig& config,
                               const std::array<int, 3>& tags)
    : comm_(std::move(comm)),
      config_(config),
      exchange_(find_exchange(config.exchange)),
      partition_(exchange_.division, config.rows, config.width, comm_->topology),
      setup_(make_setup(*comm_, config, exchange_, partition_)),
      slice_(config, partition_, comm_->topology.rank()),
      fetch_(setup_),
      delivery_(setup_),
      arrived_groups_(setup_.most_served(), static_cast<std::uint64_t>(config.rows)),
      coalesced_(setup_.most_asked() * config.width),
      marks_(static_cast<std::size_t>((config.rows + 63) / 64)),
      pending_(marks_.size()),
      learning_rate_(config.learning_rate),
      prefetch_(comm_, config.name + ": prefetch", config.priority, tags[0]),
      lookup_(comm_, config.name + ": lookup", config.priority, tags[1]),
      update_(comm_, config.name + ": update", config.priority, tags[2]) {
  const int ranks = comm_->topology.size();
  for (auto* batch : {&next_, &current_, &updating_, &spare_})
    *batch = std::make_unique<Batch>(config.rows, config.largest_batch, ranks);
  for (auto* cards : {&prefetch_cards_, &lookup_cards_, &card_scratch_, &prefetch_scratch_})
    cards->resize(static_cast<std::size_t>(ranks));
  if (exchange_.path == GradientPath::allreduce) dense_.emplace(partition_, comm_->topology, *comm_->transport);
  const std::int64_t columns = std::max<std::int64_t>(1, slice_.part().columns);
  sum_rows_ = std::max<std::int64_t>(1, sum_bytes / (columns * static_cast<std::int64_t>(sizeof(float))));
  sums_ = Buffer<float>(sum_rows_ * columns);
  statistics_.by_node = setup_.by_node;
}

// Prefetch.

template <class Id>
void EmbeddingState::start_prefetch(std::span<const Id> ids) {
  prefetch_.wait();
  prefetch_.check_startable();
  if (!split_ && next_.get() == foreseen_) std::swap(next_, spare_);
  const CallCard card = next_->take(ids, partition_);
  next_known_ = card.fault == CallFault::none;
  next_->settled = false;
  prefetch_.launch(run_prefetch(next_.get(), card));
}

task<void> EmbeddingState::run_prefetch(Batch* batch, CallCard card) {
  const OpenAtEnd gates(std::array{&batch->settled});
  const Channel channel = prefetch_.channel();
  channel.step("prefetch: announce");
  co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&card), sizeof card,
                             reinterpret_cast<std::byte*>(prefetch_cards_.data()),
                             reinterpret_cast<std::byte*>(prefetch_scratch_.data()));
  for (std::size_t rank = 0; rank < prefetch_cards_.size(); ++rank) {
    if (prefetch_cards_[rank].fault != CallFault::none)
      throw_fault(prefetch_cards_[rank], static_cast<int>(rank), config_.name, "prefetches", config_.rows);
  }
  co_await batch->gather(channel, prefetch_cards_);
  batch->prefetch_traffic = prefetch_.traffic;
}

// Lookup.

template <class Id>
void EmbeddingState::start_lookup(std::span<const Id> ids, std::span<float> vectors) {
  lookup_.check_startable();
  current_ready_ = false;
  CallCard card;
  if (next_known_ && next_->holds(ids, partition_)) {
    std::swap(current_, next_);
    card.prefetched = 1;
    card.distinct = current_->groups().count();
  } else {
    card = current_->take(ids, partition_);
  }
  next_known_ = false;
  if (card.fault == CallFault::none) card.check_array(vectors.data(), vectors.size(), current_->tokens() * config_.width);
  ++lookups_;
  lookup_.launch(run_lookup(card, vectors.data()));
}

task<void> EmbeddingState::share_cards(Channel channel, const char* what, CallCard card) {
  co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&card), sizeof card,
                             reinterpret_cast<std::byte*>(lookup_cards_.data()),
                             reinterpret_cast<std::byte*>(card_scratch_.data()));
  for (std::size_t rank = 0; rank < lookup_cards_.size(); ++rank) {
    if (lookup_cards_[rank].fault == CallFault::none) continue;
    co_await channel.opened(split_);  // the update in flight may look at the batch that this call gives up
    throw_fault(lookup_cards_[rank], static_cast<int>(rank), config_.name, what, config_.rows);
  }
}

task<void> EmbeddingState::run_lookup(CallCard card, float* vectors) {
  const Clock::time_point begin = Clock::now();
  const Channel channel = lookup_.channel();
  Batch& batch = *current_;
  channel.step("lookup: wait for the prefetch");
  co_await channel.opened(batch.settled);
  channel.step("lookup: announce");
  co_await share_cards(channel, "looks up", card);
  const bool prefetched = batch.gathered() && std::all_of(lookup_cards_.begin(), lookup_cards_.end(),
                                                          [](const CallCard& c) { return c.prefetched != 0; });
  if (!prefetched && card.prefetched != 0) co_await channel.opened(split_);  // the update in flight looks at this batch
  if (!prefetched) co_await batch.gather(channel, lookup_cards_);
  const std::int64_t id_bytes = payload_sent(prefetched ? batch.prefetch_traffic : lookup_.traffic);
  co_await wait_for_rows(channel, batch);
  const std::int64_t before = payload_sent(lookup_.traffic);
  co_await fetch_.run(channel, batch, slice_, config_.wire_values, vectors);
  statistics_.tokens = batch.tokens();
  statistics_.distinct_rows = batch.groups().count();
  statistics_.prefetched = prefetched;
  statistics_.id_bytes_sent = id_bytes;
  statistics_.lookup_bytes_sent = payload_sent(lookup_.traffic) - before;
  batch_traffic_ = lookup_.traffic;
  if (prefetched) add_sent(batch_traffic_, batch.prefetch_traffic);
  statistics_.seconds_lookup = seconds_since(begin);
  current_ready_ = true;
}

task<void> EmbeddingState::wait_for_rows(Channel channel, const Batch& batch) {
  channel.step("lookup: wait for rows of the update before");
  co_await channel.opened(prior_applied_);
  bool somebody_waits = false, waits = false;
  for (int rank = 0; rank < channel.size(); ++rank) {
    somebody_waits = somebody_waits || is_delayed(batch.rows(rank));
    const auto sent_from_here = within(batch.rows(rank), slice_.part().first_row, slice_.part().rows);
    waits = waits || ((!exchange_.replicated() || rank == channel.rank()) && is_delayed(sent_from_here));
  }
  if (somebody_waits) hurry_update();
  if (waits) co_await channel.opened(updated_);
  if (!updated_ || !half_applied_) co_return;
  update_.finish();  // the reason, if nobody has heard it yet
  fail(WEIR_ERR_STATE, "table '{}': an update broke off; its rows are not all applied. Make a new communicator and table",
       config_.name);
}

// Update.

/// Who waits for all of an update must not wait behind what is less urgent than its caller.
void EmbeddingState::hurry_update() {
  if (update_.run.finished) return;
  hurried_ = true;
  comm_->engine.reprioritise(update_.run, config_.priority);
}

void EmbeddingState::finish_update() {
  hurry_update();
  update_.wait();
  update_.check_startable();
}

void EmbeddingState::start_update(std::span<const float> gradients) {
  finish_update();
  const Clock::time_point begin = Clock::now();
  const std::int64_t expected = current_->tokens() * config_.width;
  Step step{CallFault::none, next_known_ ? next_.get() : nullptr, learning_rate_, begin, lookups_};
  if (!lookup_.run.finished || !current_ready_)
    step.fault = CallFault::not_ready;
  else if (static_cast<std::int64_t>(gradients.size()) != expected)
    step.fault = CallFault::wrong_size;
  else if (expected > 0 && gradients.data() == nullptr)
    step.fault = CallFault::null_pointer;
  if (step.fault == CallFault::none) {
    const RowGroups& groups = current_->groups();
    kernels::host::coalesce_rows(gradients.data(), config_.width, groups.order(), groups.first(), groups.count(),
                                 coalesced_.data());
    std::swap(current_, updating_);
    current_ready_ = false;
    split_ = prior_applied_ = updated_ = false;
    foreseen_ = step.next;
  }
  statistics_.seconds_coalesce = seconds_since(begin);
  update_.run.priority = config_.priority;
  hurried_ = false;
  update_.launch(run_update(step));
}

task<void> EmbeddingState::run_update(Step step) {
  const OpenAtEnd gates(std::array{&split_, &prior_applied_, &updated_});
  const Channel channel = update_.channel();
  const bool next_known = co_await agree_on_step(channel, step);
  const RowOptimizer optimizer(config_, step.learning_rate, config_.average ? channel.size() : 1, steps_ + 1);
  statistics_.updated_rows = 0;
  half_applied_ = true;

  if (dense_) {
    split_ = true;
    co_await dense_->run(channel, *updating_, coalesced_.data());
    statistics_.prior_rows = updating_->groups().count();
    statistics_.updated_rows = dense_->step(slice_, optimizer);
    statistics_.seconds_prior = statistics_.seconds_update = seconds_since(step.begin);
    ++steps_;
    half_applied_ = false;
    co_return;
  }

  // EmbRace Algorithm 1.
  channel.step("update: wait for the prefetch");
  if (next_known) co_await channel.opened(step.next->settled);
  updating_->split(next_known && step.next->gathered() ? step.next : nullptr, marks_.data());
  split_ = true;
  statistics_.prior_rows = updating_->prior(channel.rank());

  channel.step("update: prior rows");
  co_await delivery_.run(channel, *updating_, true, coalesced_.data(), config_.wire_values);
  apply_arrived(optimizer);
  mark_delayed(true);
  prior_applied_ = true;
  statistics_.seconds_prior = statistics_.seconds_update = seconds_since(step.begin);
  ++steps_;
  half_applied_ = delayed_rows_of_all() > 0;
  if (!half_applied_) co_return;

  channel.step("update: delayed rows");
  if (!hurried_) {
    channel.reprioritise(config_.delayed_priority);
    co_await channel.turn();  // else they would share the network with the vectors that prior rows were hurried for
  }
  co_await delivery_.run(channel, *updating_, false, coalesced_.data(), config_.wire_values);
  apply_arrived(optimizer);
  mark_delayed(false);
  half_applied_ = false;
  statistics_.seconds_update = seconds_since(step.begin);
}

/// Whether all ranks know their next batch: a rank may have prefetched later than another.
task<bool> EmbeddingState::agree_on_step(Channel channel, const Step& step) {
  channel.step("update: announce");
  const auto rate = std::bit_cast<std::uint64_t>(step.learning_rate);
  const auto lowest_rank = 0xffffffffu - static_cast<std::uint32_t>(channel.rank());
  // Maxima: the fault and its rank, the rate, what is smallest of the rate, whether a next batch is missing. And scratch.
  std::array<std::uint64_t, 8> words{};
  if (step.fault != CallFault::none) words[0] = static_cast<std::uint64_t>(step.fault) << 32 | lowest_rank;
  words[1] = rate;
  words[2] = ~rate;
  words[3] = step.next == nullptr ? 1 : 0;
  co_await allreduce_control(channel, words.data(), 4, 4, words.data() + 4);
  const auto fault = static_cast<CallFault>(words[0] >> 32);
  const bool rates_differ = words[1] != ~words[2];
  if (fault == CallFault::none && !rates_differ) co_return words[3] == 0;
  // What has been looked up since cannot be updated again: that batch has taken its place.
  if (step.fault == CallFault::none && step.lookups == lookups_) {
    std::swap(current_, updating_);
    current_ready_ = true;
  }
  const auto rank = 0xffffffffu - static_cast<std::uint32_t>(words[0]);
  if (fault == CallFault::not_ready)
    fail(WEIR_ERR_ARGUMENT,
         "table '{}': rank {} updates without a finished lookup: each update needs one lookup before it, waited for", config_.name,
         rank);
  if (fault != CallFault::none)
    fail(WEIR_ERR_ARGUMENT, "table '{}': rank {} gave gradients that are null, or not of the size of its last batch (ids x width)",
         config_.name, rank);
  fail(WEIR_ERR_MISMATCH, "table '{}': ranks disagree about the learning rate; set the same on all", config_.name);
}

void EmbeddingState::set_learning_rate(double learning_rate) {
  require(std::isfinite(learning_rate), "table '{}': the learning rate is {}: it must be finite", config_.name, learning_rate);
  learning_rate_ = learning_rate;
}

void EmbeddingState::mark_delayed(bool pending) {
  for (int rank = 0; rank < comm_->topology.size(); ++rank) {
    for (const std::uint32_t row : updating_->part(rank, false)) {
      const std::uint64_t bit = std::uint64_t{1} << row % 64;
      if (pending)
        pending_[row / 64] |= bit;
      else
        pending_[row / 64] &= ~bit;
    }
  }
}

bool EmbeddingState::is_delayed(std::span<const std::uint32_t> positions) const {
  if (updated_) return false;
  return std::any_of(positions.begin(), positions.end(),
                     [&](std::uint32_t row) { return (pending_[row / 64] >> row % 64 & 1) != 0; });
}

void EmbeddingState::apply_arrived(const RowOptimizer& optimizer) {
  const RowDelivery::Arrived arrived = delivery_.arrived();
  const std::int64_t columns = slice_.part().columns;
  if (columns == 0) return;
  arrived_groups_.build(arrived.rows);
  for (std::int64_t first = 0; first < arrived_groups_.count(); first += sum_rows_) {
    const std::int64_t count = std::min(sum_rows_, arrived_groups_.count() - first);
    kernels::host::coalesce_rows(arrived.values, columns, arrived_groups_.order(), arrived_groups_.first() + first, count,
                                 sums_.data());
    slice_.step(optimizer, arrived_groups_.keys() + first, count, sums_.data());
  }
  statistics_.updated_rows += arrived_groups_.count();
}

std::int64_t EmbeddingState::delayed_rows_of_all() const {
  std::int64_t rows = 0;
  for (int rank = 0; rank < comm_->topology.size(); ++rank) rows += static_cast<std::int64_t>(updating_->part(rank, false).size());
  return rows;
}

// Ranges of rows.

EmbeddingState::RowRange EmbeddingState::check_range(std::int64_t first, std::int64_t count, const float* values,
                                                     std::size_t given) const {
  RowRange range{first, count, {}};
  if (count < 0)
    range.card = {CallFault::bad_count, 0, 0, count, 0};
  else if (first < 0 || first > config_.rows)
    range.card = {CallFault::bad_id, 0, 0, 0, first};
  else if (count > config_.rows - first)
    range.card = {CallFault::bad_id, 0, 0, count - 1, first + count - 1};
  else
    range.card.check_array(values, given, count * config_.width);
  return range;
}

/// The next of `range`'s rows after the first `done` become `batch`, known to all; `most` is what any rank had left before. Returns
/// how many they are.
task<std::int64_t> EmbeddingState::gather_range(Channel channel, Batch& batch, RowRange range, std::int64_t done,
                                                std::int64_t& most) {
  CallCard card = range.card;
  const std::int64_t count = card.fault == CallFault::none ? std::min(config_.largest_batch, range.count - done) : 0;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = range.first + done + i;
  if (card.fault == CallFault::none) card = batch.take(std::span<const std::int64_t>(ids), partition_);
  if (card.fault == CallFault::none) card.place = range.count - done;
  co_await share_cards(channel, "exports or imports", card);
  most = 0;
  for (const CallCard& other : lookup_cards_) most = std::max(most, other.place);
  if (most > 0) co_await batch.gather(channel, lookup_cards_);
  co_return count;
}

void EmbeddingState::export_rows(std::int64_t first, std::int64_t count, std::span<float> values) {
  lookup_.check_startable();
  finish_update();
  lookup_.launch(run_export(check_range(first, count, values.data(), values.size()), values.data()));
  lookup_.wait();
}

task<void> EmbeddingState::run_export(RowRange range, float* values) {
  const Channel channel = lookup_.channel();
  channel.step("export rows");
  Batch batch(config_.rows, config_.largest_batch, channel.size());
  for (std::int64_t done = 0, most = 1; most > 0;) {
    const std::int64_t count = co_await gather_range(channel, batch, range, done, most);
    if (most > 0) co_await fetch_.run(channel, batch, slice_, WireValues::native, values + done * config_.width);
    done += count;
  }
}

void EmbeddingState::import_rows(std::int64_t first, std::int64_t count, std::span<const float> values) {
  lookup_.check_startable();
  finish_update();
  lookup_.launch(run_import(check_range(first, count, values.data(), values.size()), values.data()));
  lookup_.wait();
}

task<void> EmbeddingState::run_import(RowRange range, const float* values) {
  const Channel channel = lookup_.channel();
  channel.step("import rows");
  Batch batch(config_.rows, config_.largest_batch, channel.size());
  const std::int64_t columns = slice_.part().columns;
  // One rank after another, so that the highest one's values stay.
  for (int turn = 0; turn < channel.size(); ++turn) {
    RowRange mine = range;
    if (turn != channel.rank()) mine.count = 0;
    for (std::int64_t done = 0, most = 1; most > 0;) {
      const std::int64_t count = co_await gather_range(channel, batch, mine, done, most);
      if (most == 0) break;
      batch.split(nullptr, marks_.data());
      // Rows travel by position.
      kernels::host::gather_rows(values + done * config_.width, config_.width, batch.groups().order(), count, config_.width,
                                 coalesced_.data(), config_.width);
      co_await delivery_.run(channel, batch, true, coalesced_.data(), WireValues::native);
      const RowDelivery::Arrived arrived = delivery_.arrived();
      for (std::size_t i = 0; i < arrived.rows.size(); ++i)
        std::copy_n(arrived.values + static_cast<std::int64_t>(i) * columns, columns, slice_.values() + arrived.rows[i] * columns);
      done += count;
    }
  }
}

const EmbeddingStatistics& EmbeddingState::statistics() {
  statistics_.gradient_bytes_sent = payload_sent(update_.traffic);
  TrafficCount all = batch_traffic_;
  add_sent(all, update_.traffic);
  statistics_.control_bytes_sent = control_sent(all);
  statistics_.bytes_sent = all.bytes_sent;
  return statistics_;
}

std::int64_t EmbeddingState::memory_bytes() const {
  const auto bits = static_cast<std::int64_t>((marks_.size() + pending_.size()) * sizeof(std::uint64_t));
  return slice_.memory_bytes() + fetch_.memory_bytes() + delivery_.memory_bytes() + (dense_ ? dense_->memory_bytes() : 0) +
         arrived_groups_.memory_bytes() + 4 * current_->memory_bytes() + coalesced_.bytes() + sums_.bytes() + bits;
}

template void EmbeddingState::start_lookup(std::span<const std::int32_t>, std::span<float>);
template void EmbeddingState::start_lookup(std::span<const std::int64_t>, std::span<float>);
template void EmbeddingState::start_prefetch(std::span<const std::int32_t>);
template void EmbeddingState::start_prefetch(std::span<const std::int64_t>);

}  // namespace weir::detail
