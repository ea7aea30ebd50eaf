// shared_meeting.hpp: a meeting of the ranks of a node, through a few words of memory that they share.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/completion.hpp"
#include "transport/shared_segment.hpp"

namespace weir {

/// Ranks that meet over and over. A rank arrives, and the meeting is reached once all have arrived. Each rank writes to a line of
/// its own: nothing passes between cores but what the ranks read of each other. Ranks that wait yield their cores. If other
/// programs compute there, a yield takes milliseconds: then ranks sleep, and the last to arrive wakes them.
class SharedMeeting final : public Completion {
 public:
  /// The shared memory of each rank. Also the alignment.
  static constexpr std::int64_t bytes = 64;

  /// `memory` begins with `bytes` of each member, all zero before the first meeting. `members` are their ranks, in the same order;
  /// this rank is member `me`. Both outlive the object.
  SharedMeeting(SharedMemory memory, std::span<const int> members, int me) noexcept
      : memory_(memory), members_(members), me_(static_cast<std::size_t>(me)) {}

  /// Returns the number of the meeting to which this rank comes next. Objects that use the same memory one after another go on
  /// counting.
  [[nodiscard]] std::uint32_t next() const noexcept;
  /// Says that this rank has come. What it has written before is seen by all once the meeting is reached.
  void arrive() noexcept;
  [[nodiscard]] bool reached() override;
  [[nodiscard]] bool awaits_peers() const noexcept override { return true; }
  /// Returns the first rank that has not come; once the meeting is reached, one of the last that were missing when this rank
  /// looked; -1 if all have come and one has given it up.
  [[nodiscard]] int awaited_rank() const noexcept override;
  void abandon() noexcept override;
  void idle() noexcept override;
  [[nodiscard]] std::string describe() const override;

 private:
  /// `meetings`, the number of those to which a rank has come, lies in the memory of each member, the others in that of the first.
  enum Word : std::uint8_t { meetings, sleepers, wakes, abandoned };

  [[nodiscard]] std::uint32_t& word(Word which) const noexcept { return word_of(0, which); }
  [[nodiscard]] std::uint32_t& word_of(std::size_t member, Word which) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory_.of(static_cast<int>(member)))[which];
  }
  [[nodiscard]] bool has_come(std::size_t member) const noexcept;

  SharedMemory memory_;
  std::span<const int> members_;
  std::size_t me_;
  std::uint32_t meeting_ = 0;  // the one to which this rank has come
  std::size_t come_ = 0;       // all members before this one have been seen there
  std::size_t last_ = 0;       // the last that was missing; this rank if none was
};

}  // namespace weir
