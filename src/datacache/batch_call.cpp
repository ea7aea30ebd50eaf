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
  const std::int64_t slots = (ranks_ - 1) * quota_;
  run.algorithm = "sample_cache";
  run.element_type = "sample";
  places_.resize(batch_);
  asked_.resize(batch_);
  in_sizes_.resize(batch_, value_bytes_);
  found_.resize(batch_);
  own_items_.resize(batch_);
  in_ = Buffer<std::byte>(batch_ * value_bytes_);
  asks_.resize(ranks_);
  serves_.resize(ranks_);
  out_requests_.resize(slots + ranks_ - 1);
  in_requests_.resize(out_requests_.size());
  out_sizes_.resize(slots);
  out_ = Buffer<std::byte>(slots * value_bytes_);
  items_.resize(slots);
  requests_.reserve(2 * static_cast<std::size_t>(ranks_));
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
  const auto owner_of = [&](std::int64_t sample) { return setup_.rank_at[setup_.ownership.owner(sample)]; };
  count_ = std::ssize(samples);
  for (std::int64_t i = 0; i < count_; ++i) {
    const int owner = owner_of(samples[i]);
    const StorePart* const part = setup_.parts[owner];
    found_[i] = part != nullptr ? part->find(samples[i]) : StorePart::Value{};
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
  for (std::int64_t i = 0; i < count_; ++i) {
    if (found_[i].data != nullptr) continue;
    Peer& peer = asks_[owner_of(samples[i])];
    const std::int64_t place = peer.first + peer.total++;
    places_[place] = i;
    asked_[place] = samples[i];
  }
}

task<void> BatchCall::exchange() {
  const StageScope stage = channel().stage(Stage::communicate);

  // 1. Load own samples that are not in memory.
  const Peer own = asks_[me_];
  const std::span<LoadItem> own_items = std::span(own_items_).first(own.total);
  for (std::int64_t i = 0; i < own.total; ++i) own_items[i] = {asked_[own.first + i], in_.data() + (own.first + i) * value_bytes_};
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
    for (std::int64_t i = 0; i < own.total; ++i) found_[places_[own.first + i]] = {own_items[i].value, own_items[i].bytes};
  }
  co_await agree_on_outcome(channel(), outcome_, agreement_);
  {
    const StageScope waiting = channel().stage(Stage::wait_for_caller);
    co_await channel().caller();
  }
  if (!run.owner_gone) deliver();
}

bool BatchCall::anything_in(std::int64_t round) {
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    if (in_round(asks(slot).total, round) > 0 || in_round(serves(slot).total, round) > 0) return true;
  }
  return false;
}

/// Posts a receive and a send for each peer, if they have any bytes. Waits for receives first, because peers depend on them.
template <class BlockOf>
void BatchCall::post(Traffic kind, const BlockOf& block_of) {
  requests_.clear();
  for (const bool receives : {true, false}) {
    for (int slot = 0; slot < ranks_ - 1; ++slot) {
      const Block block = block_of(slot);
      if (receives && block.in_bytes > 0) requests_.push_back(channel().receive(block.in, block.in_bytes, peer_at(slot), kind));
      if (!receives && block.out_bytes > 0) requests_.push_back(channel().send(block.out, block.out_bytes, peer_at(slot), kind));
    }
  }
}

/// Sends requests. In the first round, every peer gets a message of fixed size, with room for a full round. In later rounds, only
/// peers that are asked for more get one.
task<void> BatchCall::exchange_requests(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::request_samples);
  const auto bytes = [&](const Peer& peer) {
    const std::int64_t count = round == 0 ? quota_ : in_round(peer.total, round);
    return count == 0 ? 0 : (1 + count) * word_bytes;
  };
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    std::int64_t* const out = requests_to(slot);
    const std::int64_t asked = in_round(asks(slot).total, round);
    out[0] = asks(slot).total;
    std::copy_n(asked_.data() + first_asked(slot, round), asked, out + 1);
    if (round == 0) std::fill(out + 1 + asked, out + 1 + quota_, 0);
  }
  post(Traffic::control, [&](int slot) {
    return Block{requests_from(slot), bytes(serves(slot)), requests_to(slot), bytes(asks(slot))};
  });
  co_await channel().done(std::span<Request>(requests_));
  if (round > 0) co_return;
  for (int slot = 0; slot < ranks_ - 1; ++slot) serves(slot).total = requests_from(slot)[0];
}

