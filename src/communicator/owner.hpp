// owner.hpp: what public classes own: how they enter their communicator, and how what they own ends.
#pragma once

#include <memory>
#include <utility>
#include <weir/weir.hpp>

#include "base/keep.hpp"
#include "communicator/asynchronous_call.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {

/// Returns the communicator of a state: its member `comm`, or what communicator() returns.
template <class Impl>
[[nodiscard]] const std::shared_ptr<CommunicatorState>& communicator_of(const Impl& state) {
  if constexpr (requires { state.comm; })
    return state.comm;
  else
    return state.communicator();
}

/// Access to a state inside its communicator: a progress thread touches nothing of it until this is destroyed.
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
/// Enters until the end of the expression, or while the result lives. Public functions reach their state in this way.
template <class Impl>
[[nodiscard]] Entered<Impl> enter(const Owner<Impl>& owner) {
  return Entered<Impl>(**owner);
}
/// Returns the state without entering, beside a progress thread: for what no run in flight changes, or what the caller may only ask
/// for after waiting.
template <class Impl>
[[nodiscard]] const Impl& unguarded(const Owner<Impl>& owner) {
  return **owner;
}

/// Ends a state. Finishes what is in flight, for the other ranks. Keeps memory that the network may still use.
template <class Impl>
void end_state(std::shared_ptr<Impl> state) noexcept {
  const std::shared_ptr<CommunicatorState> comm = communicator_of(*state);  // destroyed after the state, when no thread is inside
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

/// Makes what a public class owns from the shared pointer that `make` returns. Collective. Allocates nothing afterwards, because
/// ranks have agreed that it is made. `end`, which has no captures, receives the pointer when the owner is destroyed.
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
