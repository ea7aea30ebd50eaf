#include "datacache/loading.hpp"

#include <algorithm>
#include <chrono>

#include "base/blocked_signals.hpp"
#include "base/error.hpp"
#include "base/floating_point.hpp"

namespace weir::datacache {
namespace {

using Clock = std::chrono::steady_clock;

class Timer {
 public:
  explicit Timer(std::atomic<std::int64_t>& nanoseconds) : nanoseconds_(nanoseconds) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { nanoseconds_.fetch_add(std::chrono::nanoseconds(Clock::now() - begin_).count(), std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t>& nanoseconds_;
  Clock::time_point begin_ = Clock::now();
};

/// Runs `load`. Any exception except Error and std::bad_alloc becomes WEIR_ERR_FILE. Adds the sample's number to the text.
template <class Load>
detail::Outcome outcome_of_loading(std::int64_t sample, Load&& load) {
  detail::Outcome outcome = detail::outcome_of([&] {
    try {
      load();
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      fail(WEIR_ERR_FILE, "{}", error.what());
    } catch (...) {
      fail(WEIR_ERR_FILE, "its source has thrown something that is no std::exception: throw one, whose text says what is wrong");
    }
  });
  if (outcome.failed()) {
    const detail::Outcome why = outcome;
    outcome.set_formatted(static_cast<weir_status>(why.status), "sample {}: {}", sample, why.text.data());
  }
  return outcome;
}

}  // namespace

SampleTurns::Turn::Turn(SampleTurns& turns, std::int64_t sample) : turns_(turns), sample_(sample) {
  std::unique_lock lock(turns_.mutex_);
  std::vector<std::int64_t>& taken = turns_.taken_;
  turns_.ended_.wait(lock, [&] { return std::find(taken.begin(), taken.end(), sample) == taken.end(); });
  taken.push_back(sample);
}

SampleTurns::Turn::~Turn() {
  {
    const std::lock_guard lock(turns_.mutex_);
    std::erase(turns_.taken_, sample_);
  }
  turns_.ended_.notify_all();
}

OwnSamples::OwnSamples(const SampleCacheConfig& config, std::shared_ptr<SampleSource> source, const Ownership& ownership,
                       StoreOwner& store, PackFolder* folder)
    : config_(config), source_(std::move(source)), ownership_(ownership), store_(store), folder_(folder) {}

std::int64_t OwnSamples::load(std::int64_t sample, std::span<std::byte> value) {
  const int tries = config_.on_error == SampleErrors::retry ? config_.retries : 0;
  std::chrono::milliseconds pause{100};
  for (int i = 0; i < tries; ++i) {
    try {
      return try_load(sample, value);
    } catch (...) {  // try again
    }
    counts_.retried.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(10000));
  }
  return try_load(sample, value);
}

std::int64_t OwnSamples::try_load(std::int64_t sample, std::span<std::byte> value) {
  if (const std::int64_t bytes = copy_kept(sample, value); bytes >= 0) return bytes;
  const SampleTurns::Turn turn(turns_, sample);
  if (const std::int64_t bytes = copy_kept(sample, value); bytes >= 0) return bytes;
  std::vector<std::byte> encoded;
  bool found = false;
  if (folder_ != nullptr) {
    const Timer timer(counts_.folder_nanoseconds);
    found = folder_->read(sample, encoded);
  }
  if (found) {
    counts_.from_folder.fetch_add(1, std::memory_order_relaxed);
    return decode_and_keep(sample, encoded, value);
  }
  const std::int64_t number = ownership_.pack_of(sample);
  const SampleRange pack = ownership_.pack(number);
  if (folder_ != nullptr && folder_->keeps()) {  // read the whole pack, so that level 1 keeps it
    const auto all = if_readable([&] { return folder_->obtain(number, [&] { return read(pack); }); });
    if (all) return decode_and_keep(sample, all->part(sample - pack.first), value);
    return decode_and_keep(sample, read({sample, 1}).bytes, value);
  }
  if (pack.count > 1 && store_.has_room(pack.count * source_->value_bytes())) return load_pack(sample, pack, value);
  return decode_and_keep(sample, read({sample, 1}).bytes, value);
}

/// Returns the bytes copied, or -1 if the sample is not in memory.
std::int64_t OwnSamples::copy_kept(std::int64_t sample, std::span<std::byte> value) const {
  const StorePart::Value kept = store_.part().find(sample);
  if (kept.data == nullptr) return -1;
  std::copy_n(kept.data, kept.bytes, value.data());
  return kept.bytes;
}

/// Returns a pack, or nothing if it cannot be read. The sample is then read alone: one bad sample must not fail the others.
template <class ReadPack>
std::optional<Samples> OwnSamples::if_readable(const ReadPack& read_pack) {
  try {
    return read_pack();
  } catch (...) {
    counts_.retried.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
}

/// Decodes and keeps all samples of the pack if level 1 keeps nothing: otherwise they would have to be read again. Samples that
/// cannot be decoded are left until they are requested.
std::int64_t OwnSamples::load_pack(std::int64_t sample, const SampleRange& pack, std::span<std::byte> value) {
  const std::lock_guard lock(packs_[static_cast<std::size_t>(ownership_.pack_of(sample)) % packs_.size()]);
  if (const std::int64_t bytes = copy_kept(sample, value); bytes >= 0) return bytes;
  const std::optional<Samples> all = if_readable([&] { return read(pack); });
  if (!all) return decode_and_keep(sample, read({sample, 1}).bytes, value);
  std::vector<std::byte> other(value.size());
  all->for_each([&](std::int64_t i, std::span<const std::byte> encoded) {
    if (pack.first + i == sample || store_.part().find(pack.first + i).data != nullptr) return;
    try {
      decode_and_keep(pack.first + i, encoded, other);
    } catch (...) {  // it fails when it is requested
    }
  });
  return decode_and_keep(sample, all->part(sample - pack.first), value);
}

std::int64_t OwnSamples::decode_and_keep(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) {
  const std::int64_t bytes = decode(sample, encoded, value);
  store_.keep(sample, value.first(static_cast<std::size_t>(bytes)));
  return bytes;
}

Samples OwnSamples::read(SampleRange range) {
  const Timer timer(counts_.store_nanoseconds);
  Samples samples;
  samples.sizes.assign(static_cast<std::size_t>(range.count), 0);
  source_->read(range.first, range.count, samples.bytes, samples.sizes);
  std::int64_t bytes = 0;
  for (const std::int64_t size : samples.sizes) {
    require(size >= 0 && size <= std::ssize(samples.bytes), "read() of samples {} to {} says that one of them has {} bytes",
            range.first, range.first + range.count - 1, size);
    bytes += size;
  }
  require(bytes == std::ssize(samples.bytes), "read() of samples {} to {} gave {} bytes and sizes of {} together", range.first,
          range.first + range.count - 1, samples.bytes.size(), bytes);
  counts_.from_store.fetch_add(range.count, std::memory_order_relaxed);
  counts_.store_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return samples;
}

std::int64_t OwnSamples::decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) {
  const Timer timer(counts_.decode_nanoseconds);
  const std::int64_t most = std::ssize(value), bytes = source_->decode(sample, encoded, value);
  require(bytes == most || (source_->variable() && bytes >= 0 && bytes < most), "decode() returned {} bytes: it must be {}{}",
          bytes, source_->variable() ? "from 0 to " : "", most);
  counts_.decoded.fetch_add(1, std::memory_order_relaxed);
  return bytes;
}

LoadPool::LoadPool(OwnSamples& samples, int threads, std::size_t most_jobs) : samples_(samples) {
  jobs_.reserve(most_jobs);
  threads_.reserve(static_cast<std::size_t>(threads));
  const BlockedSignals blocked;
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& ends) { loop(ends); });
}

LoadPool::~LoadPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void LoadPool::begin(LoadJob& job, std::span<LoadItem> items) {
  job.items_ = items;
  job.next_ = 0;
  job.failed_ = -1;
  job.left_.store(items.size(), std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  wake_.notify_all();
}

void LoadPool::loop(const std::stop_token& ends) {
  const StandardFloatingPoint standard;
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, ends, [&] { return !jobs_.empty(); }) && !ends.stop_requested()) {
    LoadJob& job = *jobs_.front();
    const std::size_t index = job.next_++;
    if (job.next_ == job.items_.size()) jobs_.erase(jobs_.begin());
    LoadItem& item = job.items_[index];
    lock.unlock();
    const auto capacity = static_cast<std::size_t>(samples_.source().value_bytes());
    const detail::Outcome outcome = outcome_of_loading(item.sample, [&] {
      item.bytes = samples_.load(item.sample, {item.value, capacity});
    });
    lock.lock();
    if (outcome.failed()) {
      item.bytes = -1;
      if (job.failed_ < 0 || static_cast<std::int64_t>(index) < job.failed_) {
        job.failed_ = static_cast<std::int64_t>(index);
        job.outcome_ = outcome;
      }
    }
    job.left_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace weir::datacache
