#include "cli/checkpoint_files.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <variant>

#include "base/standard_error.hpp"

namespace weir::cli {

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto scaled = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; scaled >= 999.5 && unit + 1 < units.size(); ++unit) scaled /= 1000;
  return fmt::format("{:.{}f} {}", scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, units[unit]);
}

std::string text_of(const checkpoint::Value& value) {
  return std::visit(
      [](const auto& x) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, std::string>)
          return fmt::format("'{}'", x);
        else
          return fmt::format("{}", x);
      },
      value);
}

JsonValue values_json(const checkpoint::Values& values) {
  JsonValue json = JsonValue::object();
  for (const auto& [name, value] : values) json.set(name, std::visit([](const auto& x) { return JsonValue(x); }, value));
  return json;
}

std::string_view share_name(Share share) {
  constexpr std::array<std::string_view, 6> names = {"each", "agreed", "layout", "summed", "block", "cuts"};
  return names.at(static_cast<std::size_t>(share));
}

std::int64_t stored_bytes(const checkpoint::Dataset& dataset) {
  if (!dataset.chunked) return static_cast<std::int64_t>(dataset.values.size());
  std::int64_t bytes = 0;
  for (const checkpoint::Chunk& chunk : dataset.chunks) bytes += chunk.bytes;
  return bytes;
}

std::int64_t element_bytes_of(const checkpoint::Dataset& dataset) {
  std::int64_t elements = 0;
  for (const checkpoint::Piece& piece : dataset.pieces) elements += std::max<std::int64_t>(0, piece.count);
  return elements * dataset.element_bytes();
}

std::int64_t array_bytes(const checkpoint::Index& index) {
  std::int64_t bytes = 0;
  for (const checkpoint::Subject& subject : index.subjects) {
    for (const checkpoint::Dataset& dataset : subject.datasets) bytes += dataset.chunked ? stored_bytes(dataset) : 0;
  }
  return bytes;
}

ByteProgress::ByteProgress(std::string what, std::int64_t total)
    : what_(std::move(what)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}

ByteProgress::~ByteProgress() {
  if (shown_) print_error("\r{:78}\r", "");
}

void ByteProgress::at(std::int64_t done) {
  constexpr std::int64_t width = 24;
  const Clock::time_point now = Clock::now();
  if (!terminal_ || total_ <= 0 || now - began_ < std::chrono::milliseconds(500) ||
      (shown_ && now - last_ < std::chrono::milliseconds(100)))
    return;
  const std::int64_t filled = std::min(width, done * width / total_);
  const double seconds = std::chrono::duration<double>(now - began_).count();
  print_error("\r{} {:#<{}}{:.<{}} {:3} %  {:>8}/s ", what_, "", filled, "", width - filled,
              std::min<std::int64_t>(100, done * 100 / total_),
              format_bytes(static_cast<std::int64_t>(static_cast<double>(done) / seconds)));
  std::fflush(stderr);
  shown_ = true;
  last_ = now;
}

void write_json_file(const JsonValue& json, const std::string& file) {
  if (file == "-")
    fmt::print("{}\n", json.text());
  else
    write_json(json, file);
}

}  // namespace weir::cli
