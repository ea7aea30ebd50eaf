// leases.hpp: what a plan or table takes on all ranks alike: tags, a lane of the transport's own allreduce, memory that its node
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

/// One plan's or table's. Given back when it is destroyed, on each rank when that likes.
class Lease {
 public:
  /// Calls of a table; a plan uses one.
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

/// One communicator's. What a lease had is free again once all ranks have given it back, which they tell each other when something
/// else is made: then all know the same, and no tag is ever in use twice.
class Leases {
 public:
  /// What a rank has given back since it last said so. Plain bytes; the rest is told the next time.
  struct Returned {
    std::int32_t count = 0;
    std::array<std::int32_t, 96> numbers{};
  };

  explicit Leases(int ranks) : ranks_(ranks) {}

  /// Room for `more` leases, so that take() and giving them back allocate nothing. Throws std::bad_alloc, and Error where tags up
  /// to `max_tag` are too few.
  void prepare(int max_tag, int more = 1);
  /// To be told to all ranks, this one too.
  [[nodiscard]] Returned returned() noexcept;
  /// What rank after rank has said. The same on every rank.
  void collect(const Returned& returned) noexcept;
  /// The same on every rank. After prepare().
  [[nodiscard]] Lease take() noexcept;
  /// Collective. Throws Error alike on all ranks.
  void add_lane(CommunicatorState& comm, const Lease& lease);
  /// Collective. `bytes` of each rank; or why not, on every rank.
  [[nodiscard]] Outcome add_memory(CommunicatorState& comm, const Lease& lease, std::int64_t bytes);

  /// Taken and not free again.
  [[nodiscard]] int alive() const { return static_cast<int>(records_.size() - free_.size()); }
  [[nodiscard]] const NodeMemory& node_memory() const { return memory_; }

 private:
  friend class Lease;
  struct Record {
    int given_back = 0;  ///< by so many ranks
    int lane = -1;
    NodeMemory::Block block;
  };
  [[nodiscard]] Record& record(const Lease& lease) { return records_[static_cast<std::size_t>(lease.number_)]; }

  int ranks_;
  std::vector<Record> records_;  // by number
  std::vector<int> free_;        // numbers
  std::vector<int> free_lanes_;
  std::vector<std::int32_t> told_;  // given back here, and not told yet
  NodeMemory memory_;
};

}  // namespace weir::detail
