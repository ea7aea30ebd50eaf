// Tests meetings of threads through shared memory.
#include <array>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "transport/shared_meeting.hpp"

namespace weir {
namespace {

/// Memory of a meeting of the ranks 100, 101, ...
class MeetingMemory {
 public:
  explicit MeetingMemory(int ranks) : lines_(static_cast<std::size_t>(ranks)), members_(lines_.size()) {
    std::iota(members_.begin(), members_.end(), 100);
  }
  [[nodiscard]] SharedMemory shared() { return {lines_.data()->bytes.data(), SharedMeeting::bytes, SharedMeeting::bytes}; }
  [[nodiscard]] std::span<const int> members() const { return members_; }

 private:
  struct alignas(SharedMeeting::bytes) Line {
    std::array<std::byte, SharedMeeting::bytes> bytes{};
  };

  std::vector<Line> lines_;
  std::vector<int> members_;
};

}  // namespace

TEST_CASE("a meeting is reached once all have arrived, over and over") {
  for (const int ranks : {1, 2, 3, 5, 7, 33}) {
    INFO(ranks << " ranks");
    constexpr int meetings = 200;
    MeetingMemory memory(ranks);
    std::vector<int> written(static_cast<std::size_t>(ranks));  // by each rank, before a meeting
    std::vector<int> wrong(written.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        SharedMeeting meeting(memory.shared(), memory.members());
        for (int i = 1; i <= meetings; ++i) {
          written[static_cast<std::size_t>(rank)] = i;
          meeting.arrive(rank);
          while (!meeting.reached()) meeting.idle();
          for (const int other : written) wrong[static_cast<std::size_t>(rank)] += other != i;
          meeting.arrive(rank);  // all have read
          while (!meeting.reached()) meeting.idle();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(wrong.size()));
  }
}

TEST_CASE("a meeting that a rank stays away from is not reached, and the rank is named") {
  MeetingMemory memory(3);
  const auto join = [&] { return SharedMeeting(memory.shared(), memory.members()); };
  SharedMeeting first = join(), second = join(), third = join();
  for (int round = 0; round < 2; ++round) {
    second.arrive(1);
    CHECK(second.describe() == "rank 100 in shared memory");
    CHECK(second.awaited_rank() == 100);
    first.arrive(0);
    CHECK(second.describe() == "rank 102 in shared memory");
    CHECK(!first.reached());
    first.idle();  // returns all the same
    CHECK(!first.reached());
    third.arrive(2);
    CHECK((first.reached() && second.reached() && third.reached()));
    CHECK(first.awaited_rank() == 102);  // the last one
  }
}

TEST_CASE("a meeting that a rank has given up is not reached when the others come") {
  MeetingMemory memory(2);
  SharedMeeting first(memory.shared(), memory.members()), second(memory.shared(), memory.members());
  first.arrive(0);
  first.abandon();
  second.arrive(1);
  CHECK((!first.reached() && !second.reached()));
}

}  // namespace weir
