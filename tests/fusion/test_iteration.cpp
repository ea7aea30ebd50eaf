// test_iteration.cpp: tests the effect of each call in each state of an iteration.
#include <string>

#include "fusion/iteration.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using fusion::Iteration;
using fusion::IterationEvent;
using fusion::IterationState;

constexpr std::array all_states = {IterationState::idle, IterationState::failed, IterationState::open, IterationState::closed,
                                   IterationState::broken};

std::string path(std::initializer_list<IterationEvent> events) {
  Iteration iteration;
  std::string states;
  for (const IterationEvent event : events) {
    iteration.on(event);
    for (const IterationState state : all_states)
      if (iteration.is(state)) states += "ifocb"[static_cast<std::size_t>(state)];
  }
  return states;
}

}  // namespace

TEST_CASE("an iteration goes from its first gradient to its end, and a failed one until somebody begins another") {
  using enum IterationEvent;
  REQUIRE(path({gradient, gradient, close, gradient, end}) == "oocci");
  REQUIRE(path({gradient, close, fail, close, forget}) == "ocffi");
  REQUIRE(path({gradient, close, fail, gradient, forget, close, end}) == "ocfooci");
  REQUIRE(path({forget, end, close}) == "iii");
  REQUIRE(path({gradient, break_off, gradient, close, end, fail, forget}) == "obbbbbb");
}

TEST_CASE("gradients are held while an iteration is in progress, also where it broke") {
  Iteration iteration;
  REQUIRE_FALSE(iteration.in_progress());
  for (const IterationEvent event : {IterationEvent::gradient, IterationEvent::close, IterationEvent::break_off}) {
    iteration.on(event);
    REQUIRE(iteration.in_progress());
  }
}

}  // namespace weir::test
