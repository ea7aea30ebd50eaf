// sample_cache: trains on images of a slow store, which Weir's sample cache reads once. A Weir plan averages the gradients.
#include <cblas.h>
#include <mpi.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <weir/datacache.hpp>

#include "image_store.hpp"
#include "network.hpp"

namespace {

using namespace sample_cache;

struct Options {
  std::string store, folder, csv;
  std::int64_t make = 0, batch = 32;
  int epochs = 3;
  bool without_cache = false;
};

/// Has as many samples as the store, but empty. A loader over them says which rank works on which sample, and reads no image.
class Numbers final : public weir::SampleSource {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t value_bytes() const override { return 1; }
  [[nodiscard]] std::string identity() const override { return "numbers"; }
  void read(std::int64_t /*first*/, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
    encoded.resize(static_cast<std::size_t>(count));
    std::ranges::fill(sizes, 1);
  }

 private:
  std::int64_t size_;
};

/// Reads and decodes a batch without the cache, one image after the other.
std::span<const std::byte> read_batch(ImageStore& store, std::span<const std::int64_t> samples, std::vector<std::byte>& values) {
  const auto bytes = static_cast<std::size_t>(store.value_bytes());
  values.resize(samples.size() * bytes);
  std::vector<std::byte> encoded;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    encoded.clear();
    store.read(samples[i], 1, encoded, {&size, 1});
    store.decode(samples[i], encoded, std::span(values).subspan(i * bytes, bytes));
  }
  return values;
}

/// Reports progress on rank 0: a line for each epoch, a line rewritten in place on a terminal, and a row of CSV for each step.
class Report {
 public:
  Report(int rank, const Options& options, std::int64_t samples) : rank_(rank), samples_(samples) {
    if (rank != 0 || options.csv.empty()) return;
    csv_.open(options.csv);
    if (!csv_) throw std::runtime_error("cannot write " + options.csv);
    csv_ << "seconds,epoch,samples,loss\n";
  }

  /// Collective. Adds what this rank has done in a step.
  void on_step(std::int64_t epoch, std::size_t samples, const Score& score, double waited) {
    std::array<double, 4> step{static_cast<double>(samples), score.loss, score.right, waited};
    MPI_Allreduce(MPI_IN_PLACE, step.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < step.size(); ++i) sums_[i] += step[i];
    if (rank_ != 0) return;
    const double now = MPI_Wtime() - begin_;
    if (csv_.is_open()) csv_ << now << ',' << epoch << ',' << step[0] << ',' << step[1] / step[0] << '\n';
    if (isatty(STDERR_FILENO) == 1)
      std::fprintf(stderr, "\repoch %lld: %.0f of %lld images, %.0f/s, loss %.3f ", static_cast<long long>(epoch + 1), sums_[0],
                   static_cast<long long>(samples_), sums_[0] / (now - epoch_begin_), sums_[1] / sums_[0]);
  }

  /// Collective.
  void on_epoch(std::int64_t epoch) {
    MPI_Allreduce(MPI_IN_PLACE, &sums_[3], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double now = MPI_Wtime() - begin_;
    if (rank_ == 0)
      std::printf("%sepoch %lld: %.0f images/s, %.2f s, of which %.2f s waited for images, loss %.4f, %.1f %% right\n",
                  isatty(STDERR_FILENO) == 1 ? "\n" : "", static_cast<long long>(epoch + 1), sums_[0] / (now - epoch_begin_),
                  now - epoch_begin_, sums_[3], sums_[1] / sums_[0], 100 * sums_[2] / sums_[0]);
    std::fflush(stdout);
    epoch_begin_ = now;
    sums_ = {};
  }

 private:
  int rank_;
  std::int64_t samples_;
  std::ofstream csv_;
  double begin_ = MPI_Wtime(), epoch_begin_ = 0;
  std::array<double, 4> sums_{};  // over the epoch: images, loss, images classified correctly, seconds that this rank waited
};

void train(const Options& options) {
  const weir::Communicator comm(MPI_COMM_WORLD);
  const auto store = std::make_shared<ImageStore>(options.store);
  std::shared_ptr<weir::SampleSource> source = store;
  if (options.without_cache) source = std::make_shared<Numbers>(store->size());
  weir::SampleCache cache(
      comm,
      {.folder = options.without_cache ? "" : options.folder, .largest_batch = options.batch, .pack_samples = 8, .name = "images"},
      source);
  weir::SampleLoader loader(cache, {.batch = options.batch, .seed = 1, .progress = weir::ProgressDisplay::off});

  Network network(store->pixels(), 64, ImageStore::classes);
  std::vector<float> parameters = network.initial_parameters(), gradient(parameters.size());
  weir::AllreduceConfig config;
  config.count = std::ssize(parameters);
  config.density = 0.02;
  config.name = "gradient";
  weir::AllreducePlan plan(comm, config);

  std::vector<std::byte> read;
  Report report(comm.rank(), options, store->size());
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    for (;;) {
      const double begin = MPI_Wtime();
      const std::optional<weir::SampleBatch> batch = loader.next();
      if (!batch) break;
      const std::span<const std::byte> images = options.without_cache ? read_batch(*store, batch->samples, read) : batch->values;
      const double waited = MPI_Wtime() - begin;

      const float rate = 0.01F / static_cast<float>(options.batch);
      const Score score = network.learn(parameters, images, rate, gradient);
      plan.run_sparse(gradient);
      const auto update = plan.sparse_result<float>();
      for (std::size_t i = 0; i < update.indices.size(); ++i) parameters[update.indices[i]] -= update.values[i];
      report.on_step(epoch, batch->samples.size(), score, waited);
    }
    report.on_epoch(epoch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains on images of a slow store, with and without Weir's sample cache. Start it with mpirun.");
  app.add_option("--store", options.store, "folder of images, or http://HOST:PORT of a server that has it")->required();
  app.add_option("--make", options.make, "do not train: write as many made-up images into the folder")->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder,
                 "of each node's own storage, where later runs find what this one has read (default: none)");
  app.add_flag("--without-cache", options.without_cache, "each rank reads its images by itself: the same ones in the same order");
  app.add_option("--epochs", options.epochs, "passes over the images")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", options.batch, "images per rank and step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--csv", options.csv, "where rank 0 writes when each step ended");
  CLI11_PARSE(app, argc, argv);
  openblas_set_num_threads(1);  // the ranks already use all cores
  try {
    if (options.make > 0) {
      ImageStore::make(options.store, options.make);
      return 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sample_cache: %s\n", error.what());
    return 1;
  }
  MPI_Init(&argc, &argv);
  try {
    train(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sample_cache: %s\n", error.what());
    // The other ranks may wait for this one in a collective call, so all must end.
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
