// weir info: prints versions, build options, topology, transports, settings, and algorithms and compressors with their parameters.
#include <fmt/core.h>
#include <hwloc.h>
#include <weir/mpi.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/origin.hpp"
#include "bootstrap/launch.hpp"
#include "checkpoint/hdf5_file.hpp"
#include "cli/build_info.hpp"
#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"
#include "cli/named_options.hpp"
#include "cli/report.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/communicator.hpp"
#include "compress/compressor.hpp"
#include "contribution/threshold.hpp"
#include "cuda/nccl.hpp"
#include "cuda/runtime.hpp"
#include "datacache/jpeg_image.hpp"
#include "kernels/kernels.hpp"
#include "kernels/read_ahead.hpp"
#include "topology/gpus.hpp"
#include "transport/registry.hpp"

namespace weir::cli {
namespace {

struct Options {
  bool plan = false, algorithms = false, compressors = false, thresholds = false;
  AllreduceConfig config{.count = 4194304, .algorithm = "auto"};
};

void print_nccl() {
  const std::string reason = cuda::why_no_nccl();
  if (reason.empty())
    fmt::print("  NCCL {} for dense plans and in-node sums in CUDA memory\n", cuda::nccl_version_text(cuda::nccl_version()));
  else
    fmt::print("  without NCCL: in CUDA memory sparse plans only, and flat ones. Host memory needs none. {}\n", reason);
}

/// `nearest`: the GPU of each rank.
void print_gpus(const std::vector<int>& nearest) {
  fmt::print("\nGPUs that rank 0 sees\n");
  if (!cuda::why_unusable().empty()) {
    fmt::print("  none: {}\n", cuda::why_unusable());
    return;
  }
  for (int device = 0; device < cuda::device_count(); ++device) {
    const cuda::DeviceInfo gpu = cuda::describe(device);
    const std::int32_t numa = numa_of_pci_device(gpu.bus_id.c_str());
    fmt::print("  {}: {}, compute capability {}.{}, {} MiB, at {}, NUMA node {}\n", device, gpu.name, gpu.major, gpu.minor,
               gpu.bytes >> 20, gpu.bus_id, numa >= 0 ? std::to_string(numa) : "unknown");
  }
  for (std::size_t rank = 0; rank < nearest.size(); ++rank) fmt::print("  rank {} should use its number {}\n", rank, nearest[rank]);
  print_nccl();
}

/// Prints where each rank's progress thread would run, whatever the present setting is.
void print_progress_threads(const detail::CommunicatorState& comm) {
  const ProgressThreadSetting setting = comm.settings.progress_thread;
  fmt::print("\nprogress threads: {}\n", setting == ProgressThreadSetting::off ? "none, WEIR_PROGRESS_THREAD is off. With on:"
                                         : setting == ProgressThreadSetting::on
                                             ? "WEIR_PROGRESS_THREAD is on"
                                             : "one for each rank, on any core, WEIR_PROGRESS_THREAD is anywhere. With on:");
  for (int rank = 0; rank < comm.topology.size(); ++rank) {
    const FreeCore place = free_core(comm.topology, rank);
    fmt::print("  rank {}: {}\n", rank,
               place.core >= 0 ? fmt::format("on core {}", place.core) : fmt::format("not started: {}", place.why));
  }
}

/// Prints the threads of a plan that does not set its own. `settings`: WEIR_THREADS of each rank.
void print_threads(const detail::CommunicatorState& comm, const std::vector<int>& settings) {
  const bool progress_threads = comm.settings.progress_thread != ProgressThreadSetting::off;
  const bool any_set = std::any_of(settings.begin(), settings.end(), [](int threads) { return threads > 0; });
  fmt::print("\nthreads: {}the cores that a rank has for itself\n", any_set ? "as WEIR_THREADS says, else " : "");
  for (int rank = 0; rank < comm.topology.size(); ++rank) {
    const int setting = settings[static_cast<std::size_t>(rank)];
    fmt::print("  rank {}: {}\n", rank, setting > 0 ? setting : own_cores(comm.topology, rank, progress_threads));
  }
}

std::string hwloc_version_text(unsigned version) {
  return fmt::format("{}.{}.{}", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

/// Measures selection from uncached arrays until it is known which variant is faster. This takes milliseconds.
std::string measured_read_ahead() {
  constexpr std::int64_t count = 1 << 23;
  const std::vector<float> gradient(count, 1.0f);
  std::vector<float> residual(count), values(1 + select_padding);
  std::vector<std::uint32_t> indices(1 + select_padding);
  for (int turn = 0; turn < 8; ++turn)
    (void)kernels::host::compensate_select(gradient.data(), residual.data(), count, key_infinity<float>, key_infinity<float>,
                                           indices.data(), values.data(), 1);
  return kernels::host::read_ahead_text();
}

void print_build_and_machine(const Communicator& comm, const std::vector<int>& nearest_gpus, const std::vector<int>& threads) {
  fmt::print("weir {}\n", version_text());
  fmt::print("\nbuild\n");
  fmt::print("  type          {}\n", build_type);
  fmt::print("  compiler      {}\n", build_compiler);
  fmt::print("  sanitizers    {}\n", build_sanitizers[0] != '\0' ? build_sanitizers : "none");
  fmt::print("  hwloc         API {} (built with {})\n", hwloc_version_text(hwloc_get_api_version()),
             hwloc_version_text(HWLOC_API_VERSION));
  fmt::print("  HDF5          {}\n", checkpoint::hdf5_version());
  fmt::print("  JPEG          {}\n", datacache::jpeg_version());
  fmt::print("  threads       {}\n", threads_version());
  fmt::print("  kernels       {}\n", kernels::host::instruction_set());
  fmt::print("  reads ahead   {}\n", measured_read_ahead());
  fmt::print("  started       {}\n", bootstrap::describe(bootstrap::read_launch()));
  fmt::print("\ntransports\n");
  fmt::print("  in use        {}\n", comm.state()->transport->name());
  for (const TransportRow* row : transport_registry())
    fmt::print("  {:<13} {}{}{}{}\n", row->name, row->description, row->shared_segments ? "; memory that a node shares" : "",
               row->native_allreduce ? "; an allreduce of its own" : "", row->gpu_memory ? "; CUDA memory" : "");
  fmt::print("  CUDA memory   {}\n", comm.state()->device_path.why);
  print_gpus(nearest_gpus);
  print_threads(*comm.state(), threads);
  print_progress_threads(*comm.state());
  fmt::print("\nallreduce algorithms\n");
  for (const AlgorithmInfo& algorithm : algorithms()) fmt::print("  {:<22} {}\n", algorithm.name, algorithm.description);
  fmt::print("\nsettings\n");
  for (const SettingInfo& setting : settings())
    fmt::print("  {:<20} {:<8} ({}) {}\n", setting.name, setting.value, setting.origin, setting.description);
  fmt::print("\ntopology: {} rank{}\n", comm.size(), comm.size() == 1 ? "" : "s");
  fmt::print("{}", comm.topology());
}

std::string range_of(const ParameterInfo& parameter) {
  if (parameter.words.empty()) return fmt::format("{} to {}", parameter.least, parameter.most);
  return joined(parameter.words);
}

void print_parameters(std::span<const ParameterInfo> parameters) {
  for (const ParameterInfo& parameter : parameters)
    fmt::print("    {:<18}{} ({}): {}\n", parameter.name, text_of(parameter, parameter.value), range_of(parameter), parameter.doc);
}

void print_counter(const CounterInfo& counter) { fmt::print("    counts {:<21}: {}\n", counter.name, counter.doc); }

void print_algorithms() {
  fmt::print(
      "Values of AllreduceConfig::algorithm, besides auto and auto_sparse. Form of parameters: name default (range): meaning\n");
  for (const AllreduceRow& row : allreduce_registry()) {
    fmt::print("\n  {:<22}{}\n", row.name, row.description);
    print_parameters(row.parameters);
    row.for_each_counter(print_counter);
  }
}

void print_compressor(const compress::CompressorRow& row) {
  fmt::print("\n  {:<20}{}\n", row.name, row.description);
  fmt::print("    source            {}\n", row.source);
  fmt::print("    error feedback    {}\n", row.feedback ? "on by default" : "off by default");
  fmt::print("    random            {}\n", row.random ? "yes, by `seed`" : "no: deterministic");
  print_parameters(row.parameters);
}

void print_compressors() {
  using compress::Carriage;
  fmt::print("Values of AllreduceConfig::compressor, besides none. Form of parameters: name default (range): meaning\n");
  for (const Carriage carriage : {Carriage::packed, Carriage::sparse, Carriage::linear}) {
    std::vector<std::string_view> carriers;
    for (const AllreduceRow& row : allreduce_registry()) {
      if (!row.host_memory) continue;  // the results of linear compressors are summed in host memory
      if (carriage == Carriage::sparse ? row.sparse() : carriage == Carriage::packed ? row.packed() : row.dense())
        carriers.push_back(row.name);
    }
    fmt::print("\n{}, carried by {}\n", compress::name_of(carriage), joined(carriers));
    for (const compress::CompressorRow* row : compress::compressor_registry()) {
      if (row->carriage == carriage) print_compressor(*row);
    }
  }
}

void print_thresholds() {
  for (const ThresholdRow* row : threshold_registry()) {
    fmt::print("  {:<12} {}{}{}{}\n", row->name, row->description, row->source.empty() ? "" : " (", row->source,
               row->source.empty() ? "" : ")");
    print_parameters(row->parameters);
  }
}

/// Returns the configuration with --compressor and --compressor-parameters.
AllreduceConfig config_of(const Options& options) {
  AllreduceConfig config = options.config;
  if (!config.compressor.empty() || !config.compressor_parameters.empty()) {
    const std::vector<std::string> items(config.compressor.empty() ? 0 : 1, config.compressor);
    config.compressor_parameters = named_compressors(items, config.compressor_parameters)[0].parameters;
  }
  return config;
}

void run(const Options& options) {
  const AllreduceConfig config = config_of(options);
  if (options.algorithms) return print_algorithms();
  if (options.compressors) return print_compressors();
  if (options.thresholds) return print_thresholds();
  start_mpi();
  const Communicator comm(MPI_COMM_WORLD);
  if (!options.plan) {
    const auto of_all_ranks = [&](int mine) {
      std::vector<int> all(static_cast<std::size_t>(comm.size()));
      MPI_Gather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
      return all;
    };
    const std::vector<int> nearest_gpus = of_all_ranks(comm.nearest_gpu()), threads = of_all_ranks(comm.state()->settings.threads);
    if (comm.rank() == 0) print_build_and_machine(comm, nearest_gpus, threads);
    return;
  }
  const AllreducePlan plan(comm, config);
  if (comm.rank() == 0) fmt::print("{}memory: {} bytes a rank, besides the gradient\n", plan.explanation(), plan.memory_bytes());
}

}  // namespace

void add_info(Command& app) {
  auto options = std::make_shared<Options>();
  Command command = app.add("info", "Print versions, build options, transports, settings and topology; with mpirun, of all ranks");
  const Option plan =
      command.flag("--plan", options->plan, "instead, make a plan for these ranks and explain which algorithm it uses");
  command.flag("--algorithms", options->algorithms,
               "instead, list the allreduce algorithms and their parameters, with defaults and ranges");
  command.flag("--compressors", options->compressors,
               "instead, list the compressors, their sources, the algorithms that carry them, and their parameters");
  command.flag("--thresholds", options->thresholds,
               "instead, list the selection methods and their parameters, with defaults and ranges");
  AllreduceConfig& config = options->config;
  const auto [threshold, threshold_parameters] = add_threshold(command, config.threshold, config.threshold_parameters);
  for (const Option& of_plan : {
           threshold,
           threshold_parameters,
           command.option("--count", config.count, "elements of the plan's gradient").non_negative(),
           command.option("--density", config.density, "share of entries that sparse algorithms deliver").between(1e-9, 1.0),
           command.option("--algorithm", config.algorithm, "auto, auto_sparse or a name that --algorithms lists"),
           add_algorithm_parameters(command, config.algorithm_parameters),
           command.option("--compressor", config.compressor,
                          "a name that --compressors lists, or none; of several names joined by |, automatic choice takes one"),
           add_compressor_parameters(command, config.compressor_parameters),
           add_named(command, "--values", config.wire_values, "narrowest type of values in messages"),
       })
    of_plan.needs(plan);
  command.examples({"weir info", "mpirun -n 8 weir info --plan --count 25557032"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
