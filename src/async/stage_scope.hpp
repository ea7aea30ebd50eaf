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
  /// `now`: the time, if it is known.
  StageScope(Engine& engine, Run& run, Stage stage, Clock::time_point now = {}) noexcept : engine_(engine), run_(run) {
    open(stage, now);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  ~StageScope() {
    if (stage_ != Stage::none && run_.failed_in == Stage::none && std::uncaught_exceptions() > 0) run_.failed_in = stage_;
    end();
  }

  void next(Stage stage) noexcept {
    const bool adjoins = stage_ != Stage::none;
    end();
    open(stage, adjoins ? run_.boundary : Clock::time_point{});
  }
  /// Ends the stage before the block does. `now`: the time, if it is known.
  void end(Clock::time_point now = {}) noexcept {
    if (stage_ == Stage::none) return;
    if (range_ != 0) cuda::end_range(range_);
    run_.innermost = outer_;
    run_.stage = stage_name(outer_ != nullptr ? outer_->stage() : run_.failed_in);
    run_.boundary = timed_ ? ended(now) : Clock::time_point{};
    stage_ = Stage::none;
  }

  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  /// Returns when it began. The clock's epoch if it is not timed.
  [[nodiscard]] Clock::time_point begun() const noexcept { return begin_; }
  /// Returns the stage around this one, or null.
  [[nodiscard]] const StageScope* outer() const noexcept { return outer_; }

 private:
  /// Adds the stage to the run's times, and tells observers. Returns when it ended.
  Clock::time_point ended(Clock::time_point now) noexcept;
  void open(Stage stage, Clock::time_point now) noexcept {
    stage_ = stage;
    outer_ = run_.innermost;
    run_.innermost = this;
    run_.stage = stage_name(stage);
    timed_ = is_statistic(stage) || !engine_.detail_observers().empty();
    if (timed_ && now == Clock::time_point{}) now = Clock::now();
    begin_ = run_.boundary = timed_ ? now : Clock::time_point{};
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
