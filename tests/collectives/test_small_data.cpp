// test_small_data.cpp: sends a few bytes from one rank to all, and from all to all.
#include <cstring>
#include <random>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

std::vector<std::byte> bytes_of(int rank, std::int64_t size) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("every rank gets the bytes of the root, and those of all in rank order") {
  for (const int ranks : {1, 2, 3, 5, 7, 8, 33}) {
    CAPTURE(ranks);
    RankCheck check;
    run_ranks(ranks,
              [&](Communicator& comm) {
                for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{24}, std::int64_t{70001}}) {
                  const std::vector<std::byte> mine = bytes_of(comm.rank(), size);
                  for (const int root : {0, ranks / 2, ranks - 1}) {
                    std::vector<std::byte> data = mine;
                    comm.broadcast(data, root);
                    check.that(data == bytes_of(root, size), "broadcast from " + std::to_string(root));
                  }
                  std::vector<std::byte> all(static_cast<std::size_t>(ranks * size)), expected;
                  comm.allgather(mine, all);
                  for (int rank = 0; rank < ranks; ++rank) {
                    const std::vector<std::byte> part = bytes_of(rank, size);
                    expected.insert(expected.end(), part.begin(), part.end());
                  }
                  check.that(all == expected, "allgather");
                }
              },
              {.seed = 5});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("what one rank gives wrong is the same error on all, and the next call works") {
  SameErrors errors(3);
  run_ranks(3, [&](Communicator& comm) {
    const int rank = comm.rank();
    std::vector<std::byte> data(16), all(48);
    errors.expect(rank, WEIR_ERR_ARGUMENT,
                  "broadcast: rank 0 gives 16 bytes, and rank 2 gives 15: all ranks must give the same number",
                  [&] { comm.broadcast_raw(data.data(), rank == 2 ? 15 : 16); });
    errors.expect(rank, WEIR_ERR_ARGUMENT, "broadcast: root is 0 on rank 0, and 1 on rank 1: all ranks name the same",
                  [&] { comm.broadcast(data, rank == 1 ? 1 : 0); });
    errors.expect(rank, WEIR_ERR_ARGUMENT, "broadcast: rank 1: root is 3: it must be a rank, 0 to 2",
                  [&] { comm.broadcast(data, rank == 1 ? 3 : 0); });
    errors.expect(rank, WEIR_ERR_ARGUMENT, "broadcast: rank 2: the data is a null pointer",
                  [&] { comm.broadcast_raw(rank == 2 ? nullptr : data.data(), 16); });
    errors.expect(rank, WEIR_ERR_ARGUMENT,
                  "broadcast: rank 0: there are -1 bytes: it takes 0 to 1048576; larger arrays are for plans",
                  [&] { comm.broadcast_raw(data.data(), rank == 0 ? -1 : 16); });
    errors.expect(rank, WEIR_ERR_ARGUMENT, "allgather: rank 1: there is room for 47 bytes: 3 ranks give 16 each",
                  [&] { comm.allgather(data, std::span(all).first(rank == 1 ? 47u : 48u)); });
    comm.broadcast(data);
    comm.allgather(data, all);
  });
  REQUIRE(errors.failure() == "");
}

}  // namespace weir::test
