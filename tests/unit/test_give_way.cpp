// Tests when a waiting thread yields, and when it sleeps.
#include "base/give_way.hpp"
#include "support/catch.hpp"

namespace weir {
namespace {

using std::chrono::microseconds;

int calls_without_yield(Yielding& yielding) {
  int calls = 0;
  while (!yielding.should_yield()) ++calls;
  return calls;
}

}  // namespace

TEST_CASE("so many slow yields in a row make the next 100 calls sleep, and each one after that twice as many") {
  for (const int in_a_row : {1, 4}) {
    Yielding yielding(in_a_row);
    for (int i = 1; i < in_a_row; ++i) {
      yielding.note(microseconds(501));
      CHECK(yielding.should_yield());
    }
    for (const int pause : {100, 200, 400, 800, 1600, 3200, 6400, 6400}) {
      yielding.note(microseconds(501));
      CHECK(calls_without_yield(yielding) == pause);
    }
    yielding.note(microseconds(500));
    CHECK(yielding.should_yield());
    for (int i = 0; i < in_a_row; ++i) {
      CHECK(yielding.should_yield());
      yielding.note(microseconds(501));
    }
    CHECK(calls_without_yield(yielding) == 100);
  }
}

TEST_CASE("fast yields between slow ones never make a call sleep") {
  Yielding yielding(4);
  for (int i = 0; i < 100; ++i) {
    yielding.note(i % 4 == 3 ? microseconds(1) : microseconds(5000));
    CHECK(yielding.should_yield());
  }
}

}  // namespace weir
