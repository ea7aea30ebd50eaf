// Tests meetings of threads through shared memory, and cards.
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "collectives/node_cards.hpp"
#include "support/catch.hpp"
#include "topology/topology.hpp"
#include "transport/shared_meeting.hpp"

namespace weir {
namespace {

/// Memory of a meeting of the ranks 100, 101, ...
class MeetingMemory {
 public:
  explicit MeetingMemory(int ranks) : lines_(static_cast<std::size_t>(ranks)), members_(lines_.size()) {
    std::iota(members_.begin(), members_.end(), 100);
  }
  /// Goes on as if there had been that many meetings.
  void set_meetings(std::uint32_t number) {
    for (Line& line : lines_) std::memcpy(line.bytes.data(), &number, sizeof number);
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
    memory.set_meetings(ranks % 2 == 0 ? 0 : ranks == 5 ? 0x7fffff80 : 0xffffff80);  // numbers wrap around
    std::vector<int> written(static_cast<std::size_t>(ranks));                       // by each rank, before a meeting
    std::vector<int> wrong(written.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        SharedMeeting meeting(memory.shared(), memory.members(), rank);
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

TEST_CASE("a meeting that a rank stays away from is not reached, and the rank is named") {
  MeetingMemory memory(3);
  const auto join = [&](int member) { return SharedMeeting(memory.shared(), memory.members(), member); };
  SharedMeeting first = join(0), second = join(1), third = join(2);
  for (int round = 0; round < 2; ++round) {
    second.arrive();
    CHECK(second.describe() == "rank 100 in shared memory");
    CHECK(second.awaited_rank() == 100);
    first.arrive();
    CHECK(second.describe() == "rank 102 in shared memory");
    CHECK(!first.reached());
    first.idle();  // returns all the same
    CHECK(!first.reached());
    third.arrive();
    CHECK((first.reached() && second.reached() && third.reached()));
    CHECK(first.awaited_rank() == 102);  // the last one
  }
}

TEST_CASE("a meeting that a rank has given up is not reached when the others come") {
  MeetingMemory memory(2);
  SharedMeeting first(memory.shared(), memory.members(), 0), second(memory.shared(), memory.members(), 1);
  first.arrive();
  first.abandon();
  second.arrive();
  CHECK((!first.reached() && !second.reached()));
}

TEST_CASE("cards of objects that use the same memory by turns stay until all have read them") {
  constexpr std::int64_t bytes = NodeCards::memory_for(sizeof(std::uint64_t));
  struct alignas(64) Memory {
    std::array<std::byte, 2 * bytes> bytes_of_ranks{};
  } memory;
  const SharedMemory shared(memory.bytes_of_ranks.data(), bytes, bytes);
  const std::array topologies = {Topology(synthetic_machine("rank:2"), 0), Topology(synthetic_machine("rank:2"), 1)};
  NodeCards first_0(shared, 8, topologies[0]), first_1(shared, 8, topologies[1]);
  NodeCards second_0(shared, 8, topologies[0]), second_1(shared, 8, topologies[1]);
  first_0.clear();
  first_1.clear();
  const auto publish = [](NodeCards& cards, std::uint64_t value) {
    std::memcpy(cards.mine(), &value, sizeof value);
    cards.publish();
  };
  for (std::uint64_t value = 1; value < 8; value += 3) {
    publish(first_0, value);
    publish(first_1, value);
    REQUIRE(first_0.reached());
    publish(second_0, value + 1);  // rank 0 has read and goes on with another object
    REQUIRE(first_1.reached());
    REQUIRE(first_1.of<std::uint64_t>(0) == value);
    publish(second_1, value + 1);
    REQUIRE(second_1.of<std::uint64_t>(0) == value + 1);
    publish(first_1, value + 2);
    REQUIRE(second_0.of<std::uint64_t>(1) == value + 1);
    publish(first_0, value + 2);
    REQUIRE(first_0.of<std::uint64_t>(1) == value + 2);
  }
}

}  // namespace weir
