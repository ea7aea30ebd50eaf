// sample_loader.hpp: what a SampleLoader stands for: epochs, batches asked for ahead of time, and how far the first epoch has got.
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

/// See SampleLoader.
class SampleLoaderImpl {
 public:
  SampleLoaderImpl(std::shared_ptr<SampleCacheImpl> samples, const SampleLoaderConfig& configuration);
  SampleLoaderImpl(const SampleLoaderImpl&) = delete;
  SampleLoaderImpl& operator=(const SampleLoaderImpl&) = delete;
  ~SampleLoaderImpl();

  std::optional<SampleBatch> next();
  void seek(std::string_view text);
  /// After the batches that next() has returned.
  [[nodiscard]] const datacache::Course& returned() const { return returned_; }
  [[nodiscard]] const std::shared_ptr<CommunicatorState>& communicator() const { return cache->comm; }

  std::shared_ptr<SampleCacheImpl> cache;
  const SampleLoaderConfig config;

 private:
  /// A batch that was asked for, or is the caller's.
  struct Batch {
    std::int64_t epoch = 0, step = 0;
    std::vector<std::int64_t> samples, sizes;
    Buffer<std::byte> values;
    std::shared_ptr<BatchCall> call;
    datacache::BatchEnd end;
  };

  void ask_ahead();
  /// Throws what the batch has ended with.
  static void wait_for(Batch& batch);
  void forget_asked() noexcept;
  void show_progress();

  datacache::Seat seat_;
  datacache::Course returned_, asked_;
  std::vector<Batch> batches_;             // one more than may be in flight: the caller's
  std::size_t first_ = 0, in_flight_ = 0;  // in batches_, round and round
  bool ended_ = false;                     // next() has said that the epoch is at its end
  // State of the display:
  bool shows_ = false;
  std::int64_t shown_epoch_ = 0;
  std::chrono::steady_clock::time_point epoch_begun_{}, shown_{};
  std::int64_t before_ = 0;  // samples of the epoch that came before this loader
};

/// Collective: throws on all ranks alike.
[[nodiscard]] std::shared_ptr<SampleLoaderImpl> make_sample_loader(const std::shared_ptr<SampleCacheImpl>& cache,
                                                                   const SampleLoaderConfig& config);

}  // namespace weir::detail
