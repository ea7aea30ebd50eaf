// weir bench datacache: measures how long epochs wait for samples from a slow store, with and without a sample cache, and how fast
// samples come from the node's memory and from other nodes. Start it with mpirun.
#include <fmt/core.h>
#include <unistd.h>
#include <weir/mpi.h>

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
#include "base/json.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"
#include "cli/slow_store.hpp"
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

double now() { return MPI_Wtime(); }

/// One epoch, on the slowest rank.
struct Epoch {
  std::string run;
  int epoch = 0;
  double io_s = 0, total_s = 0;
  std::int64_t store_bytes = 0;  ///< over all ranks
};

/// The ranks that take part: all ranks, or all but one if that one is the store.
struct Job {
  MPI_Comm ranks = MPI_COMM_NULL;
  int rank = 0, size = 1;
  std::shared_ptr<SampleSource> source;
};

double over(const Job& job, double value, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, job.ranks);
  return value;
}

/// Simulates a GPU's work, then gradients, for which ranks wait for each other. Meanwhile the program makes progress on what is in
/// flight.
void compute(const Communicator& comm, const Job& job, double ms) {
  const auto poll = [&] {
    const auto inside = comm.state()->enter();
    comm.state()->engine.poll();
  };
  const double end = now() + ms * 1e-3;
  while (now() < end) {
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
    if (value[i] != stored_byte(sample * options.sample_bytes + i))
      throw std::runtime_error(fmt::format("sample {} has a wrong byte {}", sample, i));
}

/// Every rank reads its batch from the store, sample by sample, before it computes.
Epoch without_cache(const Communicator& comm, const Job& job, const Options& options, int epoch) {
  MPI_Barrier(job.ranks);
  const double begin = now();
  double io = 0;
  std::vector<std::byte> encoded, value(static_cast<std::size_t>(options.sample_bytes));
  std::array<std::int64_t, 1> size{};
  std::int64_t bytes = 0;
  // As in a global shuffle, any rank may need any sample.
  std::vector<std::int64_t> order(static_cast<std::size_t>(options.samples));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(static_cast<std::uint64_t>(epoch));
  std::shuffle(order.begin(), order.end(), random);
  for (std::int64_t at = 0; at < options.samples; at += job.size * options.batch) {
    const double asked = now();
    for (std::int64_t i = at + job.rank * options.batch; i < std::min(at + (job.rank + 1) * options.batch, options.samples); ++i) {
      const std::int64_t sample = order[static_cast<std::size_t>(i)];
      encoded.clear();
      job.source->read(sample, 1, encoded, size);
      job.source->decode(sample, encoded, value);
      check(options, sample, value.data());
      bytes += size[0];
    }
    io += now() - asked;
    compute(comm, job, options.compute_ms);
  }
  const double total = now() - begin;
  return {"without", epoch, over(job, io, MPI_MAX), over(job, total, MPI_MAX),
          static_cast<std::int64_t>(over(job, static_cast<double>(bytes), MPI_SUM))};
}

Epoch with_cache(const Communicator& comm, const Job& job, const Options& options, const SampleCache& cache, SampleLoader& loader,
                 const std::string& run) {
  MPI_Barrier(job.ranks);
  const std::int64_t before = cache.statistics().store_bytes_read;
  const double begin = now();
  double io = 0;
  const int epoch = static_cast<int>(loader.epoch()) + (loader.step() == loader.steps() && loader.step() > 0 ? 1 : 0);
  for (;;) {
    const double asked = now();
    const std::optional<SampleBatch> batch = loader.next();
    io += now() - asked;
    if (!batch) break;
    for (std::size_t i = 0; i < batch->samples.size(); ++i) check(options, batch->samples[i], batch->value(i).data());
    compute(comm, job, options.compute_ms);
  }
  const double total = now() - begin;
  const auto read = static_cast<double>(cache.statistics().store_bytes_read - before);
  return {run, epoch, over(job, io, MPI_MAX), over(job, total, MPI_MAX), static_cast<std::int64_t>(over(job, read, MPI_SUM))};
}

/// The speed of samples that are already in memory, and its limit.
struct Rate {
  std::string what, limit;
  double gigabytes_per_s = 0, limit_gigabytes_per_s = 0;  ///< per rank
};

/// Returns the samples of the ranks in `wanted`, in any order.
std::vector<std::int64_t> samples_of(const SampleCache& cache, const std::vector<bool>& wanted) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < cache.size(); ++i) {
    if (wanted[static_cast<std::size_t>(cache.owner(i))]) samples.push_back(i);
  }
  std::mt19937_64 random(1);
  std::shuffle(samples.begin(), samples.end(), random);
  return samples;
}

