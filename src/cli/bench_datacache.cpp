// weir bench datacache: measures how long epochs wait for samples from a slow store, with and without a sample cache, and how fast
// samples come from the node's memory and from other nodes. Start it with mpirun.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <weir/datacache.hpp>

#include "base/error.hpp"
#include "base/host.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/slow_store.hpp"
#include "cli/temporary_folder.hpp"
#include "communicator/communicator.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string path;
  std::int64_t samples = 4096, sample_bytes = 27648, batch = 32, pack = 64;
  int epochs = 3, threads = 2, in_flight = 2;
  double compute_ms = 20;
  std::string folder;
  std::string json;
};

SampleCacheConfig config_of(const Options& options, const std::string& folder, const std::string& name) {
  return {.folder = folder,
          .largest_batch = options.batch,
          .in_flight = options.in_flight,
          .pack_samples = static_cast<int>(options.pack),
          .threads = options.threads,
          .name = name};
}

/// The ranks that take part: all ranks, or all but one if that one is the store.
struct Job {
  MPI_Comm ranks = MPI_COMM_NULL;
  int rank = 0, size = 1;
  std::shared_ptr<SampleSource> source;
};

/// Simulates a GPU's work, then gradients, for which ranks wait for each other. Meanwhile the program makes progress on what is in
/// flight.
void compute(const Communicator& comm, const Job& job, double ms) {
  const auto poll = [&] {
    const auto inside = comm.state()->enter();
    comm.state()->engine.poll();
  };
  const double end = MPI_Wtime() + ms * 1e-3;
  while (MPI_Wtime() < end) {
    poll();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  MPI_Request gradients = MPI_REQUEST_NULL;
  MPI_Ibarrier(job.ranks, &gradients);
  for (int there = 0; there == 0; MPI_Test(&gradients, &there, MPI_STATUS_IGNORE)) poll();
}

/// Checks a sample. Only the values of the synthetic store are known, not those of a file.
void check(const Options& options, std::int64_t sample, const std::byte* value) {
  if (!options.path.empty()) return;
  for (const std::int64_t i : {std::int64_t{0}, options.sample_bytes / 2, options.sample_bytes - 1})
    if (value[i] != stored_byte(sample * options.sample_bytes + i)) give_up("sample {} has a wrong byte {}", sample, i);
}

/// Returns 0 .. count - 1 in random order.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

/// The time and the volume of an epoch on this rank.
class Epoch {
 public:
  explicit Epoch(const Job& job) : job_(job) { MPI_Barrier(job.ranks); }

  /// Counts the time of `body` as I/O.
  template <class Body>
  void wait_for(Body body) {
    const double asked = MPI_Wtime();
    body();
    io_ += MPI_Wtime() - asked;
  }
  /// Returns the row: times of the slowest rank, bytes of all ranks.
  [[nodiscard]] JsonValue row(const Options& options, const std::string& run, int epoch, std::int64_t store_bytes) const {
    const double total = MPI_Wtime() - begin_;
    return {{"benchmark", "datacache"},
            {"run", run},
            {"epoch", epoch},
            {"ranks", job_.size},
            {"samples", options.samples},
            {"sample_bytes", options.sample_bytes},
            {"batch", options.batch},
            {"compute_ms", options.compute_ms},
            {"io_s", over_ranks(io_, MPI_MAX, job_.ranks)},
            {"epoch_s", over_ranks(total, MPI_MAX, job_.ranks)},
            {"store_bytes", over_ranks(store_bytes, MPI_SUM, job_.ranks)}};
  }

 private:
  const Job& job_;
  double begin_ = MPI_Wtime(), io_ = 0;
};

/// Every rank reads its batch from the store, sample by sample, before it computes.
JsonValue without_cache(const Communicator& comm, const Job& job, const Options& options, int number) {
  Epoch epoch(job);
  std::vector<std::byte> encoded, value(static_cast<std::size_t>(options.sample_bytes));
  std::array<std::int64_t, 1> size{};
  std::int64_t bytes = 0;
  // As in a global shuffle, any rank may need any sample.
  const std::vector<std::int64_t> order = shuffled(options.samples, static_cast<std::uint64_t>(number));
  for (std::int64_t at = 0; at < options.samples; at += job.size * options.batch) {
    epoch.wait_for([&] {
      for (std::int64_t i = at + job.rank * options.batch; i < std::min(at + (job.rank + 1) * options.batch, options.samples);
           ++i) {
        const std::int64_t sample = order[static_cast<std::size_t>(i)];
        encoded.clear();
        job.source->read(sample, 1, encoded, size);
        job.source->decode(sample, encoded, value);
        check(options, sample, value.data());
        bytes += size[0];
      }
    });
    compute(comm, job, options.compute_ms);
  }
  return epoch.row(options, "without", number, bytes);
}

JsonValue with_cache(const Communicator& comm, const Job& job, const Options& options, const SampleCache& cache,
                     SampleLoader& loader, const std::string& run) {
  Epoch epoch(job);
  const std::int64_t before = cache.statistics().store_bytes_read;
  const int number = static_cast<int>(loader.epoch()) + (loader.step() == loader.steps() && loader.step() > 0 ? 1 : 0);
  for (;;) {
    std::optional<SampleBatch> batch;
    epoch.wait_for([&] { batch = loader.next(); });
    if (!batch) break;
    for (std::size_t i = 0; i < batch->samples.size(); ++i) check(options, batch->samples[i], batch->value(i).data());
    compute(comm, job, options.compute_ms);
  }
  return epoch.row(options, run, number, cache.statistics().store_bytes_read - before);
}

/// Returns the samples of the ranks of the node or, if not `near`, of all others, in any order.
std::vector<std::int64_t> samples_of(const SampleCache& cache, const std::vector<bool>& node, bool near) {
  std::vector<std::int64_t> samples = shuffled(cache.size(), 1);
  std::erase_if(samples, [&](std::int64_t sample) { return node[static_cast<std::size_t>(cache.owner(sample))] != near; });
  return samples;
}

/// Returns the least of five times of `body`, in seconds, each on the slowest rank.
template <class Body>
double best_seconds(const Job& job, Body body) {
  double best = 1e300;
  for (int repeat = 0; repeat < 5; ++repeat) best = std::min(best, milliseconds(body, job.ranks) * 1e-3);
  return best;
}

/// Returns the seconds for getting `batches` batches of `samples`, which repeat.
double seconds_to_get(const Job& job, SampleCache& cache, const Options& options, const std::vector<std::int64_t>& samples,
                      std::int64_t batches) {
  const auto batch = static_cast<std::size_t>(options.batch), lanes = static_cast<std::size_t>(options.in_flight);
  std::vector<std::vector<std::byte>> values(lanes, std::vector<std::byte>(batch * static_cast<std::size_t>(options.sample_bytes)));
  std::vector<std::int64_t> asked(batch);
  return best_seconds(job, [&] {
    std::vector<std::optional<Operation>> operations(lanes);
    for (std::size_t b = 0; b < static_cast<std::size_t>(batches); ++b) {
      for (std::size_t i = 0; i < batch; ++i) asked[i] = samples[(b * batch + i) % samples.size()];
      std::optional<Operation>& operation = operations[b % lanes];
      if (operation) operation->wait();
      operation = cache.start(asked, values[b % lanes]);
    }
    for (auto& operation : operations) {
      if (operation) operation->wait();
    }
  });
}

/// Returns the seconds for copying as many samples from a private array.
double seconds_to_copy(const Job& job, const Options& options, std::int64_t samples, std::int64_t batches) {
  std::vector<std::byte> all(static_cast<std::size_t>(samples * options.sample_bytes), std::byte{1});
  const std::int64_t lane_bytes = options.batch * options.sample_bytes;
  std::vector<std::byte> values(static_cast<std::size_t>(options.in_flight * lane_bytes));
  const std::vector<std::int64_t> order = shuffled(samples, 1);
  return best_seconds(job, [&] {
    for (std::int64_t b = 0; b < batches; ++b) {
      for (std::int64_t i = 0; i < options.batch; ++i)
        std::memcpy(values.data() + b % options.in_flight * lane_bytes + i * options.sample_bytes,
                    all.data() + order[static_cast<std::size_t>((b * options.batch + i) % samples)] * options.sample_bytes,
                    static_cast<std::size_t>(options.sample_bytes));
    }
  });
}

/// Returns the seconds for sending as many bytes by MPI to a rank of the next node, and receiving them from the previous one.
/// `apart`: distance between the ranks.
double seconds_on_wire(const Job& job, const Options& options, std::int64_t batches, int apart) {
  const auto bytes = static_cast<int>(options.batch * options.sample_bytes);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes), std::byte{1}), in(out.size());
  return best_seconds(job, [&] {
    for (std::int64_t b = 0; b < batches; ++b)
      MPI_Sendrecv(out.data(), bytes, MPI_BYTE, (job.rank + apart) % job.size, 0, in.data(), bytes, MPI_BYTE,
                   (job.rank + job.size - apart) % job.size, 0, job.ranks, MPI_STATUS_IGNORE);
  });
}

