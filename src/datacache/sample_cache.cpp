#include "datacache/sample_cache.hpp"

#include <algorithm>
#include <limits>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "communicator/config_card.hpp"

namespace weir::detail {

using namespace weir::datacache;

namespace {

constexpr std::int64_t most_samples = std::int64_t{1} << 48, most_value_bytes = std::int64_t{1} << 40;
constexpr std::int64_t most_bytes = std::int64_t{1} << 60, most_batch_bytes = std::int64_t{1} << 46;

void check_source(const SampleSource* source) {
  require(source != nullptr, "there is no source of samples");
  require(source->size() >= 0 && source->size() <= most_samples, "the source has {} samples: it must be from 0 to 2^48",
          source->size());
  require(source->value_bytes() >= 1 && source->value_bytes() <= most_value_bytes,
          "the source's value_bytes() is {}: it must be from 1 to 2^40", source->value_bytes());
  require(source->size() <= most_bytes / source->value_bytes(),
          "the source has {} samples of up to {} bytes: together they must not have more than 2^60", source->size(),
          source->value_bytes());
}

ConfigCard card_of(const SampleCacheConfig& config, const SampleSource* source) {
  ConfigCard card;
  card.outcome = outcome_of([&] {
    check_fields(config);
    require(is_data_set_name(config.name),
            "name is '{}': it must be 1 to 64 letters, digits, '_', '-' and '.', and not begin with '.'", config.name);
    check_source(source);
    const std::int64_t most_batch = most_batch_bytes / source->value_bytes();
    require(config.largest_batch <= most_batch, "largest_batch is {}: of samples of {} bytes, it must be at most {}",
            config.largest_batch, source->value_bytes(), most_batch);
    Fingerprint identity;
    identity.add(config.name);
    identity.add(source->identity());
    card.set_texts({fmt::format("{} samples", source->size()),
                    fmt::format("'{}', {:016x}, {} samples of {}{} bytes, {}", config.name, identity.value(), source->size(),
                                source->variable() ? "at most " : "", source->value_bytes(), source->identity())});
    set_fields(card, config);
  });
  return card;
}

/// What a rank sends to the others before level 2 is made.
struct MemoryCard {
  std::int64_t available = 0, room = 0;  ///< for each rank of its node
};

/// Returns the bytes of level 2 for each rank.
std::int64_t store_bytes(CommunicatorState& comm, const SampleCacheConfig& config, const SampleSource& source) {
  const Topology& topology = comm.topology;
  const Ownership ownership(source.size(), config.pack_samples, topology.size());
  std::int64_t most = 0;
  for (int place = 0; place < topology.size(); ++place) most = std::max(most, ownership.owned(place).count);
  const std::int64_t needed = StorePart::bytes_for(most, source.value_bytes());
  const auto ranks = static_cast<std::int64_t>(topology.node_peers().size());
  MemoryCard mine;
  comm.agree("making a sample cache", "sample cache", config.name, [&] {
    mine.available = static_cast<std::int64_t>(std::min(available_memory(), 1e18)) / ranks;
    mine.room = comm.transport->shared_memory_room() / ranks;
  });
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (const MemoryCard& card : comm.share("looking for memory of samples", mine)) {
    limit = std::min(limit, card.available / 2);
    if (card.room > 0) limit = std::min(limit, card.room / 10 * 9);
  }
  if (config.memory_bytes >= 0) limit = config.memory_bytes / topology.largest_node();
  const std::int64_t bytes = std::min(needed, limit);
  return bytes < StorePart::least_bytes(most) ? 0 : bytes;
}

/// Returns the source's identity. If folders keep packs for later runs, it must reflect changes on the store: each rank checks its
/// share of the samples.
std::string identity_of(CommunicatorState& comm, const SampleCacheConfig& config, const SampleSource& source) {
  const std::span<const int> folders = comm.share("looking for folders of samples", config.folder.empty() ? 0 : 1);
  const bool any = std::any_of(folders.begin(), folders.end(), [](int has) { return has != 0; });
  const std::int64_t ranks = comm.topology.size(), rank = comm.topology.rank(), samples = source.size();
  const std::int64_t first = samples / ranks * rank + std::min(rank, samples % ranks);
  std::uint64_t mine = 0;
  std::string identity;
  comm.agree("looking for changes of samples", "sample cache", config.name, [&] {
    identity = source.identity();
    if (any) mine = source.changes(first, samples / ranks + (rank < samples % ranks ? 1 : 0));
  });
  std::uint64_t all = 0;
  for (const std::uint64_t share : comm.share("adding up changes of samples", mine)) all += share;
  return all == 0 ? identity : fmt::format("{} {:016x}", identity, all);
}

}  // namespace

SampleCacheImpl::SampleCacheImpl(std::shared_ptr<CommunicatorState> communicator, const SampleCacheConfig& configuration,
                                 std::shared_ptr<SampleSource> source_of_samples, const std::string& identity,
                                 std::vector<Lease> taken, std::int64_t store_bytes, const std::string& why_by_messages)
    : comm(std::move(communicator)),
      config(configuration),
      source(std::move(source_of_samples)),
      samples(source->size()),
      value_bytes(source->value_bytes()),
      leases_(std::move(taken)),
      ownership_(samples, config.pack_samples, comm->topology.size()) {
  const Topology& topology = comm->topology;
  for (int node = 0; node < topology.node_count(); ++node) {
    for (int rank = 0; rank < topology.size(); ++rank) {
      if (topology.node_of(rank) == node) rank_at_.push_back(rank);
    }
  }
  parts_ = readable_parts(store_bytes);
  const auto me = static_cast<std::size_t>(topology.rank());
  const SampleRange mine = ownership_.owned(static_cast<std::int64_t>(place_of(topology.rank())));
  store_.emplace(*parts_[me]);
  if (!config.folder.empty()) {
    folder_.emplace(config.folder, config.folder_bytes, DataSet{config.name, identity, samples, config.pack_samples},
                    comm->settings.log);
    folder_->claim(ownership_.pack_of(mine.first), ownership_.pack_of(mine.first + mine.count + config.pack_samples - 1));
  }
  own_.emplace(config, source, ownership_, *store_, folder_ ? &*folder_ : nullptr);
  // A call may load for this rank and for others at the same time.
  pool_.emplace(*own_, config.threads, 2 * static_cast<std::size_t>(config.in_flight));
  setup_.emplace(BatchSetup{config, ownership_, samples, value_bytes, source->variable(), rank_at_, parts_, *pool_, statistics_});
  for (int i = 0; i < config.in_flight; ++i)
    calls_.push_back(
        std::make_shared<BatchCall>(comm, *setup_, leases_[static_cast<std::size_t>(i / Lease::tags)].tag(i % Lease::tags)));

  const std::int64_t fit =
      std::clamp<std::int64_t>((store_bytes - StorePart::least_bytes(mine.count)) /
                                   std::max<std::int64_t>(StorePart::bytes_for(1, value_bytes) - StorePart::bytes_for(1, 0), 1),
                               0, mine.count);
  explanation =
      fmt::format("{} samples of {}{} bytes; rank {} owns {}, from {} on, and keeps {}{} of them in {} bytes of memory{}\n",
                  samples, source->variable() ? "at most " : "", value_bytes, topology.rank(), mine.count, mine.first,
                  source->variable() ? "at least " : "", fit, store_bytes,
                  folder_ ? fmt::format("; what it reads from the store it also keeps in {}", config.folder) : "");
  if (!why_by_messages.empty())
    explanation +=
        fmt::format("ranks of a node send each other samples by messages, not through shared memory: {}\n", why_by_messages);
}

/// Returns the parts of memory that this rank can read: its own, and those of its node.
std::vector<const StorePart*> SampleCacheImpl::readable_parts(std::int64_t store_bytes) {
  const Topology& topology = comm->topology;
  const std::span<const int> peers = topology.node_peers();
  const SharedMemory memory = leases_.front().memory();
  if (!memory && store_bytes > 0) private_memory_ = Buffer<std::byte>(store_bytes);
  std::vector<const StorePart*> parts(static_cast<std::size_t>(topology.size()), nullptr);
  node_parts_.reserve(peers.size());
  for (std::size_t member = 0; member < peers.size(); ++member) {
    const int rank = peers[member];
    if (!memory && rank != topology.rank()) continue;
    std::byte* const place = memory ? memory.of(static_cast<int>(member)) : private_memory_.data();
    node_parts_.emplace_back(place, place == nullptr ? 0 : store_bytes,
                             ownership_.owned(static_cast<std::int64_t>(place_of(rank))));
    if (rank == topology.rank()) node_parts_.back().clear();
    parts[static_cast<std::size_t>(rank)] = &node_parts_.back();
  }
  return parts;
}

std::size_t SampleCacheImpl::place_of(int rank) const {
  return static_cast<std::size_t>(std::find(rank_at_.begin(), rank_at_.end(), rank) - rank_at_.begin());
}

std::shared_ptr<BatchCall> SampleCacheImpl::start(std::span<const std::int64_t> asked, std::span<std::byte> values,
                                                  std::span<std::int64_t> sizes, BatchEnd* end, const Outcome& ahead) {
  const std::shared_ptr<BatchCall>& call = calls_[started_ % calls_.size()];
  call->make_free();
  call->start(ahead, asked, values, sizes, end);
  ++started_;
  return {shared_from_this(), call.get()};
}

std::shared_ptr<BatchCall> SampleCacheImpl::refuse(std::string_view why) {
  Outcome refused;
  refused.set_formatted(WEIR_ERR_ARGUMENT, "samples '{}', rank {}: {}", config.name, comm->topology.rank(), why);
  return start({}, {}, {}, nullptr, refused);
}

int SampleCacheImpl::owner(std::int64_t sample) const {
  require(sample >= 0 && sample < samples, "samples '{}': there is no sample {}: there are {}", config.name, sample, samples);
  return rank_at_[static_cast<std::size_t>(ownership_.owner(sample))];
}

SampleCacheStatistics SampleCacheImpl::statistics() const {
  SampleCacheStatistics all = statistics_;
  const LoadCounts& loads = own_->counts();
  all.kept = store_->kept();
  all.decoded = loads.decoded;
  all.from_folder = loads.from_folder;
  all.from_store = loads.from_store;
  all.store_bytes_read = loads.store_bytes;
  all.retried = loads.retried;
  if (folder_) {
    all.folder_bytes_read = folder_->counts().bytes_read;
    all.damaged = folder_->counts().damaged;
  }
  all.seconds_store = 1e-9 * static_cast<double>(loads.store_nanoseconds);
  all.seconds_folder = 1e-9 * static_cast<double>(loads.folder_nanoseconds);
  all.seconds_decode = 1e-9 * static_cast<double>(loads.decode_nanoseconds);
  return all;
}

std::int64_t SampleCacheImpl::memory_bytes() const {
  std::int64_t bytes = store_->part().bytes();
  for (const auto& call : calls_) bytes += call->memory_bytes();
  return bytes;
}

Position SampleCacheImpl::beginning(const SampleLoaderConfig& loader) const {
  const Topology& topology = comm->topology;
  Position position;
  position.order = {loader.shuffle, loader.exchanged_share, loader.seed, {}};
  if (loader.shuffle != Shuffle::node) {
    position.order.counts = {samples};
    position.ranks = {topology.size()};
  } else {
    position.order.counts.resize(static_cast<std::size_t>(topology.node_count()));
    position.ranks.resize(position.order.counts.size());
    for (std::size_t place = 0; place < rank_at_.size(); ++place) {
      const auto node = static_cast<std::size_t>(topology.node_of(rank_at_[place]));
      position.order.counts[node] += ownership_.owned(static_cast<std::int64_t>(place)).count;
      ++position.ranks[node];
    }
  }
  position.taken.resize(position.ranks.size());
  return position;
}

Seat SampleCacheImpl::seat(Shuffle shuffle) const {
  const Topology& topology = comm->topology;
  const int rank = topology.rank();
  if (shuffle != Shuffle::node) return {0, rank, rank};
  return {static_cast<std::size_t>(topology.node_of(rank)), topology.local_rank(rank), rank};
}

bool SampleCacheImpl::retire() noexcept {
  bool whole = true;
  for (const auto& call : calls_) whole = detail::retire(*call) && whole;
  return whole;
}

std::shared_ptr<SampleCacheImpl> make_sample_cache(std::shared_ptr<CommunicatorState> comm, const SampleCacheConfig& config,
                                                   std::shared_ptr<SampleSource> source) {
  // 1. Agree on the configuration.
  Lease lease = open_agreed(*comm, card_of(config, source.get()),
                            {"sample cache", card_fields<SampleCacheConfig>(), {"number of samples", "data set"}}, config.name);

  // 2. Decide together on memory.
  const std::int64_t bytes = store_bytes(*comm, config, *source);
  Outcome by_messages;
  if (bytes > 0 && comm->topology.largest_node() > 1) {
    if (comm->settings.shared_memory)
      by_messages = comm->leases.add_memory(*comm, lease, bytes);
    else
      by_messages.set(WEIR_ERR_SETTING, "WEIR_SHARED_MEMORY is off");
  }
  std::vector<Lease> taken;
  const int more = (config.in_flight - 1) / Lease::tags;
  comm->agree("making a sample cache", "sample cache", config.name, [&] {
    taken.reserve(static_cast<std::size_t>(more) + 1);
    comm->leases.prepare(comm->transport->max_tag(), more);
  });
  taken.push_back(std::move(lease));
  for (int i = 0; i < more; ++i) taken.push_back(comm->leases.take());

  // 3. Identify the data.
  const std::string identity = identity_of(*comm, config, *source);

  // 4. Make the state on each rank.
  std::shared_ptr<SampleCacheImpl> made;
  comm->agree("making a sample cache", "sample cache", config.name, [&] {
    made = std::make_shared<SampleCacheImpl>(comm, config, std::move(source), identity, std::move(taken), bytes,
                                             by_messages.failed() ? by_messages.text.data() : "");
    sync_shared_memory();
  });
  log(comm->settings.log, LogLevel::info, "rank {}: samples '{}': {}", comm->topology.rank(), config.name, made->explanation);
  return made;
}

}  // namespace weir::detail
