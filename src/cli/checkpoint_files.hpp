// checkpoint_files.hpp: shared by the subcommands of `weir checkpoint`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/layout.hpp"
#include "cli/report.hpp"

namespace weir::cli {

/// Exit statuses of `weir checkpoint`.
inline constexpr int status_damaged = 1, status_different = 1;

/// Returns for example "6.41 MB": three digits and a decimal unit.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);
[[nodiscard]] std::string text_of(const checkpoint::Value& value);
/// Returns a rank's value of a small dataset, as text.
[[nodiscard]] std::string_view text_of(const checkpoint::Dataset& dataset, std::size_t rank);
[[nodiscard]] JsonValue values_json(const checkpoint::Values& values);
[[nodiscard]] inline std::string_view name_of(Share share) { return checkpoint::share_names.at(static_cast<std::size_t>(share)); }

/// Return the bytes that a dataset takes in the file, and in memory.
[[nodiscard]] std::int64_t stored_bytes(const checkpoint::Dataset& dataset);
[[nodiscard]] std::int64_t element_bytes_of(const checkpoint::Dataset& dataset);
/// Returns the bytes of all arrays, as stored.
[[nodiscard]] std::int64_t array_bytes(const checkpoint::Index& index);

/// A progress line on stderr with percent and rate, rewritten in place. Shown only on a terminal, and only if the work takes longer
/// than half a second.
class ByteProgress {
 public:
  ByteProgress(std::string what, std::int64_t total);
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;
  void at(std::int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  std::int64_t total_;
  bool terminal_, shown_ = false;
  Clock::time_point began_ = Clock::now(), last_ = began_;
};

/// Writes the JSON to a file, or to stdout for "-". Throws std::runtime_error naming the file.
void write_json_file(const JsonValue& json, const std::string& file);

// The subcommands. They return the exit status, and throw Error or std::runtime_error if they fail.
[[nodiscard]] int list_checkpoints(const std::string& folder, const std::string& json);
[[nodiscard]] int show_checkpoint(const std::string& file, const std::string& json);
[[nodiscard]] int verify_checkpoints(const std::vector<std::string>& paths, bool reseals);
[[nodiscard]] int diff_checkpoints(const std::string& a, const std::string& b);

struct Resharding {
  std::string in, out;
  int ranks = 0;
  int per_node = 0;  ///< 0: as on the fullest node of `in`
  bool force = false;
};
[[nodiscard]] int reshard_checkpoint(const Resharding& wanted);

}  // namespace weir::cli
