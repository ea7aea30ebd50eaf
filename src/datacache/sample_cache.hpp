// sample_cache.hpp: the state of a SampleCache.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weir/datacache.hpp>

#include "base/buffer.hpp"
#include "datacache/batch_call.hpp"
#include "datacache/loading.hpp"
#include "datacache/node_store.hpp"
#include "datacache/order.hpp"
#include "datacache/ownership.hpp"
#include "datacache/pack_folder.hpp"

namespace weir::detail {

/// Implements SampleCache.
class SampleCacheImpl : public std::enable_shared_from_this<SampleCacheImpl> {
 public:
  /// Local: the ranks have agreed on the arguments.
  SampleCacheImpl(std::shared_ptr<CommunicatorState> communicator, const SampleCacheConfig& configuration,
                  std::shared_ptr<SampleSource> source_of_samples, const std::string& identity, std::vector<Lease> taken,
                  std::int64_t store_bytes, const std::string& why_by_messages);
  SampleCacheImpl(const SampleCacheImpl&) = delete;
  SampleCacheImpl& operator=(const SampleCacheImpl&) = delete;

  /// Starts a batch, and returns its call. See BatchCall::start().
  std::shared_ptr<BatchCall> start(std::span<const std::int64_t> samples, std::span<std::byte> values,
                                   std::span<std::int64_t> sizes, datacache::BatchEnd* end = nullptr, const Outcome& ahead = {});
  /// Takes part in a batch with the error `why`.
  std::shared_ptr<BatchCall> refuse(std::string_view why);
  [[nodiscard]] int owner(std::int64_t sample) const;
  [[nodiscard]] SampleCacheStatistics statistics() const;
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Return the beginning of an epoch, which is the same on every rank, and this rank's seat.
  [[nodiscard]] datacache::Position beginning(const SampleLoaderConfig& loader) const;
  [[nodiscard]] datacache::Seat seat(Shuffle shuffle) const;
  /// Waits for the batches in flight. Returns false if memory must be kept until the process ends.
  [[nodiscard]] bool retire() noexcept;

  const std::shared_ptr<CommunicatorState> comm;
  const SampleCacheConfig config;
  const std::shared_ptr<SampleSource> source;
  const std::int64_t samples, value_bytes;
  std::string explanation;
  int loaders = 0;    ///< number of loaders that exist
  bool left = false;  ///< true once its SampleCache is gone and only loaders use it

 private:
  [[nodiscard]] std::vector<const datacache::StorePart*> readable_parts(std::int64_t store_bytes);
  [[nodiscard]] std::size_t place_of(int rank) const;

  std::vector<Lease> leases_;
  std::vector<int> rank_at_;  // by place: ranks of one node are adjacent
  const datacache::Ownership ownership_;
  Buffer<std::byte> private_memory_;                // if the node shares no memory
  std::vector<datacache::StorePart> node_parts_;    // of all ranks of the node
  std::vector<const datacache::StorePart*> parts_;  // by rank
  std::optional<datacache::StoreOwner> store_;
  std::optional<datacache::PackFolder> folder_;
  std::optional<datacache::OwnSamples> own_;
  SampleCacheStatistics statistics_;  // of batches
  std::optional<datacache::LoadPool> pool_;
  std::optional<datacache::BatchSetup> setup_;
  std::vector<std::shared_ptr<BatchCall>> calls_;
  std::size_t started_ = 0;
};

/// Collective.
[[nodiscard]] std::shared_ptr<SampleCacheImpl> make_sample_cache(std::shared_ptr<CommunicatorState> comm,
                                                                 const SampleCacheConfig& config,
                                                                 std::shared_ptr<SampleSource> source);

}  // namespace weir::detail
