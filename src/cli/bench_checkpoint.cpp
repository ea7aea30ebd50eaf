// weir bench checkpoint: measures saving against write and fsync, loading against read, and the slowdown of training steps while a
// save is in flight. Start it with mpirun.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <weir/checkpoint.hpp>

#include "checkpoint/file.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/bench_training_step.hpp"
#include "cli/commands.hpp"
#include "cli/temporary_folder.hpp"

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

/// Collective. Makes a folder in `parent` that all ranks see.
std::string make_shared_folder(const std::string& parent, int rank) {
  const std::string path = text_of_rank(rank == 0 ? make_folder(parent + "/weir-bench-") : "", 0);
  if (path.empty()) give_up("no folder can be made in '{}': --folder names one that exists and is yours", parent);
  return path;
}

std::vector<float> random_floats(std::int64_t count, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24F - 0.5F;
  return values;
}

/// Drops the pages of a file, which must be synced, from the page cache.
void drop_pages(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) ::posix_fadvise(*file, 0, 0, POSIX_FADV_DONTNEED);
}

/// Returns the row of a task that Weir and the baseline have done in turns.
JsonValue row_of(const char* task, const std::array<Way, 2>& ways, double bound, const Options& options, int ranks) {
  const auto& [weir, plain] = ways;
  return {{"benchmark", task},
          {"ranks", ranks},
          {"bytes_per_rank", options.size},
          {"compression", options.compression},
          {"median_ms", median(weir.times)},
          {"min_ms", minimum(weir.times)},
          {"baseline", plain.name},
          {"baseline_median_ms", median(plain.times)},
          {"baseline_min_ms", minimum(plain.times)},
          {"speed", minimum(plain.times) / minimum(weir.times)},  // of the machine when undisturbed
          {"bound", bound}};
}

Rows measure_files(const Communicator& comm, const Options& options, const std::string& folder) {
  std::vector<float> values = random_floats(options.size / static_cast<std::int64_t>(sizeof(float)), comm.rank());
  std::vector<float> back(values.size(), 1.0F);
  const std::string mine = fmt::format("{}/plain-{}", folder, comm.rank());
  const auto file_of = [&](int step) { return fmt::format("{}/checkpoints/checkpoint-{}.h5", folder, step); };
  Checkpoint checkpoint(comm, {.folder = folder + "/checkpoints", .keep = 1000000, .compression = options.compression});
  checkpoint.add_local("values", std::span(values));
  std::error_code none;
  std::array save = {Way{"save", [&](int step) { checkpoint.save(step).wait(); },
                         [&](int step) {
                           if (comm.rank() == 0) fs::remove(file_of(step - 2), none);  // outside both measurements
                         }},
                     Way{"write + fsync",
                         [&](int) {
                           checkpoint::File file = checkpoint::File::create(mine);
                           file.write_at(0, std::as_bytes(std::span(values)));
                           file.sync();
                           file.close();
                         },
                         [&](int) { fs::remove(mine, none); }}};
  Progress progress(comm.rank() == 0, "files", 3 * options.rounds + 1);
  take_turns(save, 1, options.rounds, progress);  // the first round touches memory for the first time
  Rows rows = {row_of("checkpoint_save", save, save_bound, options, comm.size())};
  for (const bool cold : {true, false}) {
    const auto prepare = [&](int) {
      if (!cold) return;
      drop_pages(mine);
      drop_pages(file_of(options.rounds));
    };
    std::array load = {Way{"load", [&](int) { (void)checkpoint.restore(); }, prepare},
                       Way{"read",
                           [&](int) {
                             const checkpoint::File file = checkpoint::File::open_to_read(mine);
                             file.read_at(0, std::as_writable_bytes(std::span(back)));
                           },
                           prepare}};
    take_turns(load, 0, options.rounds, progress, (cold ? 1 : 2) * options.rounds + 1);
    rows.push_back(
        row_of(cold ? "checkpoint_load_cold" : "checkpoint_load_warm", load, cold ? load_bound : 0, options, comm.size()));
  }
  return rows;
}

void print(Rows rows, const Options& options, int ranks) {
  for (JsonValue& row : rows) {
    const JsonView r = row.view();
    const std::string task = r.at("benchmark").string();
    const double bound = r.at("bound").number(), megabytes = static_cast<double>(options.size) * ranks * 1e-3;
    row.set("task", task == "checkpoint_save" ? "save" : task == "checkpoint_load_cold" ? "load, cold" : "load, warm");
    row.set("mb_per_s", megabytes / r.at("min_ms").number());
    row.set("baseline_mb_per_s", megabytes / r.at("baseline_min_ms").number());
    row.set("least", bound > 0 ? fmt::format("{}", bound) : "-");
  }
  fmt::print("{} ranks, {} bytes each, compression {}, {} rounds\n", ranks, options.size, options.compression, options.rounds);
  print_table(rows,
              "{task:<12} {median_ms:>11.1f} {min_ms:>9.1f} {mb_per_s:>8.0f}  {baseline:<14} {baseline_median_ms:>11.1f} "
              "{baseline_min_ms:>9.1f} {baseline_mb_per_s:>8.0f} {speed:>8.3f} {least:>6}",
              {"benchmark", "median ms", "min ms", "MB/s", "baseline", "median ms", "min ms", "MB/s", "speed", "bound"});
  fmt::print("speed: least time of the baseline / least time of Weir. bound: the least speed required, on 4 ranks\n");
}

