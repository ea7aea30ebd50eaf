#include "datacache/batch_call.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace weir::detail {

using namespace weir::datacache;

namespace {

constexpr std::int64_t word_bytes = sizeof(std::int64_t);

/// Returns twice the number of samples that a rank requests from each other rank if samples are spread evenly.
std::int64_t quota_of(std::int64_t batch, int ranks) {
  const std::int64_t others = std::max(ranks - 1, 1);
  return std::clamp((2 * batch + others - 1) / others, std::int64_t{1}, batch);
}

/// Returns the bytes of all values together. Size -1 means that there is no value.
std::int64_t sum_of(const std::int64_t* sizes, std::int64_t count) {
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < count; ++i) bytes += std::max<std::int64_t>(sizes[i], 0);
  return bytes;
}

}  // namespace

BatchCall::BatchCall(std::shared_ptr<CommunicatorState> communicator, const BatchSetup& setup, int tag)
    : AsynchronousCall(std::move(communicator), setup.config.name, setup.config.priority, tag),
      setup_(setup),
      batch_(setup.config.largest_batch),
      value_bytes_(setup.value_bytes),
      sends_sizes_(setup.variable || goes_on_without(setup.config.on_error)),
      quota_(quota_of(batch_, comm->topology.size())),
      ranks_(comm->topology.size()),
      me_(comm->topology.rank()) {
  const auto batch = static_cast<std::size_t>(batch_), ranks = static_cast<std::size_t>(ranks_);
  const std::int64_t slots = (ranks_ - 1) * quota_;
  run.algorithm = "sample_cache";
  run.element_type = "sample";
  places_.resize(batch);
  asked_.resize(batch);
  in_sizes_.resize(batch, value_bytes_);
  found_.resize(batch);
  own_items_.resize(batch);
  in_ = Buffer<std::byte>(batch_ * value_bytes_);
  asks_.resize(ranks);
  serves_.resize(ranks);
  out_requests_.resize(static_cast<std::size_t>(slots + ranks_ - 1));
  in_requests_.resize(out_requests_.size());
  out_sizes_.resize(static_cast<std::size_t>(slots));
  out_ = Buffer<std::byte>(slots * value_bytes_);
  items_.resize(static_cast<std::size_t>(slots));
  requests_.reserve(2 * ranks);
}

std::int64_t BatchCall::memory_bytes() const { return in_.bytes() + out_.bytes(); }

void BatchCall::make_free() {
  if (end_ == nullptr) return wait();
  try {
    wait();
  } catch (...) {  // the owner of `end_` throws it
  }
}

void BatchCall::leave(const BatchEnd& end) {
  if (end_ != &end) return;
  end_ = nullptr;
  set_error_reported();
}

void BatchCall::start(const Outcome& ahead, std::span<const std::int64_t> samples, std::span<std::byte> values,
                      std::span<std::int64_t> sizes, BatchEnd* end) {
  check_startable();
  end_ = end;
  values_ = values;
  sizes_ = sizes;
  count_ = from_node_ = served_ = 0;
  std::fill(asks_.begin(), asks_.end(), Peer{});
  outcome_ = ahead;
  if (!ahead.failed())
    outcome_ = outcome_of([&] {
      check(samples, values, sizes);
      look_up(samples);
    });
  run.count = count_;
  launch([&] { return exchange(); });
}

void BatchCall::check(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) const {
  const std::string& name = setup_.config.name;
  require(samples.data() != nullptr || samples.empty(), "samples '{}', rank {}: the address for the numbers of samples is null",
          name, me_);
  require(std::ssize(samples) <= batch_, "samples '{}', rank {}: {} samples are asked for at once: largest_batch is {}", name, me_,
          samples.size(), batch_);
  require(std::ssize(values) == std::ssize(samples) * value_bytes_,
          "samples '{}', rank {}: there are {} bytes for the values of {} samples: they take {} each", name, me_, values.size(),
          samples.size(), value_bytes_);
  require(sizes.empty() || sizes.size() == samples.size(), "samples '{}', rank {}: there are {} sizes for {} samples", name, me_,
          sizes.size(), samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    require(samples[i] >= 0 && samples[i] < setup_.samples,
            "samples '{}', rank {}: there is no sample {}, which is asked for at place {}: there are {}", name, me_, samples[i], i,
            setup_.samples);
}

/// Finds samples in the memory of this node. Groups the others by owner.
void BatchCall::look_up(std::span<const std::int64_t> samples) {
  const auto owner_of = [&](std::int64_t sample) {
    return static_cast<std::size_t>(setup_.rank_at[static_cast<std::size_t>(setup_.ownership.owner(sample))]);
  };
  count_ = std::ssize(samples);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t owner = owner_of(samples[i]);
    found_[i] = {};
    if (const StorePart* const part = setup_.parts[owner]; part != nullptr) {
      const StorePart::Value value = part->find(samples[i]);
      found_[i] = {value.data, value.bytes};
    }
    if (found_[i].data == nullptr)
      ++asks_[owner].total;
    else
      ++from_node_;
  }
  std::int64_t first = 0;
  for (Peer& peer : asks_) {
    peer.first = first;
    first += std::exchange(peer.total, 0);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (found_[i].data != nullptr) continue;
    Peer& peer = asks_[owner_of(samples[i])];
    const auto place = static_cast<std::size_t>(peer.first + peer.total++);
    places_[place] = static_cast<std::int64_t>(i);
    asked_[place] = samples[i];
  }
}

