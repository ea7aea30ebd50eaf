// loading.hpp: how the owner comes by a sample that is not in memory: from level 1, or from the store; decoded, and kept.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>
#include <weir/datacache.hpp>

#include "base/completion.hpp"
#include "communicator/outcome.hpp"
#include "datacache/node_store.hpp"
#include "datacache/ownership.hpp"
#include "datacache/pack_folder.hpp"

namespace weir::datacache {

/// Counts of all threads together.
struct LoadCounts {
  std::atomic<std::int64_t> decoded{0}, from_folder{0}, from_store{0}, store_bytes{0}, retried{0};
  std::atomic<std::int64_t> store_nanoseconds{0}, folder_nanoseconds{0}, decode_nanoseconds{0};
};

/// Lets one thread at a time load a sample. Another thread that wants it waits, and finds it kept.
class SampleTurns {
 public:
  /// Waits until no thread has the sample, and has it until its end.
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
  std::vector<std::int64_t> taken_;  // one per thread at most
};

/// A rank's own samples. Thread-safe.
class OwnSamples {
 public:
  /// `folder` is null without level 1. All but the source outlive it.
  OwnSamples(const SampleCacheConfig& config, std::shared_ptr<SampleSource> source, const Ownership& ownership, StoreOwner& store,
             PackFolder* folder);

  /// The value of a sample, of which `value` takes value_bytes. Returns its bytes; throws what reading or decoding it has thrown,
  /// with on_error = retry the last time.
  std::int64_t load(std::int64_t sample, std::span<std::byte> value);
  [[nodiscard]] const LoadCounts& counts() const { return counts_; }
  [[nodiscard]] SampleSource& source() const { return *source_; }

 private:
  std::int64_t try_load(std::int64_t sample, std::span<std::byte> value);
  std::int64_t load_pack(std::int64_t sample, std::span<std::byte> value);
  [[nodiscard]] std::vector<std::byte> read_into_folder(std::int64_t sample, const SampleRange& pack);
  [[nodiscard]] std::vector<std::byte> read_alone(std::int64_t sample);
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
  std::array<std::mutex, 64> packs_;  // by number of the pack, modulo: one thread reads a pack whose samples all are to be kept
};

/// A sample to be loaded.
struct LoadItem {
  std::int64_t sample = 0;
  std::byte* value = nullptr;  ///< to here
  std::int64_t bytes = 0;      ///< so many; -1: it could not be had
};

/// Samples to be loaded together.
class LoadJob final : public Completion {
 public:
  [[nodiscard]] bool reached() override { return left_.load(std::memory_order_acquire) == 0; }
  /// Once reached(): of the first item that failed.
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

/// Threads that load. They make no calls of MPI.
class LoadPool {
 public:
  /// Up to `most_jobs` at a time.
  LoadPool(OwnSamples& samples, int threads, std::size_t most_jobs);
  /// Waits for samples that are being loaded; of jobs, nothing else is done.
  ~LoadPool();
  /// `items`, not empty, and `job` stay until it is reached(). Allocates nothing.
  void begin(LoadJob& job, std::span<LoadItem> items);

 private:
  void loop();

  OwnSamples& samples_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<LoadJob*> jobs_;  // that have items left, in order
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weir::datacache