/// Loads own samples for other ranks. Those of one peer are contiguous.
task<void> BatchCall::load(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::load_samples);
  std::size_t missing = 0, loaded = 0;
  const StorePart& part = *setup_.parts[me_];
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    for (std::int64_t i = 0; i < in_round(serves(slot).total, round); ++i) {
      const std::int64_t sample = requests_from(slot)[1 + i];
      if (part.find(sample).data == nullptr) items_[missing++] = {sample, out_place(slot, i)};
    }
  }
  if (missing > 0) {
    setup_.pool.begin(job_, std::span(items_.data(), missing));
    co_await channel().done(job_);
    note_failure(job_);
  }
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const std::int64_t count = in_round(serves(slot).total, round);
    std::byte* end = out_place(slot, 0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* const place = out_place(slot, i);
      const bool was_missing = loaded < missing && items_[loaded].value == place;
      StorePart::Value value =
          was_missing ? StorePart::Value{place, items_[loaded++].bytes} : part.find(requests_from(slot)[1 + i]);
      if (value.bytes < 0 && !sends_sizes_) {  // the batch fails: no caller sees the value
        std::fill_n(place, value_bytes_, std::byte{0});
        value.bytes = value_bytes_;
      }
      out_sizes_[slot * quota_ + i] = value.bytes;
      if (value.bytes > 0 && value.data != end) std::memmove(end, value.data, static_cast<std::size_t>(value.bytes));
      end += std::max<std::int64_t>(value.bytes, 0);
    }
    served_ += count;
  }
}

task<void> BatchCall::exchange_values(std::int64_t round) {
  const StageScope stage = channel().stage(Stage::exchange_samples);
  const auto sizes_in = [&](int slot) { return in_sizes_.data() + first_asked(slot, round); };
  const auto sizes_out = [&](int slot) { return out_sizes_.data() + slot * quota_; };
  const auto asked = [&](int slot) { return in_round(asks(slot).total, round); };
  const auto served = [&](int slot) { return in_round(serves(slot).total, round); };
  const auto place_in = [&](int slot) { return in_.data() + first_asked(slot, round) * value_bytes_; };

  // 1. Exchange sizes, if they differ.
  if (sends_sizes_) {
    post(Traffic::control, [&](int slot) {
      return Block{sizes_in(slot), asked(slot) * word_bytes, sizes_out(slot), served(slot) * word_bytes};
    });
    co_await channel().done(std::span<Request>(requests_));
  }

  // 2. Exchange values.
  post(Traffic::payload, [&](int slot) {
    return Block{place_in(slot), sum_of(sizes_in(slot), asked(slot)), out_place(slot, 0), sum_of(sizes_out(slot), served(slot))};
  });
  co_await channel().done(std::span<Request>(requests_));

  // 3. Record the places of values.
  for (int slot = 0; slot < ranks_ - 1; ++slot) {
    const std::byte* value = place_in(slot);
    for (std::int64_t i = 0; i < asked(slot); ++i) {
      const std::int64_t bytes = sizes_in(slot)[i];
      found_[places_[first_asked(slot, round) + i]] = {value, bytes};
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
    if (found_[other].bytes >= 0) return other;
  }
  return i;
}

void BatchCall::deliver() {
  for (std::int64_t i = 0; i < count_; ++i) {
    const StorePart::Value& found = found_[stand_in(i)];
    std::byte* const value = values_.data() + i * value_bytes_;
    if (found.bytes < 0)
      std::fill_n(value, value_bytes_, std::byte{0});
    else
      std::copy_n(found.data, found.bytes, value);
    if (!sizes_.empty()) sizes_[i] = found.bytes;
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
  all.from_ranks += count_ - from_node_ - asks_[me_].total;
  all.skipped += std::count_if(found_.begin(), found_.begin() + count_, [](const auto& found) { return found.bytes < 0; });
}

}  // namespace weir::detail
