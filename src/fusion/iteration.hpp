// iteration.hpp: the state of an iteration of fused tensors, and the events that change it.
#pragma once

#include <array>
#include <cstdint>

namespace weir::fusion {

enum class IterationState : std::uint8_t {
  idle,    ///< between iterations
  failed,  ///< between iterations, after a wait has thrown an error: other waits of that iteration return at once
  open,    ///< gradients come
  closed,  ///< a wait has begun: no more gradients come
  broken   ///< an exchange broke off: the object cannot be used any more
};

enum class IterationEvent : std::uint8_t {
  gradient,   ///< a gradient, or a wait that closes the iteration at once
  close,      ///< a wait
  end,        ///< all exchanges have ended, and ranks have agreed
  fail,       ///< as end, and a wait has thrown the error
  forget,     ///< wait_all(): no other wait of the failed iteration will come
  break_off,  ///< an exchange broke off
};

class Iteration {
 public:
  void on(IterationEvent event) { state_ = next[static_cast<std::size_t>(state_)][static_cast<std::size_t>(event)]; }
  [[nodiscard]] bool is(IterationState state) const { return state_ == state; }
  /// Returns true if gradients are held.
  [[nodiscard]] bool in_progress() const { return state_ >= IterationState::open; }

 private:
  using enum IterationState;
  // clang-format off
  static constexpr std::array<std::array<IterationState, 6>, 5> next = {{
      //          gradient  close   end     fail    forget  break_off
      /* idle */   {open,   idle,   idle,   idle,   idle,   broken},
      /* failed */ {open,   failed, failed, failed, idle,   broken},
      /* open */   {open,   closed, open,   open,   open,   broken},
      /* closed */ {closed, closed, idle,   failed, closed, broken},
      /* broken */ {broken, broken, broken, broken, broken, broken}}};
  // clang-format on

  IterationState state_ = idle;
};

}  // namespace weir::fusion
