#include "datacache/sample_loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/standard_error.hpp"
#include "communicator/config_card.hpp"

namespace weir::detail {

using namespace weir::datacache;

namespace {

/// The position that a rank asks for.
struct PositionCard {
  Outcome outcome;
  std::uint64_t fingerprint = 0;
};

/// Throws the same on every rank.
void agree_on(CommunicatorState& comm, const SampleCacheConfig& cache, const PositionCard& mine) {
  const std::span<const PositionCard> cards = comm.share("agreeing on epochs", mine);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].outcome.failed())
      fail_alike(static_cast<weir_status>(cards[rank].outcome.status), "loader of samples '{}', rank {}: {}", cache.name, rank,
                 cards[rank].outcome.text.data());
  }
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].fingerprint != cards[0].fingerprint)
      fail_alike(WEIR_ERR_MISMATCH, "loader of samples '{}': rank {} has another position to go to than rank 0", cache.name, rank);
  }
}

std::int64_t taken_of(const Position& position) {
  return std::accumulate(position.taken.begin(), position.taken.end(), std::max<std::int64_t>(position.taken_of_rest, 0));
}

}  // namespace

SampleLoaderImpl::SampleLoaderImpl(std::shared_ptr<SampleCacheImpl> samples, const SampleLoaderConfig& configuration)
    : cache(std::move(samples)),
      config(configuration),
      seat_(cache->seat(config.shuffle)),
      returned_(cache->beginning(config), config.batch),
      asked_(returned_) {
  batches_.resize(static_cast<std::size_t>(cache->config.in_flight) + 1);
  for (Batch& batch : batches_) {
    batch.samples.reserve(static_cast<std::size_t>(config.batch));
    batch.sizes.resize(static_cast<std::size_t>(config.batch));
    batch.values = Buffer<std::byte>(config.batch * cache->value_bytes);
  }
  shows_ = cache->comm->topology.rank() == 0 && (config.progress == ProgressDisplay::on ||
                                                 (config.progress == ProgressDisplay::automatic && isatty(STDERR_FILENO) == 1));
  ++cache->loaders;
}

SampleLoaderImpl::~SampleLoaderImpl() {
  for (Batch& batch : batches_) {
    if (!batch.call) continue;
    if (!batch.end.reached) {
      (void)retire(*batch.call);
      batch.call->leave(batch.end);
    }
    batch.call.reset();
  }
  --cache->loaders;
}

std::optional<SampleBatch> SampleLoaderImpl::next() {
  if (returned_.steps_left() == 0) {
    ended_ = !ended_;
    if (ended_) return {};
    returned_.begin_epoch();
    if (returned_.steps_left() == 0) {  // the data set is empty
      ended_ = true;
      return {};
    }
  }
  if (epoch_begun_ == std::chrono::steady_clock::time_point{}) {
    epoch_begun_ = std::chrono::steady_clock::now();
    shown_epoch_ = returned_.position().epoch;
    before_ = taken_of(returned_.position());
  }
  try {
    ask_ahead();
    wait_for(batches_[first_]);
  } catch (...) {
    forget_asked();
    throw;
  }
  Batch& batch = batches_[first_];
  batch.call.reset();
  first_ = (first_ + 1) % batches_.size();
  --in_flight_;
  returned_.advance();
  ask_ahead();
  if (shows_) show_progress();
  return SampleBatch{
      batch.epoch,
      batch.step,
      batch.samples,
      std::span<const std::byte>(batch.values.data(), batch.samples.size() * static_cast<std::size_t>(cache->value_bytes)),
      std::span<const std::int64_t>(batch.sizes.data(), batch.samples.size()),
      cache->value_bytes};
}

void SampleLoaderImpl::ask_ahead() {
  while (in_flight_ + 1 < batches_.size()) {
    if (asked_.steps_left() == 0) asked_.begin_epoch();
    if (asked_.steps_left() == 0) return;
    Batch& batch = batches_[(first_ + in_flight_) % batches_.size()];
    batch.epoch = asked_.position().epoch;
    batch.step = asked_.position().step;
    asked_.samples(seat_, batch.samples);
    const std::size_t count = batch.samples.size();
    batch.end = {};
    batch.call = cache->start(batch.samples, std::span(batch.values.data(), count * static_cast<std::size_t>(cache->value_bytes)),
                              std::span(batch.sizes.data(), count), &batch.end);
    asked_.advance();
    ++in_flight_;
  }
}

void SampleLoaderImpl::wait_for(Batch& batch) {
  if (!batch.end.reached) batch.call->wait();
  if (batch.end.error) std::rethrow_exception(batch.end.error);
}

/// Drops the batches requested ahead, after an error or for another position.
void SampleLoaderImpl::forget_asked() noexcept {
  for (; in_flight_ > 0; --in_flight_) {
    Batch& batch = batches_[first_];
    first_ = (first_ + 1) % batches_.size();
    try {
      wait_for(batch);
    } catch (...) {  // the same error again, or one that no caller waits for
    }
    batch.call.reset();
  }
  asked_ = returned_;
}

void SampleLoaderImpl::seek(std::string_view text) {
  forget_asked();
  std::optional<Course> found, again;
  PositionCard mine;
  Fingerprint all;
  all.add(text);
  mine.fingerprint = all.value();
  mine.outcome = outcome_of([&] {
    for (std::optional<Course>* course : {&found, &again}) {
      course->emplace(returned_);
      (*course)->go_to(position_of(text));
      if ((*course)->steps_left() == 0 && cache->samples > 0) (*course)->begin_epoch();
    }
  });
  agree_on(*cache->comm, cache->config, mine);
  returned_ = std::move(*found);
  asked_ = std::move(*again);
  ended_ = false;
  epoch_begun_ = {};
}

void SampleLoaderImpl::show_progress() {
  const Position& position = returned_.position();
  if (position.epoch != shown_epoch_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool last = returned_.steps_left() == 0;
  if (!last && now - shown_ < std::chrono::milliseconds(250)) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - epoch_begun_).count();
  const std::int64_t taken = taken_of(position);
  const double rate = static_cast<double>(taken - before_) / std::max(seconds, 1e-9);
  print_error("\rsamples '{}', epoch {}: {} of {}, {:.0f} samples/s, {:.1f} MB/s, {:.0f} s {}  {}", cache->config.name,
              position.epoch, taken, cache->samples, rate, rate * static_cast<double>(cache->value_bytes) * 1e-6,
              last ? seconds : static_cast<double>(cache->samples - taken) / std::max(rate, 1e-9), last ? "altogether" : "left",
              last ? "\n" : "");
  std::fflush(stderr);
}

std::shared_ptr<SampleLoaderImpl> make_sample_loader(const std::shared_ptr<SampleCacheImpl>& cache,
                                                     const SampleLoaderConfig& config) {
  std::shared_ptr<SampleLoaderImpl> made;
  ConfigCard card;
  card.outcome = outcome_of([&] {
    check_fields(config);
    require(config.exchanged_share >= 0 && config.exchanged_share <= 1, "exchanged_share is {}: it must be from 0 to 1",
            config.exchanged_share);
    require(config.batch <= cache->config.largest_batch, "batch is {}: the cache's largest_batch is {}", config.batch,
            cache->config.largest_batch);
    made = std::make_shared<SampleLoaderImpl>(cache, config);
    set_fields(card, config);
  });
  static_cast<void>(open_agreed(*cache->comm, card, {"loader of samples", card_fields<SampleLoaderConfig>()}, cache->config.name));
  return made;
}

}  // namespace weir::detail