/// Measures steps with and without a save in flight, and prints the result on rank 0. Returns its row.
JsonValue measure_steps(const Communicator& comm, const Options& options, const std::string& folder) {
  DenseLayers layers(options.count, options.batch);
  Samples samples;
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
      left = over_ranks(std::int64_t{finished(steps + 1) ? 0 : 1}, MPI_MAX);
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
    add(samples, "with", with / static_cast<double>(steps));
    add(samples, "without", without / static_cast<double>(steps));
    add(samples, "steps", steps);
    add(samples, "snapshot", over_ranks(checkpoint.statistics().seconds_snapshot * 1e3, MPI_MAX));
  }
  const std::vector<double>&with = samples["with"], &without = samples["without"];
  const double added = minimum(with) / minimum(without) - 1, in_flight = median(samples["steps"]);
  const std::int64_t snapshot_bytes = over_ranks(checkpoint.statistics().snapshot_bytes, MPI_MAX);
  const std::int64_t saved_bytes = over_ranks(checkpoint.statistics().bytes_written, MPI_SUM);
  const JsonValue row = {{"benchmark", "checkpoint_steps"},
                         {"ranks", comm.size()},
                         {"weights", layers.weights()},
                         {"operations", layers.operations()},
                         {"with_median_ms", median(with)},
                         {"with_min_ms", minimum(with)},
                         {"without_median_ms", median(without)},
                         {"without_min_ms", minimum(without)},
                         {"steps_in_flight", in_flight},
                         {"added", added},
                         {"bound", step_bound},
                         {"snapshot_bytes", snapshot_bytes},
                         {"snapshot_ms", minimum(samples["snapshot"])},
                         {"file_bytes", saved_bytes}};
  if (comm.rank() != 0) return row;
  fmt::print(
      "\nA step: forward and backward pass of {} dense layers of {} x {} floats with a batch of {}, {:.2f} GFLOP; oktopk of {}\n"
      "floats at density 0.01; and momentum. A save: the residual, weights and momentum, {:.1f} MB in the file\n",
      layers.layers(), DenseLayers::width, DenseLayers::width, options.batch, layers.operations() * 1e-9, layers.weights(),
      static_cast<double>(saved_bytes) * 1e-6);
  fmt::print("{:<22} {:>10} {:>10}\n", "step", "median ms", "min ms");
  fmt::print("{:<22} {:>10.1f} {:>10.1f}\n", "without a save", median(without), minimum(without));
  fmt::print("{:<22} {:>10.1f} {:>10.1f}\n", "with one in flight", median(with), minimum(with));
  fmt::print("added: {:.1f} % of a step, by the minima; bound: at most {:.0f} %. A save takes {:.0f} steps (median)\n", added * 100,
             step_bound * 100, in_flight);
  fmt::print("snapshot: {} bytes on the rank that holds most, which take {:.1f} ms of the first of these steps\n", snapshot_bytes,
             minimum(samples["snapshot"]));
  return row;
}

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  const std::string path = make_shared_folder(options.folder, comm.rank());
  const TemporaryFolder folder(comm.rank() == 0 ? path : "");
  Rows rows = measure_files(comm, options, path);
  if (comm.rank() == 0) print(rows, options, comm.size());
  if (options.steps) rows.push_back(measure_steps(comm, options, path));
  MPI_Barrier(MPI_COMM_WORLD);
  if (comm.rank() == 0) write_rows(rows, options.json);
}

}  // namespace

void add_bench_checkpoint(Command& bench) {
  auto [command, options] =
      bench.add("checkpoint", "Measure saving and loading, compared with the disk, and steps while a save is in flight", run);
  command.option("--size", options.size, "bytes that each rank saves").between(std::int64_t{4}, std::int64_t{1} << 40);
  command.option("--folder", options.folder, "folder on the disk to measure, which all ranks must see; nothing stays in it")
      .existing_folder();
  command.option("--compression", options.compression, "compression of arrays; 0: none, 9: smallest").between(0, 9);
  command.option("--iterations", options.rounds, "measured saves, and measured loads").positive();
  command.flag("--steps", options.steps, "also measure training steps while a save is in flight");
  command.option("--count", options.count, "floats of the model that --steps trains")
      .between(std::int64_t{1} << 18, std::int64_t{1} << 31);
  command.option("--batch", options.batch, "samples that a rank computes in a step of --steps").between(1, 65536);
  command.option("--json", options.json, "also write the figures to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench checkpoint --folder /scratch --steps"});
}

}  // namespace weir::cli
