// iteration.hpp: where an iteration of fused tensors is, and what takes it on.
#pragma once

#include <array>
#include <cstdint>

namespace weir::fusion {

enum class IterationState : std::uint8_t {
  idle,    ///< between iterations
  failed,  ///< between iterations, after an error that a wait has thrown: other waits of that iteration return at once
  open,    ///< gradients come
  closed,  ///< somebody waits: no more gradients come
  broken   ///< an exchange broke off: nothing goes on
};

enum class IterationEvent : std::uint8_t {
  gradient,   ///< a gradient, or a wait that closes the iteration at once
  close,      ///< a wait
  end,        ///< all exchanges have ended, and ranks have agreed
  fail,       ///< likewise, and a wait has thrown the error
  forget,     ///< wait_all(): there is no other wait of the failed iteration
  break_off,  ///< an exchange broke off
};

class Iteration {
 public:
  void on(IterationEvent event) { state_ = next[static_cast<std::size_t>(state_)][static_cast<std::size_t>(event)]; }
  [[nodiscard]] bool is(IterationState state) const { return state_ == state; }
  /// Whether gradients are held.
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
