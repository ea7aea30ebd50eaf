// loading.hpp: how the owner loads a sample that is not in memory: from level 1 or the store. It is then decoded and kept.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>
#include <weir/datacache.hpp>

#include "base/completion.hpp"
#include "communicator/outcome.hpp"
#include "datacache/node_store.hpp"
#include "datacache/ownership.hpp"
#include "datacache/pack_folder.hpp"

namespace weir::datacache {

/// Counts over all threads.
struct LoadCounts {
  std::atomic<std::int64_t> decoded{0}, from_folder{0}, from_store{0}, store_bytes{0}, retried{0};
  std::atomic<std::int64_t> store_nanoseconds{0}, folder_nanoseconds{0}, decode_nanoseconds{0};
};

/// Lets one thread at a time load a sample. Another thread that wants it waits, and then finds it in memory.
class SampleTurns {
 public:
  /// Waits until no other thread has the sample, and holds it until destruction.
  class Turn {
   public:
    Turn(SampleTurns& turns, std::int64_t sample);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    SampleTurns& turns_;
    std::int64_t sample_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::int64_t> taken_;  // at most one per thread
};

/// A rank's own samples. Thread-safe.
class OwnSamples {
 public:
  /// `folder` is null without level 1. All arguments except the source must outlive this object.
  OwnSamples(const SampleCacheConfig& config, std::shared_ptr<SampleSource> source, const Ownership& ownership, StoreOwner& store,
             PackFolder* folder);

  /// Loads a sample into `value`, which has room for value_bytes. Returns the bytes of its value. Throws the error of reading or
  /// decoding (with on_error = retry, that of the last try).
  std::int64_t load(std::int64_t sample, std::span<std::byte> value);
  [[nodiscard]] const LoadCounts& counts() const { return counts_; }
  [[nodiscard]] SampleSource& source() const { return *source_; }

 private:
  std::int64_t try_load(std::int64_t sample, std::span<std::byte> value);
  std::int64_t load_pack(std::int64_t sample, const SampleRange& pack, std::span<std::byte> value);
  template <class ReadPack>
  [[nodiscard]] std::optional<Samples> if_readable(const ReadPack& read_pack);
  [[nodiscard]] Samples read(SampleRange range);
  [[nodiscard]] std::int64_t copy_kept(std::int64_t sample, std::span<std::byte> value) const;
  std::int64_t decode_and_keep(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value);
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value);

  const SampleCacheConfig& config_;
  std::shared_ptr<SampleSource> source_;
  const Ownership& ownership_;
  StoreOwner& store_;
  PackFolder* folder_;
  LoadCounts counts_;
  SampleTurns turns_;
  std::array<std::mutex, 64> packs_;  // by number of the pack, modulo 64: one thread at a time reads a pack that is kept whole
};

/// A sample to load.
struct LoadItem {
  std::int64_t sample = 0;
  std::byte* value = nullptr;  ///< destination
  std::int64_t bytes = 0;      ///< its size; -1: the sample could not be loaded
};

/// Samples to load together.
class LoadJob final : public Completion {
 public:
  [[nodiscard]] bool reached() override { return left_.load(std::memory_order_acquire) == 0; }
  /// Returns the outcome of the first item that failed. Valid once reached().
  [[nodiscard]] const detail::Outcome& outcome() const { return outcome_; }
  [[nodiscard]] bool failed() const { return failed_ >= 0; }

 private:
  friend class LoadPool;
  std::span<LoadItem> items_;
  std::size_t next_ = 0;  // under the pool's mutex
  std::atomic<std::size_t> left_{0};
  std::int64_t failed_ = -1;  // under the pool's mutex: the first item
  detail::Outcome outcome_;
};

/// Threads that load samples. They do not call MPI.
class LoadPool {
 public:
  /// Takes up to `most_jobs` jobs at a time.
  LoadPool(OwnSamples& samples, int threads, std::size_t most_jobs);
  /// Waits for samples that are being loaded. The rest of the jobs is dropped.
  ~LoadPool();
  /// `items`, which must not be empty, and `job` must exist until the job is reached(). Allocates nothing.
  void begin(LoadJob& job, std::span<LoadItem> items);

 private:
  void loop(const std::stop_token& ends);

  OwnSamples& samples_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<LoadJob*> jobs_;  // those with items left, in order
  std::vector<std::jthread> threads_;
};

}  // namespace weir::datacache