/// Returns the seconds for getting all of `samples` in batches, repeated for `rounds`.
double seconds_to_get(const Job& job, SampleCache& cache, const Options& options, const std::vector<std::int64_t>& samples,
                      std::int64_t batches) {
  const auto batch = static_cast<std::size_t>(options.batch);
  const auto lanes = static_cast<std::size_t>(options.in_flight);
  std::vector<std::vector<std::byte>> values(lanes, std::vector<std::byte>(batch * static_cast<std::size_t>(options.sample_bytes)));
  std::vector<std::int64_t> asked(batch);
  double best = 1e300;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<std::optional<Operation>> operations(lanes);
    MPI_Barrier(job.ranks);
    const double begin = now();
    for (std::int64_t b = 0; b < batches; ++b) {
      for (std::size_t i = 0; i < batch; ++i) asked[i] = samples[(static_cast<std::size_t>(b) * batch + i) % samples.size()];
      const std::size_t lane = static_cast<std::size_t>(b) % lanes;
      if (operations[lane]) operations[lane]->wait();
      operations[lane] = cache.start(asked, values[lane]);
    }
    for (auto& operation : operations) {
      if (operation) operation->wait();
    }
    best = std::min(best, over(job, now() - begin, MPI_MAX));
  }
  return best;
}

/// Returns the seconds for copying as many samples from a private array.
double seconds_to_copy(const Job& job, const Options& options, std::int64_t samples, std::int64_t batches) {
  std::vector<std::byte> all(static_cast<std::size_t>(samples * options.sample_bytes), std::byte{1});
  const std::int64_t lane_bytes = options.batch * options.sample_bytes;
  std::vector<std::byte> values(static_cast<std::size_t>(options.in_flight * lane_bytes));
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  std::shuffle(order.begin(), order.end(), random);
  double best = 1e300;
  for (int repeat = 0; repeat < 5; ++repeat) {
    MPI_Barrier(job.ranks);
    const double begin = now();
    for (std::int64_t b = 0; b < batches; ++b) {
      for (std::int64_t i = 0; i < options.batch; ++i)
        std::memcpy(values.data() + b % options.in_flight * lane_bytes + i * options.sample_bytes,
                    all.data() + order[static_cast<std::size_t>((b * options.batch + i) % samples)] * options.sample_bytes,
                    static_cast<std::size_t>(options.sample_bytes));
    }
    best = std::min(best, over(job, now() - begin, MPI_MAX));
  }
  return best;
}

/// Returns the seconds for sending as many bytes by MPI to a rank of the next node, and receiving them from the previous one.
/// `apart`: distance between the ranks.
double seconds_on_wire(const Job& job, const Options& options, std::int64_t batches, int apart) {
  const auto bytes = static_cast<int>(options.batch * options.sample_bytes);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes), std::byte{1}), in(out.size());
  double best = 1e300;
  for (int repeat = 0; repeat < 5; ++repeat) {
    MPI_Barrier(job.ranks);
    const double begin = now();
    for (std::int64_t b = 0; b < batches; ++b)
      MPI_Sendrecv(out.data(), bytes, MPI_BYTE, (job.rank + apart) % job.size, 0, in.data(), bytes, MPI_BYTE,
                   (job.rank + job.size - apart) % job.size, 0, job.ranks, MPI_STATUS_IGNORE);
    best = std::min(best, over(job, now() - begin, MPI_MAX));
  }
  return best;
}