task<void> BatchCall::exchange() {
  const StageScope stage = channel().stage(Stage::communicate);

  // 1. Load own samples that are not in memory.
  const Peer own = asks_[static_cast<std::size_t>(me_)];
  const std::span<LoadItem> own_items(own_items_.data(), static_cast<std::size_t>(own.total));
  for (std::int64_t i = 0; i < own.total; ++i)
    own_items[static_cast<std::size_t>(i)] = {asked_[static_cast<std::size_t>(own.first + i)],
                                              in_.data() + (own.first + i) * value_bytes_};
  if (!own_items.empty()) setup_.pool.begin(own_job_, own_items);

  // 2. Exchange requests and values with other ranks, in rounds.
  for (std::int64_t round = 0; round == 0 || anything_in(round); ++round) {
    co_await exchange_requests(round);
    if (!anything_in(round)) break;
    co_await load(round);
    co_await exchange_values(round);
  }

  // 3. Collect own samples.
  if (!own_items.empty()) {
    const StageScope loading = channel().stage(Stage::load_samples);
    co_await channel().done(own_job_);
    note_failure(own_job_);
    for (std::int64_t i = 0; i < own.total; ++i) {
      const LoadItem& item = own_items[static_cast<std::size_t>(i)];
      found_[static_cast<std::size_t>(places_[static_cast<std::size_t>(own.first + i)])] = {item.value, item.bytes};
    }
  }
  co_await agree_on_outcome(channel(), outcome_, agreement_);
  {
    const StageScope waiting = channel().stage(Stage::wait_for_caller);
    co_await channel().caller();
  }
  if (!run.owner_gone) deliver();
}

bool BatchCall::anything_in(std::int64_t round) const {
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    if (peer != me_ && (in_round(asks_[p].total, round) > 0 || in_round(serves_[p].total, round) > 0)) return true;
  }
  return false;
}

/// Posts a receive and a send for each peer, if they have any bytes. Waits for receives first, because peers depend on them.
template <class BlockOf>
void BatchCall::post(Traffic kind, const BlockOf& block_of) {
  requests_.clear();
  for (const bool receives : {true, false}) {
    for (int slot = 0; slot < ranks_ - 1; ++slot) {
      const int peer = peer_at(slot);
      const Block block = block_of(slot, peer);
      if (receives && block.in_bytes > 0) requests_.push_back(channel().receive(block.in, block.in_bytes, peer, kind));
      if (!receives && block.out_bytes > 0) requests_.push_back(channel().send(block.out, block.out_bytes, peer, kind));
    }
  }
}

/// Sends requests. In the first round, every peer gets a message of fixed size, with room for a full round. In later rounds, only
/// peers that are asked for more get one.
task<void> BatchCall::exchange_requests(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::request_samples);
  const auto bytes = [&](std::int64_t count) {
    if (round == 0) count = quota_;
    return count == 0 ? 0 : (1 + count) * word_bytes;
  };
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const Peer& ask = asks_[static_cast<std::size_t>(peer_at(slot))];
    std::int64_t* const out = requests_to(slot);
    const std::int64_t asked = in_round(ask.total, round);
    out[0] = ask.total;
    std::copy_n(asked_.data() + ask.first + round * quota_, asked, out + 1);
    if (round == 0) std::fill(out + 1 + asked, out + 1 + quota_, 0);
  }
  post(Traffic::control, [&](int slot, int peer) {
    const auto p = static_cast<std::size_t>(peer);
    return Block{requests_from(slot), bytes(in_round(serves_[p].total, round)), requests_to(slot),
                 bytes(in_round(asks_[p].total, round))};
  });
  co_await channel().done(std::span<Request>(requests_));
  if (round > 0) co_return;
  for (int slot = 0; slot < ranks_ - 1; ++slot) serves_[static_cast<std::size_t>(peer_at(slot))].total = requests_from(slot)[0];
}

