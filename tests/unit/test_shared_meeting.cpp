// Tests meetings of threads through shared memory.
#include <array>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "transport/shared_meeting.hpp"

namespace weir {

TEST_CASE("a meeting is reached once all have arrived, over and over") {
  for (const int ranks : {1, 2, 3, 5, 7, 33}) {
    INFO(ranks << " ranks");
    constexpr int meetings = 200;
    alignas(SharedMeeting::bytes) std::array<std::byte, SharedMeeting::bytes> memory{};
    std::vector<int> written(static_cast<std::size_t>(ranks));  // by each rank, before a meeting
    std::vector<int> wrong(written.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        SharedMeeting meeting(memory.data(), ranks);
        for (int i = 1; i <= meetings; ++i) {
          written[static_cast<std::size_t>(rank)] = i;
          meeting.arrive();
          while (!meeting.reached()) meeting.idle();
          for (const int other : written) wrong[static_cast<std::size_t>(rank)] += other != i;
          meeting.arrive();  // all have read
          while (!meeting.reached()) meeting.idle();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(wrong.size()));
  }
}

TEST_CASE("a meeting that a rank stays away from is not reached") {
  alignas(SharedMeeting::bytes) std::array<std::byte, SharedMeeting::bytes> memory{};
  SharedMeeting meeting(memory.data(), 2);
  meeting.arrive();
  CHECK(!meeting.reached());
  meeting.idle();  // returns all the same
  CHECK(!meeting.reached());
  SharedMeeting other(memory.data(), 2);
  other.arrive();
  CHECK((meeting.reached() && other.reached()));
}

}  // namespace weir