std::vector<Rate> rates(const Communicator& comm, const Job& job, const Options& options) {
  SampleCache cache(comm,
                    {.largest_batch = options.batch,
                     .in_flight = options.in_flight,
                     .pack_samples = static_cast<int>(options.pack),
                     .threads = options.threads,
                     .name = "rates"},
                    job.source);
  const Topology& topology = comm.state()->topology;
  std::vector<bool> node(static_cast<std::size_t>(job.size)), others(node.size(), true);
  for (const int rank : topology.node_peers()) {
    node[static_cast<std::size_t>(rank)] = true;
    others[static_cast<std::size_t>(rank)] = false;
  }
  const std::vector<std::int64_t> near = samples_of(cache, node), far = samples_of(cache, others);
  if (over(job, static_cast<double>(std::ssize(near)), MPI_MIN) == 0) return {};
  // Load all samples into memory, each by its owner's node.
  const auto batches = static_cast<std::int64_t>(over(job, static_cast<double>(std::ssize(near) / options.batch + 1), MPI_MAX));
  (void)seconds_to_get(job, cache, options, near, batches);
  if (over(job, static_cast<double>(cache.statistics().kept), MPI_MIN) == 0) return {};
  std::vector<Rate> found;
  const auto add = [&](const char* what, const char* limit, std::int64_t count, double seconds, double least) {
    const double gigabytes = static_cast<double>(count * options.batch * options.sample_bytes) * 1e-9;
    found.push_back({what, limit, gigabytes / seconds, gigabytes / least});
  };
  add("memory of the node", "memcpy", batches, seconds_to_get(job, cache, options, near, batches),
      seconds_to_copy(job, options, std::ssize(near), batches));
  if (topology.node_count() > 1)
    add("other nodes", "MPI_Sendrecv", 20, seconds_to_get(job, cache, options, far, 20),
        seconds_on_wire(job, options, 20, topology.largest_node()));
  return found;
}

void print(const Job& job, const Options& options, const std::vector<Epoch>& epochs, const std::vector<Rate>& found) {
  fmt::print("{} samples of {} bytes, {} rank{}, batches of {}, {} ms of computing each\n", options.samples, options.sample_bytes,
             job.size, job.size == 1 ? "" : "s", options.batch, options.compute_ms);
  fmt::print("{:<24} {:>6} {:>10} {:>10} {:>12} {:>14}\n", "run", "epoch", "I/O s", "epoch s", "samples/s", "MB from store");
  for (const Epoch& e : epochs)
    fmt::print("{:<24} {:>6} {:>10.3f} {:>10.3f} {:>12.0f} {:>14.1f}\n", e.run, e.epoch, e.io_s, e.total_s,
               static_cast<double>(options.samples) / e.total_s, static_cast<double>(e.store_bytes) * 1e-6);
  for (const Rate& r : found)
    fmt::print("samples from {}: {:.2f} GB/s a rank, {} {:.2f} GB/s: {:.2f} x\n", r.what, r.gigabytes_per_s, r.limit,
               r.limit_gigabytes_per_s, r.limit_gigabytes_per_s / r.gigabytes_per_s);
}

void write(const Job& job, const Options& options, const std::vector<Epoch>& epochs, const std::vector<Rate>& found) {
  if (options.json.empty()) return;
  JsonValue rows = JsonValue::array();
  for (const Epoch& e : epochs)
    rows.push_back({{"benchmark", "datacache"},
                    {"run", e.run},
                    {"epoch", e.epoch},
                    {"ranks", job.size},
                    {"samples", options.samples},
                    {"sample_bytes", options.sample_bytes},
                    {"batch", options.batch},
                    {"compute_ms", options.compute_ms},
                    {"io_s", e.io_s},
                    {"epoch_s", e.total_s},
                    {"store_bytes", e.store_bytes}});
  for (const Rate& r : found)
    rows.push_back({{"benchmark", "datacache_rate"},
                    {"from", r.what},
                    {"ranks", job.size},
                    {"sample_bytes", options.sample_bytes},
                    {"gigabytes_per_s", r.gigabytes_per_s},
                    {"baseline", r.limit},
                    {"baseline_gigabytes_per_s", r.limit_gigabytes_per_s},
                    {"ratio", r.limit_gigabytes_per_s / r.gigabytes_per_s}});
  write_json(rows, options.json);
}