/// Measures the speed of samples that are already in memory, and its limit, per rank.
Rows rates(const Communicator& comm, const Job& job, const Options& options) {
  SampleCache cache(comm, config_of(options, "", "rates"), job.source);
  const Topology& topology = comm.state()->topology;
  std::vector<bool> node(static_cast<std::size_t>(job.size));
  for (const int rank : topology.node_peers()) node[static_cast<std::size_t>(rank)] = true;
  const std::vector<std::int64_t> near = samples_of(cache, node, true), far = samples_of(cache, node, false);
  if (over_ranks(std::ssize(near), MPI_MIN, job.ranks) == 0) return {};
  // Load all samples into memory, each by its owner's node.
  const std::int64_t batches = over_ranks(std::ssize(near) / options.batch + 1, MPI_MAX, job.ranks);
  (void)seconds_to_get(job, cache, options, near, batches);
  if (over_ranks(cache.statistics().kept, MPI_MIN, job.ranks) == 0) return {};
  Rows rows;
  const auto add = [&](const char* what, const char* limit, std::int64_t count, double seconds, double least) {
    const double gigabytes = static_cast<double>(count * options.batch * options.sample_bytes) * 1e-9;
    rows.push_back({{"benchmark", "datacache_rate"},
                    {"from", what},
                    {"ranks", job.size},
                    {"sample_bytes", options.sample_bytes},
                    {"gigabytes_per_s", gigabytes / seconds},
                    {"baseline", limit},
                    {"baseline_gigabytes_per_s", gigabytes / least},
                    {"ratio", seconds / least}});
  };
  add("memory of the node", "memcpy", batches, seconds_to_get(job, cache, options, near, batches),
      seconds_to_copy(job, options, std::ssize(near), batches));
  if (topology.node_count() > 1)
    add("other nodes", "MPI_Sendrecv", 20, seconds_to_get(job, cache, options, far, 20),
        seconds_on_wire(job, options, 20, topology.largest_node()));
  return rows;
}

