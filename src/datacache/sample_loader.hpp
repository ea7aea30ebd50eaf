// sample_loader.hpp: the state of a SampleLoader: epochs, batches requested ahead, and the display of the first epoch's progress.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.hpp"
#include "datacache/order.hpp"
#include "datacache/sample_cache.hpp"

namespace weir::detail {

/// Implements SampleLoader.
class SampleLoaderImpl {
 public:
  SampleLoaderImpl(std::shared_ptr<SampleCacheImpl> samples, const SampleLoaderConfig& configuration);
  SampleLoaderImpl(const SampleLoaderImpl&) = delete;
  SampleLoaderImpl& operator=(const SampleLoaderImpl&) = delete;
  ~SampleLoaderImpl();

  std::optional<SampleBatch> next();
  void seek(std::string_view text);
  /// Returns the position after the batches that next() has returned.
  [[nodiscard]] const datacache::Course& returned() const { return returned_; }
  [[nodiscard]] const std::shared_ptr<CommunicatorState>& communicator() const { return cache->comm; }

  std::shared_ptr<SampleCacheImpl> cache;
  const SampleLoaderConfig config;

 private:
  /// A batch that is in flight, or that the caller has.
  struct Batch {
    std::int64_t epoch = 0, step = 0;
    std::vector<std::int64_t> samples, sizes;
    Buffer<std::byte> values;
    std::shared_ptr<BatchCall> call;
    datacache::BatchEnd end;
  };

  void ask_ahead();
  /// Waits for the batch and throws its error.
  static void wait_for(Batch& batch);
  void forget_asked() noexcept;
  void show_progress();

  datacache::Seat seat_;
  datacache::Course returned_, asked_;
  std::vector<Batch> batches_;             // one more than may be in flight, for the caller's batch
  std::size_t first_ = 0, in_flight_ = 0;  // a ring in batches_
  bool ended_ = false;                     // true once next() has reported the end of the epoch
  // State of the display:
  bool shows_ = false;
  std::int64_t shown_epoch_ = 0;
  std::chrono::steady_clock::time_point epoch_begun_{}, shown_{};
  std::int64_t before_ = 0;  // samples of the epoch taken before this loader was made
};

/// Collective. Throws the same on every rank.
[[nodiscard]] std::shared_ptr<SampleLoaderImpl> make_sample_loader(const std::shared_ptr<SampleCacheImpl>& cache,
                                                                   const SampleLoaderConfig& config);

}  // namespace weir::detail