void measure(const Job& job, const Options& options) {
  const Communicator comm(job.ranks);
  std::vector<Epoch> epochs;
  Progress progress(job.rank == 0, "epochs", 2 + 2 * options.epochs);
  int done = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    epochs.push_back(without_cache(comm, job, options, epoch));
    progress.at(++done);
  }
  const auto folder = std::filesystem::path(options.folder);
  const SampleCacheConfig config{.folder = folder.string(),
                                 .largest_batch = options.batch,
                                 .in_flight = options.in_flight,
                                 .pack_samples = static_cast<int>(options.pack),
                                 .threads = options.threads,
                                 .name = "bench"};
  for (const char* run : {"cache, folder empty", "cache, a later run"}) {
    SampleCache cache(comm, config, job.source);
    SampleLoader loader(cache, {.batch = options.batch, .seed = 1, .progress = ProgressDisplay::off});
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      epochs.push_back(with_cache(comm, job, options, cache, loader, run));
      progress.at(++done);
    }
  }
  const std::vector<Rate> found = rates(comm, job, options);
  if (job.rank != 0) return;
  print(job, options, epochs, found);
  fmt::print(
      "without: each rank reads its samples one by one before it computes. I/O: how long the slowest rank waits for samples.\n"
      "x: time relative to the limit's.\n");
  write(job, options, epochs, found);
}

/// A folder shared by all ranks of the node, for this run only unless one was given.
class NodeFolder {
 public:
  NodeFolder(std::string given, MPI_Comm ranks) : path_(std::move(given)), made_(path_.empty()) {
    if (!made_) return;
    std::int64_t number = getpid();
    MPI_Bcast(&number, 1, MPI_INT64_T, 0, ranks);
    path_ = (std::filesystem::temp_directory_path() / fmt::format("weir-bench-datacache-{}-{}", number, host())).string();
  }
  NodeFolder(const NodeFolder&) = delete;
  NodeFolder& operator=(const NodeFolder&) = delete;
  ~NodeFolder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static std::string host() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
  }

  std::string path_;
  bool made_;
};

void run(Options options) {
  start_mpi();
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) require_writable(options.json);
  const bool serves = options.path.empty();
  if (serves && size < 2)
    throw Error(WEIR_ERR_ARGUMENT, "the last rank is the store: start at least two ranks, or give a file with --path");
  Job job;
  const bool is_store = serves && rank == size - 1;
  MPI_Comm_split(MPI_COMM_WORLD, is_store ? 1 : 0, rank, &job.ranks);
  MPI_Comm_rank(job.ranks, &job.rank);
  MPI_Comm_size(job.ranks, &job.size);
  std::unique_ptr<StoreServer> server;
  struct {
    std::array<char, 64> address{};
    int port = 0;
  } where;
  if (is_store) {
    server = std::make_unique<StoreServer>();
    own_address().copy(where.address.data(), where.address.size() - 1);
    where.port = server->port();
  }
  MPI_Bcast(&where, sizeof where, MPI_BYTE, size - 1, MPI_COMM_WORLD);
  if (!is_store) {
    if (serves) {
      job.source = std::make_shared<StoreClient>(where.address.data(), where.port, options.samples, options.sample_bytes);
    } else {
      job.source = record_source(options.path, options.sample_bytes);
      options.samples = job.source->size();
    }
    const NodeFolder folder(options.folder, job.ranks);
    options.folder = folder.path();
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
  auto options = std::make_shared<Options>();
  Command command =
      bench.add("datacache", "Measure epochs over samples on a slow store, with a sample cache and without; start with mpirun");
  command.option("--path", options->path,
                 "read samples from this file on a slow store, in place of a rank that serves synthetic ones");
  command.option("--samples", options->samples, "samples of the synthetic store").positive();
  command.option("--sample-bytes", options->sample_bytes, "bytes of a sample").positive();
  command.option("--batch", options->batch, "samples of a rank in a step").positive();
  command.option("--pack", options->pack, "samples that are read together").positive();
  command.option("--epochs", options->epochs, "epochs of each run with a cache").positive();
  command.option("--threads", options->threads, "threads of a rank that read and decode").positive();
  command.option("--in-flight", options->in_flight, "batches requested at once").between(1, 64);
  command.option("--compute-ms", options->compute_ms, "computing in a step, in milliseconds").non_negative();
  command.option("--folder", options->folder, "level 1 of the cache: a folder of each node's own; default: a temporary one");
  command.option("--json", options->json, "also write the rows to this file, on rank 0");
  command.footer(
      "The last rank serves the synthetic samples. After each step's computing, ranks wait for each other, as they do for "
      "gradients.");
  command.examples({"mpirun -n 5 weir bench datacache --samples 4096"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