void print(const Job& job, const Options& options, Rows epochs, const Rows& rates) {
  fmt::print("{} samples of {} bytes, {}, batches of {}, {} ms of computing each\n", options.samples, options.sample_bytes,
             count_text(static_cast<std::size_t>(job.size), "rank"), options.batch, options.compute_ms);
  for (JsonValue& row : epochs) {
    row.set("samples_per_s", static_cast<double>(options.samples) / number_of(row, "epoch_s"));
    row.set("store_mb", number_of(row, "store_bytes") * 1e-6);
  }
  print_table(epochs, "{run:<24} {epoch:>6} {io_s:>10.3f} {epoch_s:>10.3f} {samples_per_s:>12.0f} {store_mb:>14.1f}",
              {"run", "epoch", "I/O s", "epoch s", "samples/s", "MB from store"});
  for (const JsonValue& rate : rates)
    fmt::print("samples from {}: {:.2f} GB/s a rank, {} {:.2f} GB/s: {:.2f} x\n", rate.view().at("from").string(),
               number_of(rate, "gigabytes_per_s"), rate.view().at("baseline").string(), number_of(rate, "baseline_gigabytes_per_s"),
               number_of(rate, "ratio"));
  fmt::print(
      "without: each rank reads its samples one by one before it computes. I/O: how long the slowest rank waits for samples.\n"
      "x: time relative to the limit's.\n");
}

