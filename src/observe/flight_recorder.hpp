// flight_recorder.hpp: the last runs of a communicator, kept for when something goes wrong. Always on: a run costs a few copies.
//
// The dump is JSON with the keys of PyTorch's flight recorder, and more under "weir". A plan or table call is a process group
// there, and the number of its run the sequence number: runs of different plans may come in any order on different ranks.
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

  std::int64_t id = 0;             ///< runs so far, this one included
  std::array<char, 48> name{};     ///< of the plan or table call
  std::array<char, 24> what{};     ///< the algorithm
  std::array<char, 12> element{};  ///< type
  int tag = 0, call = 0;
  std::int64_t number = 0;  ///< of runs of this plan or table call so far
  std::int64_t count = 0;   ///< elements
  CallState state = CallState::created;
  std::string_view stage{};  ///< failed: where
  weir_status status = WEIR_OK;
  Time created{}, started{}, finished{};  ///< the call; its first message; its end
  std::int64_t bytes_sent = 0, bytes_received = 0;
  int awaited_rank = -1;         ///< whom this rank waited for longest at a stretch
  double awaited_seconds = 0;    ///< for how long
  const RunInfo* run = nullptr;  ///< as long as it is in flight
};

/// Belongs to one thread at a time, as its communicator. It must hear of every run.
class FlightRecorder final : public Observer {
 public:
  static constexpr std::int64_t capacity = 2048;
  FlightRecorder() : records_(static_cast<std::size_t>(capacity)) {}

  /// Whose runs these are, and where reports go: to a file in settings.dump, unless that is empty. The settings outlive it.
  void identify(const Identity& identity, const Settings& settings);

  [[nodiscard]] bool hears_details() const noexcept override { return false; }
  void begin(const RunInfo& run) noexcept override;
  void end(const RunInfo& run) noexcept override;
  /// A file that cannot be written is a warning. One break brings others, and the first report says most: others within a second
  /// are dropped.
  void report(std::string_view why, std::string_view in_flight) noexcept override;

  /// Runs so far, also those that are no longer kept.
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
