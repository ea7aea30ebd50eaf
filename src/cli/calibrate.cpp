// weir calibrate: measures the machine on which mpirun has started it, and writes a machine file.
#include "model/calibrate.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/origin.hpp"
#include "base/standard_error.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/communicator.hpp"
#include "model/lookup.hpp"

namespace weir::cli {
namespace {

constexpr int calibrate_tag = 0;
constexpr int allreduce_count = 1 << 22, allreduce_repeats = 5;

struct Options {
  std::string output;
  double seconds = 10;
};

struct Calibration {
  double seconds;
  Machine machine;
};

task<void> measure(Channel channel, Calibration& calibration) {
  calibration.machine =
      co_await calibrate(channel, calibration.seconds, [](const char* what) { print_error("measuring: {}\n", what); });
}

/// Returns the slowest rank's seconds, median.
double mpi_allreduce_seconds() {
  std::vector<float> data(allreduce_count);
  std::vector<double> times;
  for (int i = 0; i <= allreduce_repeats; ++i) {
    const double ms =
        milliseconds([&] { MPI_Allreduce(MPI_IN_PLACE, data.data(), allreduce_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    if (i > 0) times.push_back(ms * 1e-3);
  }
  return median(std::move(times));
}

void describe_origin(const Communicator& comm, const Options& options, Provenance& provenance) {
  provenance.host = host_name();
  provenance.date = utc_text(std::time(nullptr));
  provenance.mpi = comm.state()->transport->name();
  provenance.weir = version_text();
  provenance.command = fmt::format("weir calibrate --seconds {}", options.seconds);
}

void print(const Machine& machine) {
  fmt::print("{:<14} {:>12} {:>12} {:>14} {:>14} {:>14}\n", "level", "latency us", "overhead us", "bandwidth MB/s", "exchange MB/s",
             "shared MB/s");
  for (int level = 0; level < level_count; ++level) {
    if (!machine.has(static_cast<Level>(level))) continue;
    const Link& link = machine.link(static_cast<Level>(level));
    fmt::print("{:<14} {:>12.2f} {:>12.2f} {:>14.1f} {:>14.1f} {:>14.1f}\n", level_name(static_cast<Level>(level)),
               link.latency * 1e6, link.overhead * 1e6, link.bandwidth / 1e6, link.exchange / 1e6, link.shared / 1e6);
  }
  fmt::print(
      "latency: one way, of a message of a few bytes. overhead: time of each such message if many are in flight. bandwidth:\n"
      "one rank sends to another. exchange: in each direction, two ranks send to each other at once. shared: all ranks of a\n"
      "node send at once\n");
  const auto print_rate = [](const char* name, double rate, const char* unit, const char* what) {
    fmt::print("{:<10} {:>9.1f} {:<20} {}\n", name, rate / 1e6, unit, what);
  };
  const Rates& r = machine.rates;
  fmt::print("\nSpeed of one rank while all others of its node compute, too\n");
  print_rate("add", r.add, "MB/s", "of x in y += x");
  print_rate("select", r.select, "million elements/s", "adding the gradient to the residual, and selecting 1 % of the sums");
  print_rate("fill", r.fill, "million elements/s", "setting a dense result to zero");
  print_rate("cut", r.cut, "million entries/s", "choosing exactly k of slightly more entries");
  print_rate("scatter", r.scatter, "million entries/s", "removing entries from the residual, and writing them to the dense result");
  print_rate("merge", r.merge, "million entries/s", "adding two sparse vectors; entries of both count");
  print_rate("encode", r.encode, "million entries/s", "writing a message");
  print_rate("decode", r.decode, "million entries/s", "reading a message");
  fmt::print("{:<10} {:>9.2f} {:<20} {}\n", "mpi", machine.mpi_allreduce_factor, "",
             "time of MPI_Allreduce, relative to the formula of dense_ring");
}

/// Returns where to write the machine file. Makes the folder.
std::string output_file(const Options& options, int ranks) {
  if (!options.output.empty()) return options.output;
  if (ranks == 1)
    throw std::runtime_error(
        "one rank has nobody to talk to, so this would become the machine file of this host with a network that nobody has "
        "measured: start it with mpirun -n 2 or more, or name a file with --output");
  std::string own = own_machine_file();
  if (own.empty()) throw Error(WEIR_ERR_ARGUMENT, "neither XDG_CONFIG_HOME nor HOME is set: name a file with --output");
  std::filesystem::create_directories(std::filesystem::path(own).parent_path());
  return own;
}

void warn_of_crowding(const Communicator& comm) {
  const auto ranks = static_cast<long>(comm.state()->topology.node_peers().size()), processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (ranks > processors)
    fmt::print(
        stderr,
        "caution: {} ranks share {} processors here: they wait for each other, and what is measured holds for such jobs only\n",
        ranks, processors);
}

/// Prints which commands and plans will use the file.
void print_use(const std::string& file) {
  fmt::print("\nwritten to {}\n", file);
  if (file == own_machine_file())
    fmt::print(
        "jobs whose rank 0 is on this host use it from now on: plans with algorithm auto, routing of tables, `weir predict`\n");
  else
    fmt::print("to use it: WEIR_MACHINE={} for plans with algorithm auto and for tables, `weir predict --machine {}`\n", file,
               file);
}

void run(const Options& options) {
  start_mpi();
  const Communicator comm(MPI_COMM_WORLD);
  std::string file;
  if (comm.rank() == 0) {
    file = output_file(options, comm.size());
    require_writable(file);
    warn_of_crowding(comm);
  }
  Calibration calibration{options.seconds, {}};
  comm.state()->run_blocking("weir calibrate", calibrate_tag, [&](Channel channel) { return measure(channel, calibration); });
  Machine& machine = calibration.machine;
  if (comm.size() > 1) {
    const Problem problem = make_problem(comm.state()->topology, allreduce_count, allreduce_count);
    const Cost ring = dense_ring_row.cost(machine, problem);
    machine.mpi_allreduce_factor = mpi_allreduce_seconds() / (ring.in_node + ring.exchange);
  }
  if (comm.rank() != 0) return;
  describe_origin(comm, options, machine.provenance);
  print(machine);
  write_machine(machine, file);
  print_use(file);
  if (comm.size() == 1) fmt::print("one rank cannot measure a network: the levels are built-in figures; start it with mpirun\n");
}

}  // namespace

void add_calibrate(Command& app) {
  auto [command, options] =
      app.add("calibrate", "Measure this machine for predictions and automatic choice; start with mpirun on all its nodes", run);
  command.option("--output", options.output, "machine file to write; default: the one where Weir looks for this host's own");
  command.option("--seconds", options.seconds, "approximate time to measure, in seconds").between(0.1, 3600.0);
  command.examples({"mpirun -n 8 weir calibrate"});
}

}  // namespace weir::cli
