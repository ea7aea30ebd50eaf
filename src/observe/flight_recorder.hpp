// flight_recorder.hpp: the last runs of a communicator, kept for when something goes wrong. Always on: a run costs a few copies.
//
// The dump is JSON with the keys of PyTorch's flight recorder, and more under "weir". A plan or table call appears there as a
// process group, and the number of its run as the sequence number: runs of different plans may come in any order on different
// ranks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include <weir/observer.hpp>

#include "base/settings.hpp"
#include "observe/identity.hpp"

namespace weir {

enum class CallState : std::uint8_t { created, started, completed, failed };

struct CallRecord {
  using Time = RunInfo::Time;

  std::int64_t id = 0;             ///< its number among all runs, from 1 on
  std::array<char, 48> name{};     ///< of the plan or table call
  std::array<char, 24> what{};     ///< the algorithm
  std::array<char, 12> element{};  ///< type
  int tag = 0, call = 0;
  std::int64_t number = 0;  ///< number of runs of this plan or table call so far
  std::int64_t count = 0;   ///< elements
  CallState state = CallState::created;
  std::string_view stage{};  ///< if failed: the stage it failed in
  weir_status status = WEIR_OK;
  Time created{}, started{}, finished{};  ///< begin of the call, RunInfo::first_message, its end
  std::int64_t bytes_sent = 0, bytes_received = 0;
  int awaited_rank = -1;         ///< the rank that this rank waited for longest without a break
  double awaited_seconds = 0;    ///< how long it did
  const RunInfo* run = nullptr;  ///< while it is in flight
};

/// Records runs. Belongs to one thread at a time, as its communicator does. It must receive every run.
class FlightRecorder final : public Observer {
 public:
  static constexpr std::int64_t capacity = 2048;
  FlightRecorder() : records_(static_cast<std::size_t>(capacity)) {}

  /// Sets the communicator's identity, and settings.dump, the folder for reports; empty: no reports. The settings must outlive it.
  void identify(const Identity& identity, const Settings& settings);

  [[nodiscard]] bool wants_details() const noexcept override { return false; }
  void begin(const RunInfo& run) noexcept override;
  void end(const RunInfo& run) noexcept override;
  /// Writes a report. A file that cannot be written is a warning. One failure causes others, and the first report says most: others
  /// within a second are dropped.
  void report(std::string_view why, std::string_view in_flight) noexcept override;

  /// Returns the number of runs so far, those no longer kept included.
  [[nodiscard]] std::int64_t runs() const noexcept { return runs_; }
  /// Returns how many runs are kept.
  [[nodiscard]] std::int64_t kept() const noexcept { return runs_ < capacity ? runs_ : capacity; }
  /// Returns the kept record number `index`, the oldest first.
  [[nodiscard]] CallRecord at(std::int64_t index) const noexcept;

  /// Writes the dump. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  void write(const std::string& path, std::string_view why, std::string_view in_flight) const;

 private:
  [[nodiscard]] std::string to_json(std::string_view why, std::string_view in_flight) const;

  std::vector<CallRecord> records_;
  std::int64_t runs_ = 0;
  Identity identity_;
  const Settings* settings_ = nullptr;  // null: not identified yet
  Time reported_{};
};

}  // namespace weir
