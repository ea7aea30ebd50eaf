// shared_meeting.hpp: a meeting of the ranks of a node, through a few words of memory that they share.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/completion.hpp"
#include "transport/shared_segment.hpp"

namespace weir {

/// Ranks that meet over and over. A rank arrives, and the meeting is reached once all have arrived. Ranks that wait yield their
/// cores. If other programs compute there, a yield takes milliseconds: then ranks sleep, and the last to arrive wakes them.
class SharedMeeting final : public Completion {
 public:
  /// The shared memory of each rank. Also the alignment.
  static constexpr std::int64_t bytes = 64;

  /// `memory` begins with `bytes` of each member, all zero before the first meeting. `members` are their ranks, in the same order.
  /// Both outlive the object.
  SharedMeeting(SharedMemory memory, std::span<const int> members) noexcept : memory_(memory), members_(members) {}

  /// Returns the number of the meeting that comes next, the same on all ranks that have reached the last one. Objects that use the
  /// same memory one after another go on counting.
  [[nodiscard]] std::uint32_t next() const noexcept;
  /// Says that this rank, member `me`, has come. What it has written before is seen by all once the meeting is reached.
  void arrive(int me) noexcept;
  [[nodiscard]] bool reached() override;
  [[nodiscard]] bool awaits_peers() const noexcept override { return true; }
  /// Returns the first rank that has not come, or the last that has, once the meeting is reached; -1 while it is being reached, or
  /// if all have come and one has given it up.
  [[nodiscard]] int awaited_rank() const noexcept override;
  void abandon() noexcept override;
  void idle() noexcept override;
  [[nodiscard]] std::string describe() const override;

 private:
  /// `arrivals` lies in the memory of each member, the others in that of the first.
  enum Word : std::uint8_t { meetings, arrived, sleepers, last_to_arrive, abandoned, arrivals };

  [[nodiscard]] std::uint32_t& word(Word which) const noexcept { return word_of(0, which); }
  [[nodiscard]] std::uint32_t& word_of(int member, Word which) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory_.of(member))[which];
  }

  SharedMemory memory_;
  std::span<const int> members_;
  std::uint32_t before_ = 0;  // meetings that were over when this rank arrived
};

}  // namespace weir
