// batch_call.hpp: moves one batch from the owners of its samples to the rank that requested it.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.hpp"
#include "communicator/agreed_outcome.hpp"
#include "communicator/asynchronous_call.hpp"
#include "datacache/loading.hpp"
#include "datacache/node_store.hpp"
#include "datacache/ownership.hpp"

namespace weir::datacache {

/// State shared by all batches of a cache.
struct BatchSetup {
  const SampleCacheConfig& config;
  const Ownership& ownership;
  std::int64_t samples = 0, value_bytes = 0;
  bool variable = false;                    ///< true if samples may be shorter than value_bytes
  std::span<const int> rank_at;             ///< by place
  std::span<const StorePart* const> parts;  ///< by rank: the part of memory that this rank can read; null if it cannot
  LoadPool& pool;
  SampleCacheStatistics& statistics;
};

/// Returns whether a batch continues without samples that cannot be read.
[[nodiscard]] constexpr bool goes_on_without(SampleErrors rule) {
  return rule == SampleErrors::skip || rule == SampleErrors::substitute;
}

/// How a batch has ended. The caller that requested the batch keeps this, because its call may already carry another batch.
struct BatchEnd {
  bool reached = false;
  std::exception_ptr error{};
};

}  // namespace weir::datacache

namespace weir::detail {

/// Exchanges one batch in rounds, so that memory is bounded for any choice of samples. In a round, each rank requests at most
/// `quota` samples from each other rank. Both ranks of a pair know the number of samples in advance. No other rank needs it.
class BatchCall final : public AsynchronousCall {
 public:
  BatchCall(std::shared_ptr<CommunicatorState> communicator, const datacache::BatchSetup& setup, int tag);

  /// Waits for the previous batch. Throws its error, unless that batch has a BatchEnd that receives it.
  void make_free();
  /// Starts a batch. `ahead`: an error that this rank found before; it then requests nothing. `end`, if not null, receives how this
  /// batch ends. It must exist until then, or until leave().
  void start(const Outcome& ahead, std::span<const std::int64_t> samples, std::span<std::byte> values,
             std::span<std::int64_t> sizes, datacache::BatchEnd* end);
  /// Stops reporting to `end` how its batch ends.
  void leave(const datacache::BatchEnd& end);
  [[nodiscard]] std::int64_t memory_bytes() const;

 protected:
  void completed() override;

 private:
  /// Samples requested or sent between this rank and one other.
  struct Peer {
    std::int64_t total = 0;  ///< in all rounds
    std::int64_t first = 0;  ///< index of the first requested sample, among all requested from any owner
  };

  /// One receive and one send to the same peer.
  struct Block {
    void* in;
    std::int64_t in_bytes;
    const void* out;
    std::int64_t out_bytes;
  };

  void check(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) const;
  void look_up(std::span<const std::int64_t> samples);
  task<void> exchange();
  template <class BlockOf>
  void post(Traffic kind, const BlockOf& block_of);
  task<void> exchange_requests(std::int64_t round);
  task<void> load(std::int64_t round);
  task<void> exchange_values(std::int64_t round);
  [[nodiscard]] std::int64_t stand_in(std::int64_t i) const;
  void deliver();
  /// Returns how many of `total` samples belong to the round.
  [[nodiscard]] std::int64_t in_round(std::int64_t total, std::int64_t round) const {
    return std::clamp(total - round * quota_, std::int64_t{0}, quota_);
  }
  [[nodiscard]] bool anything_in(std::int64_t round);
  /// Returns peers in the order in which this rank sends: beginning with the next rank.
  [[nodiscard]] int peer_at(int slot) const { return (me_ + 1 + slot) % ranks_; }
  /// Return what this rank asks of that peer, and what it serves to it.
  [[nodiscard]] Peer& asks(int slot) { return asks_[peer_at(slot)]; }
  [[nodiscard]] Peer& serves(int slot) { return serves_[peer_at(slot)]; }
  /// Returns the index of the first sample that the peer is asked for in this round.
  [[nodiscard]] std::int64_t first_asked(int slot, std::int64_t round) { return asks(slot).first + round * quota_; }
  /// Returns the place of a value that the peer is sent.
  [[nodiscard]] std::byte* out_place(int slot, std::int64_t i) { return out_.data() + (slot * quota_ + i) * value_bytes_; }
  /// Return the total number of samples, followed by the samples of this round.
  [[nodiscard]] std::int64_t* requests_to(int slot) { return out_requests_.data() + slot * (1 + quota_); }
  [[nodiscard]] std::int64_t* requests_from(int slot) { return in_requests_.data() + slot * (1 + quota_); }
  void note_failure(const datacache::LoadJob& job);

  const datacache::BatchSetup& setup_;
  const std::int64_t batch_, value_bytes_;
  const bool sends_sizes_;  // owners send sizes: samples differ in size, or may be skipped
  const std::int64_t quota_;
  int ranks_, me_;
  // Requested samples, grouped by owner:
  std::vector<std::int64_t> places_;    // index in the batch
  std::vector<std::int64_t> asked_;     // samples
  std::vector<std::int64_t> in_sizes_;  // as reported by their owners
  Buffer<std::byte> in_;                // their values; in a round, those of one owner are contiguous
  std::vector<Peer> asks_, serves_;     // by rank
  // Samples served in a round, `quota_` for each peer:
  std::vector<std::int64_t> out_requests_, in_requests_;  // the total comes before them
  std::vector<std::int64_t> out_sizes_;
  Buffer<std::byte> out_;
  std::vector<datacache::LoadItem> items_, own_items_;
  datacache::LoadJob job_, own_job_;
  std::vector<Request> requests_;
  AgreementWords agreement_;
  // State of a run:
  std::vector<datacache::StorePart::Value> found_;  // by index in the batch
  std::span<std::byte> values_;
  std::span<std::int64_t> sizes_;
  datacache::BatchEnd* end_ = nullptr;
  std::int64_t count_ = 0, from_node_ = 0, served_ = 0;
  Outcome outcome_;
};

}  // namespace weir::detail