void measure(const Job& job, const Options& options) {
  const Communicator comm(job.ranks);
  Rows rows;
  Progress progress(job.rank == 0, "epochs", 2 + 2 * options.epochs);
  const auto add = [&](JsonValue row) {
    rows.push_back(std::move(row));
    progress.at(static_cast<int>(rows.size()));
  };
  for (int epoch = 0; epoch < 2; ++epoch) add(without_cache(comm, job, options, epoch));
  for (const char* run : {"cache, folder empty", "cache, a later run"}) {
    SampleCache cache(comm, config_of(options, options.folder, "bench"), job.source);
    SampleLoader loader(cache, {.batch = options.batch, .seed = 1, .progress = ProgressDisplay::off});
    for (int epoch = 0; epoch < options.epochs; ++epoch) add(with_cache(comm, job, options, cache, loader, run));
  }
  const Rows found = rates(comm, job, options);
  if (job.rank != 0) return;
  print(job, options, rows, found);
  rows.insert(rows.end(), found.begin(), found.end());
  write_rows(rows, options.json);
}

/// Collective. Returns a name for a folder that all ranks of the node share.
std::string folder_of_node(MPI_Comm ranks) {
  const std::int64_t number = over_ranks(std::int64_t{getpid()}, MPI_MAX, ranks);
  return (std::filesystem::temp_directory_path() / fmt::format("weir-bench-datacache-{}-{}", number, host_name())).string();
}

void run(Options options) {
  start_mpi();
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) require_writable(options.json);
  const bool serves = options.path.empty();
  require(!serves || size > 1, "the last rank is the store: start at least two ranks, or give a file with --path");
  Job job;
  const bool is_store = serves && rank == size - 1;
  MPI_Comm_split(MPI_COMM_WORLD, is_store ? 1 : 0, rank, &job.ranks);
  MPI_Comm_rank(job.ranks, &job.rank);
  MPI_Comm_size(job.ranks, &job.size);
  auto server = is_store ? std::make_unique<StoreServer>() : nullptr;
  const std::string address = text_of_rank(is_store ? own_address() : "", size - 1);
  const auto port = static_cast<int>(over_ranks(std::int64_t{is_store ? server->port() : 0}, MPI_MAX));
  if (!is_store) {
    if (serves) {
      job.source = std::make_shared<StoreClient>(address, port, options.samples, options.sample_bytes);
    } else {
      job.source = record_source(options.path, options.sample_bytes);
      options.samples = job.source->size();
    }
    const TemporaryFolder folder(options.folder.empty() ? folder_of_node(job.ranks) : "");
    if (options.folder.empty()) options.folder = folder.path();
    measure(job, options);
    MPI_Barrier(job.ranks);
  }
  // The rank with the store sleeps: with few cores, a barrier of MPI would use up one of them.
  MPI_Request done = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &done);
  for (int ended = 0; ended == 0;) {
    MPI_Test(&done, &ended, MPI_STATUS_IGNORE);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  job.source.reset();
  server.reset();
  MPI_Comm_free(&job.ranks);
}

}  // namespace

void add_bench_datacache(Command& bench) {
  auto [command, options] = bench.add(
      "datacache", "Measure epochs over samples on a slow store, with a sample cache and without; start with mpirun", run);
  command.option("--path", options.path,
                 "read samples from this file on a slow store, in place of a rank that serves synthetic ones");
  command.option("--samples", options.samples, "samples of the synthetic store").positive();
  command.option("--sample-bytes", options.sample_bytes, "bytes of a sample").positive();
  command.option("--batch", options.batch, "samples of a rank in a step").positive();
  command.option("--pack", options.pack, "samples that are read together").positive();
  command.option("--epochs", options.epochs, "epochs of each run with a cache").positive();
  command.option("--threads", options.threads, "threads of a rank that read and decode").positive();
  command.option("--in-flight", options.in_flight, "batches requested at once").between(1, 64);
  command.option("--compute-ms", options.compute_ms, "computing in a step, in milliseconds").non_negative();
  command.option("--folder", options.folder, "level 1 of the cache: a folder of each node's own; default: a temporary one");
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
  command.footer(
      "The last rank serves the synthetic samples. After each step's computing, ranks wait for each other, as they do for "
      "gradients.");
  command.examples({"mpirun -n 5 weir bench datacache --samples 4096"});
}

}  // namespace weir::cli
