#include "cli/cache_data.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>
#include <weir/datacache.hpp>

#include "base/regular_file.hpp"
#include "base/standard_error.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

constexpr int side = 224;  // image size of most trainings

bool begins_with(const std::string& path, std::string_view magic) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(magic.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == magic;
}

std::shared_ptr<SampleSource> source_of(const DataToCheck& data) {
  if (std::filesystem::is_directory(data.path)) return jpeg_source(data.path, side, side);
  if (!std::filesystem::exists(data.path)) give_up("there is no '{}'", data.path);
  if (const std::string wrong = why_no_regular_file(data.path); !wrong.empty())
    give_up("'{}' cannot be read: {}", data.path, wrong);
  if (begins_with(data.path, "\x93NUMPY")) return npy_source(data.path, data.labels);
  if (!data.dataset.empty()) return hdf5_source(data.path, data.dataset, data.labels);
  if (begins_with(data.path, "\x89HDF\r\n")) give_up("'{}' is an HDF5 file: name the data set in it by --dataset", data.path);
  return idx_source(data.path, data.labels);
}

/// Checks samples with several threads, each of which takes the next run of samples.
class Check {
 public:
  explicit Check(SampleSource& source) : source_(source) {}

  /// Runs until all samples are checked.
  void run() {
    constexpr std::int64_t at_once = 64;
    std::vector<std::byte> value(static_cast<std::size_t>(source_.value_bytes()));
    for (std::int64_t first; (first = next_.fetch_add(at_once)) < source_.size();) {
      for (std::int64_t sample = first; sample < std::min(first + at_once, source_.size()); ++sample) look_at(sample, value);
      done_ += at_once;
    }
  }
  [[nodiscard]] std::int64_t done() const { return std::min(done_.load(), source_.size()); }
  [[nodiscard]] std::int64_t lost() const { return lost_; }

 private:
  void look_at(std::int64_t sample, std::span<std::byte> value) {
    try {
      std::vector<std::byte> encoded;
      std::int64_t size = 0;
      source_.read(sample, 1, encoded, std::span(&size, 1));
      source_.decode(sample, encoded, value);
    } catch (const std::exception& error) {
      ++lost_;
      const std::scoped_lock lock(printing_);
      fmt::print("sample {}: {}\n", sample, error.what());
    }
  }

  SampleSource& source_;
  std::atomic<std::int64_t> next_{0}, done_{0}, lost_{0};
  std::mutex printing_;
};

}  // namespace

int check_data(const DataToCheck& data) {
  const std::shared_ptr<SampleSource> source = source_of(data);
  if (source->size() == 0) give_up("'{}' has no samples", data.path);
  Check check(*source);
  std::vector<std::thread> threads;
  const unsigned count = data.threads > 0 ? static_cast<unsigned>(data.threads) : std::max(1U, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&] { check.run(); });
  const bool shows = isatty(STDERR_FILENO) == 1;
  while (shows && check.done() < source->size()) {
    print_error("\r{} of {} samples", check.done(), source->size());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  for (std::thread& thread : threads) thread.join();
  if (shows) print_error("\r{} of {} samples\n", source->size(), source->size());
  if (check.lost() == 0)
    fmt::print("{}: all {} samples can be had\n", data.path, source->size());
  else
    fmt::print("{}: {} of {} samples cannot be had\n", data.path, check.lost(), source->size());
  return check.lost() == 0 ? 0 : 1;
}

}  // namespace weir::cli
