// batch_call.hpp: one batch on its way from the owners of its samples to the rank that asked for them.
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

/// What all batches of a cache work with.
struct BatchSetup {
  const SampleCacheConfig& config;
  const Ownership& ownership;
  std::int64_t samples = 0, value_bytes = 0;
  bool variable = false;                    ///< samples may be shorter
  std::span<const int> rank_at;             ///< by place
  std::span<const StorePart* const> parts;  ///< by rank: the part of memory that can be read here; null: it cannot
  LoadPool& pool;
  SampleCacheStatistics& statistics;
};

/// Says whether a batch goes on without samples that cannot be had.
[[nodiscard]] constexpr bool goes_on_without(SampleErrors rule) {
  return rule == SampleErrors::skip || rule == SampleErrors::substitute;
}

/// How a batch has ended. The caller that asked for the batch keeps this: by then its call may be on its way with another batch.
struct BatchEnd {
  bool reached = false;
  std::exception_ptr error{};
};

}  // namespace weir::datacache

namespace weir::detail {

/// Exchanges one batch in rounds, so that memory is bounded whichever ranks are asked. In a round, each rank asks each other rank
/// for at most `quota` samples. Both ends of a pair know how many samples are to come. No other rank needs to know.
class BatchCall final : public AsynchronousCall {
 public:
  BatchCall(std::shared_ptr<CommunicatorState> communicator, const datacache::BatchSetup& setup, int tag);

  /// Waits for the batch before. Throws what that ended with, unless it is told there.
  void make_free();
  /// `ahead`: what this rank has wrong before it asks; it asks for nothing then. `end`, if it is not null, is told how this batch
  /// ends; until then, or leave(), it stays.
  void start(const Outcome& ahead, std::span<const std::int64_t> samples, std::span<std::byte> values,
             std::span<std::int64_t> sizes, datacache::BatchEnd* end);
  /// Nobody is told any more how the batch ends that `end` was to be told of.
  void leave(const datacache::BatchEnd& end);
  [[nodiscard]] std::int64_t memory_bytes() const;

 protected:
  void completed() override;

 private:
  /// Samples that are asked for, or to be sent, between this rank and another.
  struct Peer {
    std::int64_t total = 0;  ///< in all rounds
    std::int64_t first = 0;  ///< of what is asked for: the first one's place among all that are
  };
  /// Where a value of the batch is.
  struct Found {
    const std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };

  /// What comes from a peer and what goes to it.
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
  /// Returns how many of `total` samples belong to a round.
  [[nodiscard]] std::int64_t in_round(std::int64_t total, std::int64_t round) const {
    return std::clamp(total - round * quota_, std::int64_t{0}, quota_);
  }
  [[nodiscard]] bool anything_in(std::int64_t round) const;
  /// Peers in the order in which this rank sends: from the next rank on.
  [[nodiscard]] int peer_at(int slot) const { return (me_ + 1 + slot) % ranks_; }
  /// How many samples altogether, then those of this round.
  [[nodiscard]] std::int64_t* requests_to(int slot) { return out_requests_.data() + slot * (1 + quota_); }
  [[nodiscard]] std::int64_t* requests_from(int slot) { return in_requests_.data() + slot * (1 + quota_); }
  void note_failure(const datacache::LoadJob& job);

  const datacache::BatchSetup& setup_;
  const std::int64_t batch_, value_bytes_;
  const bool tells_sizes_;  // an owner does: samples are of many sizes, or may be skipped
  const std::int64_t quota_;
  int ranks_, me_;
  // What is asked for, grouped by owner:
  std::vector<std::int64_t> places_;    // in the batch
  std::vector<std::int64_t> asked_;     // samples
  std::vector<std::int64_t> in_sizes_;  // as their owners say
  Buffer<std::byte> in_;                // their values: in a round, those of an owner without gaps
  std::vector<Peer> asks_, serves_;     // by rank
  // What is served in a round, by peer, `quota_` each:
  std::vector<std::int64_t> out_requests_, in_requests_;  // with the total before them
  std::vector<std::int64_t> out_sizes_;
  Buffer<std::byte> out_;
  std::vector<datacache::LoadItem> items_, own_items_;
  datacache::LoadJob job_, own_job_;
  std::vector<Request> requests_;
  AgreementWords agreement_;
  // State of a run:
  std::vector<Found> found_;  // by place in the batch
  std::span<std::byte> values_;
  std::span<std::int64_t> sizes_;
  datacache::BatchEnd* end_ = nullptr;
  std::int64_t count_ = 0, from_node_ = 0, served_ = 0;
  Outcome outcome_;
};

}  // namespace weir::detail
