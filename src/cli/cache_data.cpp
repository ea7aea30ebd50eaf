// weir cache check: checks that every sample of a data set can be read.
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
#include "cli/commands.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string path;  ///< a folder of JPEG files, or a file
  std::string dataset, labels;
  int threads = 0;  ///< 0: one for each core
};

constexpr int side = 224;  // image size of most trainings

bool begins_with(const std::string& path, std::string_view magic) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(magic.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == magic;
}

std::shared_ptr<SampleSource> source_of(const Options& options) {
  if (std::filesystem::is_directory(options.path)) return jpeg_source(options.path, side, side);
  if (!std::filesystem::exists(options.path)) give_up("there is no '{}'", options.path);
  if (const std::string wrong = why_no_regular_file(options.path); !wrong.empty())
    give_up("'{}' cannot be read: {}", options.path, wrong);
  if (begins_with(options.path, "\x93NUMPY")) return npy_source(options.path, options.labels);
  if (!options.dataset.empty()) return hdf5_source(options.path, options.dataset, options.labels);
  if (begins_with(options.path, "\x89HDF\r\n")) give_up("'{}' is an HDF5 file: name the data set in it by --dataset", options.path);
  return idx_source(options.path, options.labels);
}

/// Checks samples with several threads, each of which takes the next run of samples.
class Checker {
 public:
  explicit Checker(SampleSource& source) : source_(source) {}

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

void run(const Options& options) {
  const std::shared_ptr<SampleSource> source = source_of(options);
  if (source->size() == 0) give_up("'{}' has no samples", options.path);
  Checker checker(*source);
  std::vector<std::thread> threads;
  const unsigned count =
      options.threads > 0 ? static_cast<unsigned>(options.threads) : std::max(1U, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&] { checker.run(); });
  const bool shows = isatty(STDERR_FILENO) == 1;
  while (shows && checker.done() < source->size()) {
    print_error("\r{} of {} samples", checker.done(), source->size());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  for (std::thread& thread : threads) thread.join();
  if (shows) print_error("\r{} of {} samples\n", source->size(), source->size());
  if (checker.lost() == 0)
    fmt::print("{}: all {} samples can be had\n", options.path, source->size());
  else
    fmt::print("{}: {} of {} samples cannot be had\n", options.path, checker.lost(), source->size());
  end_with(checker.lost() == 0 ? 0 : 1);
}

}  // namespace

void add_cache_check(Command& group) {
  auto [command, options] = group.add("check", "Read and decode every sample of a data set, as training would", run);
  command.footer(
      "The data set is a folder of JPEG files in subfolders, or a file in the IDX, NumPy or HDF5 format. "
      "The command prints a line for each sample that cannot be read. "
      "Training would end the epoch at such a sample, or skip it.");
  command.option("data", options.path, "folder or file of the data set").required();
  command.option("--dataset", options.dataset, "data set of an HDF5 file");
  command.option("--labels", options.labels, "file, or data set of the HDF5 file, with labels");
  command.option("--threads", options.threads, "threads that read and decode; 0: one for each core").non_negative();
  command.examples({"weir cache check /data/train"});
}

}  // namespace weir::cli
