// leases.hpp: what a plan or table takes on every rank: tags, a lane of the transport's own allreduce, memory that its node
// shares.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "communicator/node_memory.hpp"

namespace weir::detail {

struct CommunicatorState;
class Leases;

/// What one plan or table has leased. Each rank gives it back when it destroys the lease, at any time.
class Lease {
 public:
  /// The number of calls of a table, each with its own tag; a plan uses one.
  static constexpr int tags = 4;

  Lease() = default;
  Lease(Lease&& other) noexcept : leases_(std::exchange(other.leases_, nullptr)), number_(other.number_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease();
  [[nodiscard]] int tag(int call = 0) const noexcept { return 1 + tags * number_ + call; }
  [[nodiscard]] int lane() const;
  [[nodiscard]] SharedMemory memory() const;

 private:
  friend class Leases;
  Lease(Leases* leases, int number) : leases_(leases), number_(number) {}
  Leases* leases_ = nullptr;
  int number_ = 0;
};

/// The leases of one communicator. What a lease had is free again once all ranks have given it back. Ranks exchange what they have
/// given back when they make something else: every rank then knows the same, and no tag is ever in use twice.
class Leases {
 public:
  /// What a rank has given back since it last reported. Plain bytes; what does not fit is reported the next time.
  struct Returned {
    std::int32_t count = 0;
    std::array<std::int32_t, 96> numbers{};
  };

  explicit Leases(int ranks) : ranks_(ranks) {}

  /// Makes room for `more` leases, so that take() and giving them back allocate nothing. Throws std::bad_alloc, and Error if there
  /// are too few tags up to `max_tag`.
  void prepare(int max_tag, int more = 1);
  /// Returns what to report to all ranks, this one too.
  [[nodiscard]] Returned returned() noexcept;
  /// Records what a rank has reported. Called for rank after rank, the same on every rank.
  void collect(const Returned& returned) noexcept;
  /// Takes a lease. The same on every rank; call prepare() before.
  [[nodiscard]] Lease take() noexcept;
  /// Adds a lane. Collective. Throws the same Error on all ranks.
  void add_lane(CommunicatorState& comm, const Lease& lease);
  /// Adds memory: `bytes` of each rank. Collective. If that fails, returns the reason on every rank.
  [[nodiscard]] Outcome add_memory(CommunicatorState& comm, const Lease& lease, std::int64_t bytes);
  /// Takes memory for as long as the communicator lives: `bytes` of each rank. Collective; call prepare() before. Returns none on
  /// every rank if some rank cannot have it.
  [[nodiscard]] SharedMemory take_memory(CommunicatorState& comm, std::int64_t bytes);

  /// Returns the number of leases that are taken and not free again.
  [[nodiscard]] int alive() const { return static_cast<int>(records_.size() - free_.size()); }
  [[nodiscard]] const NodeMemory& node_memory() const { return memory_; }

 private:
  friend class Lease;
  struct Record {
    int given_back = 0;  ///< by this many ranks
    int lane = -1;
    NodeMemory::Block block;
  };
  [[nodiscard]] Record& record(const Lease& lease) { return records_[static_cast<std::size_t>(lease.number_)]; }

  int ranks_;
  std::vector<Record> records_;  // index: the lease's number
  std::vector<int> free_;        // numbers of leases
  std::vector<int> free_lanes_;
  std::vector<std::int32_t> released_;  // given back on this rank, not reported yet
  NodeMemory memory_;
};

}  // namespace weir::detail
