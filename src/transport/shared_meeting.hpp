// shared_meeting.hpp: a meeting of the ranks of a node, through a few words of memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/completion.hpp"

namespace weir {

/// Ranks that meet over and over. A rank arrives, and the meeting is reached once all have arrived. Ranks sleep while they wait,
/// and the last to arrive wakes them. On cores that ranks share with each other or with other programs, that takes far less time
/// than turns of the scheduler.
class SharedMeeting final : public Completion {
 public:
  /// The shared memory of a meeting. All zero before the first one. Also the alignment.
  static constexpr std::int64_t bytes = 64;

  /// `memory` outlives the object.
  SharedMeeting(std::byte* memory, int ranks) noexcept : words_(reinterpret_cast<std::uint32_t*>(memory)), ranks_(ranks) {}

  /// Says that this rank has come. What it has written before is seen by all once the meeting is reached.
  void arrive() noexcept;
  [[nodiscard]] bool reached() override;
  [[nodiscard]] bool awaits_peers() const noexcept override { return true; }
  void idle() noexcept override;
  [[nodiscard]] std::string describe() const override { return "the ranks of its node"; }

 private:
  enum Word : std::uint8_t { meetings, arrived, sleepers };

  std::uint32_t* words_ = nullptr;
  std::uint32_t ranks_ = 1;
  std::uint32_t before_ = 0;  // meetings that were over when this rank arrived
};

}  // namespace weir
