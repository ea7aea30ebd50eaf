// flight_recorder.hpp: the last calls of a communicator, kept for when something goes wrong. Always on: a call costs two copies of
// names and a few numbers.
//
// The dump is JSON with the keys of PyTorch's flight recorder, and more under "weir". A plan or table call is a process group
// there, and the number of its run the sequence number: runs of different plans may come in any order on different ranks.
#pragma once

#include <weir/status.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "async/identity.hpp"
#include "async/stage.hpp"

namespace weir {

enum class CallState : std::uint8_t { created, started, completed, failed };

struct CallRecord {
  using Time = std::chrono::steady_clock::time_point;

  std::int64_t id = 0;             ///< calls so far, this one included
  std::array<char, 48> name{};     ///< of the plan or table call
  std::array<char, 24> what{};     ///< the algorithm
  std::array<char, 12> element{};  ///< type
  int tag = 0;
  std::int64_t number = 0;  ///< of runs of this plan or table call so far
  std::int64_t count = 0;   ///< elements
  CallState state = CallState::created;
  Stage stage = Stage::none;  ///< failed: where
  weir_status status = WEIR_OK;
  Time created{}, started{}, finished{};  ///< the call; its first message; its end
  std::int64_t bytes_sent = 0, bytes_received = 0;
  int awaited_rank = -1;       ///< whom this rank waited for longest at a stretch
  double awaited_seconds = 0;  ///< for how long
};

/// Belongs to one thread at a time, as its communicator.
class FlightRecorder {
 public:
  static constexpr std::int64_t capacity = 2048;
  FlightRecorder() : records_(static_cast<std::size_t>(capacity)) {}

  /// A fresh record, which replaces the oldest.
  CallRecord& begin() noexcept {
    CallRecord& record = records_[static_cast<std::size_t>(calls_ % capacity)];
    record = {};
    record.id = ++calls_;
    return record;
  }
  /// The record of call `id`, unless it has been replaced.
  [[nodiscard]] CallRecord* find(std::int64_t id) noexcept {
    CallRecord& record = records_[static_cast<std::size_t>((id - 1) % capacity)];
    return id > 0 && record.id == id ? &record : nullptr;
  }
  /// Calls so far, also those that are no longer kept.
  [[nodiscard]] std::int64_t calls() const noexcept { return calls_; }
  /// Returns how many calls are kept.
  [[nodiscard]] std::int64_t kept() const noexcept { return calls_ < capacity ? calls_ : capacity; }
  /// Returns the kept record number `index`, the oldest first.
  [[nodiscard]] const CallRecord& at(std::int64_t index) const noexcept {
    return records_[static_cast<std::size_t>((calls_ - kept() + index) % capacity)];
  }

  /// Returns the dump. `in_flight` says, as text, what every call in flight waits for.
  [[nodiscard]] std::string to_json(const Identity& identity, std::string_view why, std::string_view in_flight,
                                    double timeout_seconds) const;

 private:
  std::vector<CallRecord> records_;
  std::int64_t calls_ = 0;
};

/// From now on this process counts that signal. Other handlers of it are replaced.
void count_signal(int signal);
/// How often it has come.
[[nodiscard]] int signals_so_far() noexcept;

/// Writes `text` to `path`, by way of a file beside it, so that the file is whole or as it was. Folders are made. Throws
/// Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
void write_whole_file(const std::string& path, std::string_view text);

}  // namespace weir
