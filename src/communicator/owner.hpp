// owner.hpp: what public classes own: how they enter their communicator, and how what they own ends.
#pragma once

#include <memory>
#include <utility>
#include <weir/weir.hpp>

#include "base/keep.hpp"
#include "communicator/asynchronous_call.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {

/// Returns the communicator that a state is of: its member `comm`, or what communicator() returns.
template <class Impl>
[[nodiscard]] const std::shared_ptr<CommunicatorState>& communicator_of(const Impl& state) {
  if constexpr (requires { state.comm; })
    return state.comm;
  else
    return state.communicator();
}

/// A state with nobody else inside its communicator: a progress thread leaves it alone as long as this lives.
template <class Impl>
class Entered {
 public:
  explicit Entered(Impl& state) : inside_(communicator_of(state)->enter()), state_(state) {}
  Impl* operator->() const { return &state_; }
  Impl& operator*() const { return state_; }

 private:
  ProgressThread::Inside inside_;
  Impl& state_;
};
/// Enters until the end of the expression, or for as long as the result lives. Public functions reach their state in this way.
template <class Impl>
[[nodiscard]] Entered<Impl> enter(const Owner<Impl>& owner) {
  return Entered<Impl>(**owner);
}
/// Reaches the state beside a progress thread: for what no run in flight changes, or what the caller may ask for only after
/// waiting.
template <class Impl>
[[nodiscard]] const Impl& unguarded(const Owner<Impl>& owner) {
  return **owner;
}

/// Ends a state: what is in flight is finished for the other ranks. Memory that the network may still use stays.
template <class Impl>
void end_state(std::shared_ptr<Impl> state) noexcept {
  const std::shared_ptr<CommunicatorState> comm = communicator_of(*state);  // ends after the state, with nobody inside
  const auto inside = comm->enter();
  bool ended = false;
  if constexpr (requires { state->retire(); })
    ended = state->retire();
  else
    ended = retire(*state);
  if (ended)
    state.reset();
  else
    keep_forever(std::move(state));
}

/// Collective. Makes what a public class owns, with a shared pointer that `make` returns. Allocates nothing after that: ranks have
/// agreed that it is made. `end`, without captures, takes the pointer over at its end.
template <class Make, class End>
[[nodiscard]] auto owned(const std::shared_ptr<CommunicatorState>& comm, Make make, End /*end*/) {
  using Impl = typename decltype(make())::element_type;
  return Owner<Impl>(comm->guarded(make), [](std::shared_ptr<Impl> state) noexcept { End()(std::move(state)); });
}
template <class Make>
[[nodiscard]] auto owned(const std::shared_ptr<CommunicatorState>& comm, Make make) {
  return owned(comm, make, [](auto state) { end_state(std::move(state)); });
}

}  // namespace weir::detail
