// What an engine notes of its runs: for dumps, the flight recorder and traces.
#include <algorithm>

#include "async/engine.hpp"
#include "async/stage_scope.hpp"
#include "base/error.hpp"

namespace weir {
namespace {

/// "exchange/split_reduce"
std::string path_of(const StageScope* stage) {
  if (stage == nullptr) return std::string(stage_name(Stage::none));
  const std::string outer = stage->outer() != nullptr ? path_of(stage->outer()) + "/" : "";
  return outer + std::string(stage_name(stage->stage()));
}

}  // namespace

void StageScope::end() noexcept {
  if (stage_ == Stage::none) return;
  const Clock::time_point now = Clock::now();
  cuda::end_range(range_);
  run_.stage = outer_;
  run_.seconds[static_cast<std::size_t>(stage_)] += std::chrono::duration<double>(now - begin_).count();
  if (run_.failed_in == Stage::none && std::uncaught_exceptions() > 0) run_.failed_in = stage_;
  if (Tracer* const tracer = engine_.tracer()) tracer->stage(run_.trace_row, stage_, begin_, now);
  stage_ = Stage::none;
}

/// Writes the dump. Runs go on even if that fails.
void Engine::dump_to_file(std::string_view why) const noexcept {
  try {
    if (dump_to_file_) dump_to_file_(why);
  } catch (...) {  // no memory for it, and no folder: nothing is left to say so with
  }
}

void Engine::record_start(Run& run) noexcept {
  run.stage = nullptr;
  run.failed_in = Stage::none;
  run.seconds = {};
  run.begun = run.counted;
  run.first_message = {};
  run.awaits_seconds = run.awaited_seconds = 0;
  run.awaited_rank = -1;
  CallRecord& record = recorder_.begin();
  run.record = record.id;
  run.name.copy(record.name.data(), record.name.size() - 1);
  run.what.copy(record.what.data(), record.what.size() - 1);
  run.element.copy(record.element.data(), record.element.size() - 1);
  record.tag = run.tag;
  record.number = run.number;
  record.count = run.count;
  record.created = run.begun;
}

/// What is known of it so far goes into its record.
CallRecord* Engine::note_progress(const Run& run) noexcept {
  CallRecord* const record = recorder_.find(run.record);
  if (record == nullptr) return nullptr;
  if (run.first_message != Clock::time_point{}) record->state = CallState::started;
  record->started = run.first_message;
  record->stage = run.stage != nullptr ? run.stage->stage() : run.failed_in;
  if (run.traffic != nullptr) {
    record->bytes_sent = run.traffic->sent();
    record->bytes_received = run.traffic->received();
  }
  record->awaited_rank = run.awaited_rank;
  record->awaited_seconds = run.awaited_seconds;
  if (run.awaited_done >= run.awaited.size() || run.awaits_seconds <= run.awaited_seconds) return record;
  const Request request = run.awaited[run.awaited_done];
  if (request.slot < 0) return record;
  record->awaited_rank = transport_.peer(request);
  record->awaited_seconds = run.awaits_seconds;
  return record;
}

void Engine::note_progress() noexcept {
  for (const Run* run : runs_) note_progress(*run);
}

void Engine::record_end(Run& run) noexcept {
  const Clock::time_point now = Clock::now();
  if (tracer_) tracer_->run(run.trace_row, run.number, run.begun, now, run.error != nullptr);
  CallRecord* const record = note_progress(run);
  if (record == nullptr) return;
  record->state = run.error ? CallState::failed : CallState::completed;
  record->finished = now;
  if (!run.error) return;
  try {
    std::rethrow_exception(run.error);
  } catch (const Error& error) {
    record->status = error.status();
  } catch (...) {
    record->status = WEIR_ERR_INTERNAL;
  }
}

/// The request that the run has waited for is done; `peer` was its other end.
void Engine::note_wait(Run& run, int peer) noexcept {
  if (peer >= 0 && run.awaits_seconds > run.awaited_seconds) {
    run.awaited_seconds = run.awaits_seconds;
    run.awaited_rank = peer;
  }
  run.awaits_seconds = 0;
}

std::string Engine::dump() const {
  std::string text;
  for (const Run* run : runs_) {
    text += fmt::format("  {}, run {}: {}; awaits", run->name, run->number, path_of(run->stage));
    if (run->gate != nullptr) text += fmt::format(" '{}'", run->gate_keeper->name);
    if (run->completion != nullptr) text += " the GPU";
    for (const Request request : run->awaited.subspan(std::min(run->awaited_done, run->awaited.size()))) {
      if (request.slot >= 0) text += fmt::format(" [{}]", transport_.describe(request));
    }
    text += '\n';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace weir
