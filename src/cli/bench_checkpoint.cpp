// weir bench checkpoint: measures saving against write and fsync, loading against read, and the slowdown of training steps while a
// save is in flight. Start it with mpirun.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <weir/checkpoint.hpp>

#include "base/json.hpp"
#include "checkpoint/file.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/bench_training_step.hpp"
#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
// With 4 ranks: relative to write and fsync, to read, and to a step.
constexpr double save_bound = 0.7, load_bound = 0.7, step_bound = 0.15;

struct Options {
  std::int64_t size = std::int64_t{1} << 26, count = std::int64_t{1} << 22, batch = 32, compression = 0;
  int rounds = 5;
  bool steps = false;
  std::string folder = ".", json;
};

/// A folder that all ranks see. It is removed with its contents. Construction and destruction are collective.
class SharedFolder {
 public:
  SharedFolder(const std::string& parent, int rank) : rank_(rank) {
    std::array<char, 4096> path{};
    if (rank == 0) {
      const std::string name = parent + "/weir-bench-XXXXXX";
      if (name.size() < path.size()) std::copy(name.begin(), name.end(), path.begin());
      if (mkdtemp(path.data()) == nullptr) path[0] = '\0';
    }
    MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path.data();
    if (path_.empty())
      throw std::runtime_error(fmt::format("no folder can be made in '{}': --folder names one that exists and is yours", parent));
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() {
    std::error_code ignored;
    if (rank_ == 0) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int rank_;
  std::string path_;
};

std::vector<float> random_floats(std::int64_t count, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24F - 0.5F;
  return values;
}

/// Drops the pages of a file, which must be synced, from the page cache.
void drop_pages(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

/// Times of one task, done by Weir and directly, in the same rounds.
struct Contest {
  std::string name, baseline;
  double bound;
  std::vector<double> weir, plain;

  /// Returns the ratio of the minima: the machine's speed when undisturbed.
  [[nodiscard]] double speed() const { return minimum(plain) / minimum(weir); }
};

/// Runs both, with alternating order.
template <class A, class B>
void in_turns(int round, A a, B b) {
  if (round % 2 == 0) {
    a();
    b();
  } else {
    b();
    a();
  }
}

std::vector<Contest> measure_files(const Communicator& comm, const Options& options, const std::string& folder) {
  std::vector<float> values = random_floats(options.size / static_cast<std::int64_t>(sizeof(float)), comm.rank());
  std::vector<float> back(values.size(), 1.0F);
  const std::string mine = fmt::format("{}/plain-{}", folder, comm.rank());
  Checkpoint checkpoint(comm, {.folder = folder + "/checkpoints", .keep = 1000000, .compression = options.compression});
  checkpoint.add_local("values", std::span(values));
  std::int64_t step = 0;

  Contest save{"save", "write + fsync", save_bound, {}, {}};
  const auto plain_write = [&] {
    std::error_code none;
    fs::remove(mine, none);
    return milliseconds([&] {
      checkpoint::File file = checkpoint::File::create(mine);
      file.write_at(0, std::as_bytes(std::span(values)));
      file.sync();
      file.close();
    });
  };
  Progress progress(comm.rank() == 0, "files", 3 * options.rounds + 1);
  for (int round = -1; round < options.rounds; ++round) {  // the first round touches memory for the first time
    double weir = 0, plain = 0;
    in_turns(
        round, [&] { plain = plain_write(); }, [&] { weir = milliseconds([&] { checkpoint.save(step).wait(); }); });
    // Remove the previous file outside both measurements.
    std::error_code none;
    if (comm.rank() == 0 && step > 0) fs::remove(fmt::format("{}/checkpoints/checkpoint-{}.h5", folder, step - 1), none);
    ++step;
    if (round >= 0) {
      save.weir.push_back(weir);
      save.plain.push_back(plain);
    }
    progress.at(round + 2);
  }

  std::vector<Contest> all = {save, {"load, cold", "read", load_bound, {}, {}}, {"load, warm", "read", 0, {}, {}}};
  const std::string newest = fmt::format("{}/checkpoints/checkpoint-{}.h5", folder, step - 1);
  for (std::size_t kind = 1; kind < all.size(); ++kind) {
    for (int round = 0; round < options.rounds; ++round) {
      const auto prepare = [&] {
        if (kind == 1) {
          drop_pages(mine);
          drop_pages(newest);
        }
      };
      in_turns(
          round,
          [&] {
            prepare();
            all[kind].plain.push_back(milliseconds([&] {
              const checkpoint::File file = checkpoint::File::open_to_read(mine);
              file.read_at(0, std::as_writable_bytes(std::span(back)));
            }));
          },
          [&] {
            prepare();
            all[kind].weir.push_back(milliseconds([&] { (void)checkpoint.restore(); }));
          });
      progress.at(static_cast<int>(kind) * options.rounds + round + 2);
    }
  }
  return all;
}

/// Times of steps with and without a save in flight.
struct StepsResult {
  std::vector<double> without_ms, with_ms, in_flight;  // of a step; number of steps until the save has finished
  double operations = 0, snapshot_ms = 0;
  std::int64_t weights = 0, layers = 0, snapshot_bytes = 0, saved_bytes = 0;

  [[nodiscard]] double added() const { return minimum(with_ms) / minimum(without_ms) - 1; }
};

StepsResult measure_steps(const Communicator& comm, const Options& options, const std::string& folder) {
  DenseLayers layers(options.count, options.batch);
  StepsResult result;
  result.operations = layers.operations();
  result.weights = layers.weights();
  result.layers = layers.layers();
  std::vector<float> gradient(layers.values().size()), momentum(layers.values().size());
  AllreducePlan plan(comm, {.count = layers.weights(), .density = 0.01, .algorithm = "oktopk"});
  Checkpoint checkpoint(comm, {.folder = folder + "/steps", .keep = 1, .compression = options.compression});
  checkpoint.add("gradient", plan);
  checkpoint.add_replicated("weights", std::span(layers.values()));
  checkpoint.add_replicated("momentum", std::span(momentum));

  const auto train = [&] {
    layers.step(gradient.data());
    plan.run(gradient);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      momentum[i] = 0.9F * momentum[i] + gradient[i];
      layers.values()[i] -= 1e-9F * momentum[i];
    }
  };
  // Ranks agree when a save has finished, so each makes the same number of steps. Both measurements include that.
  const auto train_until = [&](const auto& finished) {
    std::int64_t steps = 0;
    for (std::int64_t left = 1; left > 0; ++steps) {
      train();
      left = over_ranks(finished(steps + 1) ? 0 : 1, MPI_MAX);
    }
    return steps;
  };
  Progress progress(comm.rank() == 0, "steps", options.rounds + 1);
  for (int round = -1; round < options.rounds; ++round) {  // the first round settles thresholds and allocates the snapshot
    std::int64_t steps = 0;
    std::optional<Operation> save;
    const double with = milliseconds([&] {
      save = checkpoint.save(round + 1);
      steps = train_until([&](std::int64_t) { return save->test(); });
    });
    const double without = milliseconds([&] { train_until([&](std::int64_t done) { return done >= steps; }); });
    progress.at(round + 2);
    if (round < 0) continue;
    result.with_ms.push_back(with / static_cast<double>(steps));
    result.without_ms.push_back(without / static_cast<double>(steps));
    result.in_flight.push_back(static_cast<double>(steps));
    std::array snapshot = {checkpoint.statistics().seconds_snapshot * 1e3};
    over_ranks(snapshot, MPI_MAX);
    result.snapshot_ms = round == 0 ? snapshot[0] : std::min(result.snapshot_ms, snapshot[0]);
  }
  result.snapshot_bytes = over_ranks(checkpoint.statistics().snapshot_bytes, MPI_MAX);
  result.saved_bytes = over_ranks(checkpoint.statistics().bytes_written, MPI_SUM);
  return result;
}

void print(const std::vector<Contest>& contests, const Options& options, int ranks) {
  const double megabytes = static_cast<double>(options.size) * ranks * 1e-6;
  fmt::print("{} ranks, {} bytes each, compression {}, {} rounds\n", ranks, options.size, options.compression, options.rounds);
  fmt::print("{:<12} {:>11} {:>9} {:>8}  {:<14} {:>11} {:>9} {:>8} {:>8} {:>6}\n", "benchmark", "median ms", "min ms", "MB/s",
             "baseline", "median ms", "min ms", "MB/s", "speed", "bound");
  for (const Contest& c : contests) {
    fmt::print("{:<12} {:>11.1f} {:>9.1f} {:>8.0f}  {:<14} {:>11.1f} {:>9.1f} {:>8.0f} {:>8.3f} {:>6}\n", c.name, median(c.weir),
               minimum(c.weir), megabytes / minimum(c.weir) * 1e3, c.baseline, median(c.plain), minimum(c.plain),
               megabytes / minimum(c.plain) * 1e3, c.speed(), c.bound > 0 ? fmt::format("{}", c.bound) : "-");
  }
  fmt::print("speed: least time of the baseline / least time of Weir. bound: the least speed required, on 4 ranks\n");
}

void print(const StepsResult& r, const Options& options) {
  fmt::print(
      "\nA step: forward and backward pass of {} dense layers of {} x {} floats with a batch of {}, {:.2f} GFLOP; oktopk of {}\n"
      "floats at density 0.01; and momentum. A save: the residual, weights and momentum, {:.1f} MB in the file\n",
      r.layers, DenseLayers::width, DenseLayers::width, options.batch, r.operations * 1e-9, r.weights,
      static_cast<double>(r.saved_bytes) * 1e-6);
  fmt::print("{:<22} {:>10} {:>10}\n", "step", "median ms", "min ms");
  fmt::print("{:<22} {:>10.1f} {:>10.1f}\n", "without a save", median(r.without_ms), minimum(r.without_ms));
  fmt::print("{:<22} {:>10.1f} {:>10.1f}\n", "with one in flight", median(r.with_ms), minimum(r.with_ms));
  fmt::print("added: {:.1f} % of a step, by the minima; bound: at most {:.0f} %. A save takes {:.0f} steps (median)\n",
             r.added() * 100, step_bound * 100, median(r.in_flight));
  fmt::print("snapshot: {} bytes on the rank that holds most, which take {:.1f} ms of the first of these steps\n", r.snapshot_bytes,
             r.snapshot_ms);
}

JsonValue to_json(const Contest& c, const Options& options, int ranks) {
  return {{"benchmark", "checkpoint_" + c.name.substr(0, 4) + (c.name.size() > 4 ? "_" + c.name.substr(6) : "")},
          {"ranks", ranks},
          {"bytes_per_rank", options.size},
          {"compression", options.compression},
          {"median_ms", median(c.weir)},
          {"min_ms", minimum(c.weir)},
          {"baseline", c.baseline},
          {"baseline_median_ms", median(c.plain)},
          {"baseline_min_ms", minimum(c.plain)},
          {"speed", c.speed()},
          {"bound", c.bound}};
}

JsonValue to_json(const StepsResult& r, int ranks) {
  return {{"benchmark", "checkpoint_steps"},
          {"ranks", ranks},
          {"weights", r.weights},
          {"operations", r.operations},
          {"with_median_ms", median(r.with_ms)},
          {"with_min_ms", minimum(r.with_ms)},
          {"without_median_ms", median(r.without_ms)},
          {"without_min_ms", minimum(r.without_ms)},
          {"steps_in_flight", median(r.in_flight)},
          {"added", r.added()},
          {"bound", step_bound},
          {"snapshot_bytes", r.snapshot_bytes},
          {"snapshot_ms", r.snapshot_ms},
          {"file_bytes", r.saved_bytes}};
}

void run(const Options& options) {
  start_mpi();
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0) require_writable(options.json);
  const SharedFolder folder(options.folder, comm.rank());
  const std::vector<Contest> contests = measure_files(comm, options, folder.path());
  std::optional<StepsResult> steps;
  if (options.steps) steps = measure_steps(comm, options, folder.path());
  MPI_Barrier(MPI_COMM_WORLD);
  if (comm.rank() != 0) return;
  print(contests, options, comm.size());
  if (steps) print(*steps, options);
  if (options.json.empty()) return;
  JsonValue rows = JsonValue::array();
  for (const Contest& contest : contests) rows.push_back(to_json(contest, options, comm.size()));
  if (steps) rows.push_back(to_json(*steps, comm.size()));
  write_json(rows, options.json);
}

}  // namespace

void add_bench_checkpoint(Command& bench) {
  auto options = std::make_shared<Options>();
  Command command =
      bench.add("checkpoint", "Measure saving and loading, compared with the disk, and steps while a save is in flight");
  command.option("--size", options->size, "bytes that each rank saves").between(std::int64_t{4}, std::int64_t{1} << 40);
  command.option("--folder", options->folder, "folder on the disk to measure, which all ranks must see; nothing stays in it")
      .existing_folder();
  command.option("--compression", options->compression, "compression of arrays; 0: none, 9: smallest").between(0, 9);
  command.option("--iterations", options->rounds, "measured saves, and measured loads").positive();
  command.flag("--steps", options->steps, "also measure training steps while a save is in flight");
  command.option("--count", options->count, "floats of the model that --steps trains")
      .between(std::int64_t{1} << 18, std::int64_t{1} << 31);
  command.option("--batch", options->batch, "samples that a rank computes in a step of --steps").between(1, 65536);
  command.option("--json", options->json, "also write the figures to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench checkpoint --folder /scratch --steps"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
