// stage_scope.hpp: a stage of a run is a block of code. The code that does the work opens it, and
// reports it to observers here.
#pragma once

#include "async/engine.hpp"
#include "async/stage.hpp"
#include "cuda/ranges.hpp"

namespace weir {

/// A stage that lasts from here to the end of the block, or until this object's next stage. Stages nest as blocks do.
class StageScope {
 public:
  StageScope(Engine& engine, Run& run, Stage stage) noexcept : engine_(engine), run_(run) { open(stage); }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  ~StageScope() { end(); }

  void next(Stage stage) noexcept { open(stage, end()); }
  /// Returns when, or no time if this stage is not timed.
  Clock::time_point end() noexcept;

  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  /// Returns the stage around this one, or null.
  [[nodiscard]] const StageScope* outer() const noexcept { return outer_; }

 private:
  /// `now`: the time, if it is known.
  void open(Stage stage, Clock::time_point now = {}) noexcept {
    stage_ = stage;
    outer_ = run_.innermost;
    run_.innermost = this;
    run_.stage = stage_name(stage);
    timed_ = is_statistic(stage) || !engine_.detail_observers().empty();
    if (timed_) begin_ = now != Clock::time_point{} ? now : Clock::now();
    range_ = cuda::begin_range(stage_name(stage).data());
  }

  Engine& engine_;
  Run& run_;
  Stage stage_ = Stage::none;
  const StageScope* outer_ = nullptr;
  bool timed_ = false;  // reading the clock is a good part of a small run
  Clock::time_point begin_;
  std::uint64_t range_ = 0;  // of a profiler
};

}  // namespace weir