/// Loads own samples for other ranks. Those of one peer are contiguous.
task<void> BatchCall::load(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::load_samples);
  std::size_t missing = 0;
  const StorePart* const part = setup_.parts[static_cast<std::size_t>(me_)];
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const std::int64_t count = in_round(serves_[static_cast<std::size_t>(peer_at(slot))].total, round);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t sample = requests_from(slot)[1 + i];
      if (part->find(sample).data != nullptr) continue;
      items_[missing++] = {sample, out_.data() + (slot * quota_ + i) * value_bytes_};
    }
  }
  if (missing > 0) {
    setup_.pool.begin(job_, std::span(items_.data(), missing));
    co_await channel().done(job_);
    note_failure(job_);
  }
  std::size_t loaded = 0;
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const std::int64_t count = in_round(serves_[static_cast<std::size_t>(peer_at(slot))].total, round);
    std::byte* end = out_.data() + slot * quota_ * value_bytes_;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t sample = requests_from(slot)[1 + i];
      const std::byte* const place = out_.data() + (slot * quota_ + i) * value_bytes_;
      const std::byte* from = nullptr;
      std::int64_t bytes = 0;
      if (loaded < missing && items_[loaded].value == place) {
        from = place;
        bytes = items_[loaded++].bytes;
      } else {
        const StorePart::Value value = part->find(sample);
        from = value.data;
        bytes = value.bytes;
      }
      if (bytes < 0 && !sends_sizes_) {  // the batch fails: no caller sees the value
        std::fill_n(out_.data() + (slot * quota_ + i) * value_bytes_, value_bytes_, std::byte{0});
        bytes = value_bytes_;
      }
      out_sizes_[static_cast<std::size_t>(slot * quota_ + i)] = bytes;
      if (bytes > 0 && from != end) std::memmove(end, from, static_cast<std::size_t>(bytes));
      end += std::max<std::int64_t>(bytes, 0);
    }
    served_ += count;
  }
}

task<void> BatchCall::exchange_values(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::exchange_samples);

  // 1. Exchange sizes, if they differ.
  if (sends_sizes_) {
    post(Traffic::control, [&](int slot, int peer) {
      const Peer& ask = asks_[static_cast<std::size_t>(peer)];
      return Block{in_sizes_.data() + ask.first + round * quota_, in_round(ask.total, round) * word_bytes,
                   out_sizes_.data() + slot * quota_, in_round(serves_[static_cast<std::size_t>(peer)].total, round) * word_bytes};
    });
    co_await channel().done(std::span<Request>(requests_));
  }

  // 2. Exchange values.
  post(Traffic::payload, [&](int slot, int peer) {
    const Peer& ask = asks_[static_cast<std::size_t>(peer)];
    const std::int64_t first = ask.first + round * quota_;
    return Block{in_.data() + first * value_bytes_, sum_of(in_sizes_.data() + first, in_round(ask.total, round)),
                 out_.data() + slot * quota_ * value_bytes_,
                 sum_of(out_sizes_.data() + slot * quota_, in_round(serves_[static_cast<std::size_t>(peer)].total, round))};
  });
  co_await channel().done(std::span<Request>(requests_));

  // 3. Record the places of values.
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const Peer& ask = asks_[static_cast<std::size_t>(peer_at(slot))];
    const std::int64_t first = ask.first + round * quota_;
    const std::byte* value = in_.data() + first * value_bytes_;
    for (std::int64_t i = first; i < first + in_round(ask.total, round); ++i) {
      const std::int64_t bytes = in_sizes_[static_cast<std::size_t>(i)];
      found_[static_cast<std::size_t>(places_[static_cast<std::size_t>(i)])] = {value, bytes};
      value += std::max<std::int64_t>(bytes, 0);
    }
  }
}

/// Records an error of loading. A skipped sample is not an error.
void BatchCall::note_failure(const LoadJob& job) {
  if (!job.failed() || outcome_.failed() || goes_on_without(setup_.config.on_error)) return;
  const Outcome& why = job.outcome();
  outcome_.set_formatted(static_cast<weir_status>(why.status), "samples '{}', rank {}: {}", setup_.config.name, me_,
                         why.text.data());
}

/// Returns the index in the batch of the value that place i gets.
std::int64_t BatchCall::stand_in(std::int64_t i) const {
  if (setup_.config.on_error != SampleErrors::substitute) return i;
  for (std::int64_t step = 0; step < count_; ++step) {
    const std::int64_t other = (i + step) % count_;
    if (found_[static_cast<std::size_t>(other)].bytes >= 0) return other;
  }
  return i;
}

void BatchCall::deliver() {
  for (std::int64_t i = 0; i < count_; ++i) {
    const Found& found = found_[static_cast<std::size_t>(stand_in(i))];
    std::byte* const value = values_.data() + i * value_bytes_;
    if (found.bytes < 0)
      std::fill_n(value, value_bytes_, std::byte{0});
    else
      std::copy_n(found.data, found.bytes, value);
    if (!sizes_.empty()) sizes_[static_cast<std::size_t>(i)] = found.bytes;
  }
}

void BatchCall::completed() {
  if (end_ != nullptr) *std::exchange(end_, nullptr) = {true, run.error};
  SampleCacheStatistics& all = setup_.statistics;
  all.batches += 1;
  all.seconds_waited += seconds_waited();
  for (std::size_t level = 0; level < traffic.bytes_sent.size(); ++level) {
    all.bytes_sent[level] += traffic.bytes_sent[level];
    all.bytes_received[level] += traffic.bytes_received[level];
  }
  all.served += served_;
  if (run.error) return;
  all.asked += count_;
  all.from_node += from_node_;
  all.from_ranks += count_ - from_node_ - asks_[static_cast<std::size_t>(me_)].total;
  all.skipped += std::count_if(found_.begin(), found_.begin() + count_, [](const Found& found) { return found.bytes < 0; });
}

}  // namespace weir::detail
