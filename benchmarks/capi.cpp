// weir-benchmarks capi: measures the cost of the C interface on top of the C++ one, per call, on one rank.
#include <fmt/core.h>
#include <weir/mpi.h>

#include <array>
#include <functional>

#include "benchmarks/benchmarks.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 1;
  int calls = 100000, rounds = 7;
  std::string json;
};

/// A call in both languages.
struct Pair {
  const char* name;
  std::function<void()> in_c, in_cpp;
};

void need_ok(weir_status status) {
  if (status != WEIR_OK) throw Error(status, weir_last_error(nullptr));
}

double microseconds(int calls, const std::function<void()>& call) {
  return 1e3 / calls * milliseconds_of([&] {
           for (int i = 0; i < calls; ++i) call();
         });
}

/// Measures both in turns.
JsonValue measure(const Options& options, const Pair& pair) {
  std::vector<double> in_c, in_cpp;  // us
  for (int round = 0; round < options.rounds; ++round) {
    in_c.push_back(microseconds(options.calls, pair.in_c));
    in_cpp.push_back(microseconds(options.calls, pair.in_cpp));
  }
  return result_row({{"benchmark", "capi"},
                     {"algorithm", pair.name},
                     {"count", options.count},
                     {"median_ms", median(in_c) * 1e-3},
                     {"min_ms", minimum(in_c) * 1e-3},
                     {"baseline", "C++"},
                     {"baseline_ms", median(in_cpp) * 1e-3},
                     {"ratio", median(in_c) / median(in_cpp)}});
}

void print(const Options& options, const Rows& rows) {
  fmt::print("Calls of a plan of {} float(s) on one rank, oktopk: medians of {} rounds of {} calls.\n\n", options.count,
             options.rounds, options.calls);
  fmt::print("{:<24} {:>10} {:>10} {:>16}\n", "call", "C us", "C++ us", "C over C++ us");
  for (const JsonValue& row : rows) {
    const double in_c = number_of(row, "median_ms") * 1e3, in_cpp = number_of(row, "baseline_ms") * 1e3;
    fmt::print("{:<24} {:>10.3f} {:>10.3f} {:>16.3f}\n", row.view().at("algorithm").string(), in_c, in_cpp, in_c - in_cpp);
  }
}

void run(const Options& options) {
  require_writable(options.json);
  start_mpi();
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 1) throw std::runtime_error("bench capi measures calls, not messages: start it without mpirun, or with -n 1");
  weir_comm* comm = nullptr;
  weir_plan* plan = nullptr;
  need_ok(weir_comm_create_world(&comm));
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  config.count = options.count;
  need_ok(weir_plan_create(comm, &config, &plan));

  const Communicator communicator(MPI_COMM_WORLD);
  AllreducePlan same(communicator, {.count = options.count});
  std::vector<float> gradient(static_cast<std::size_t>(options.count), 1.0F);
  weir_statistics statistics{};
  statistics.struct_size = sizeof statistics;
  Statistics copy;
  const std::array pairs = {
      Pair{"weir_plan_run", [&] { need_ok(weir_plan_run(plan, gradient.data())); }, [&] { same.run(gradient); }},
      Pair{"weir_plan_start and wait",
           [&] {
             need_ok(weir_plan_start(plan, gradient.data()));
             need_ok(weir_plan_wait(plan));
           },
           [&] { same.start(gradient).wait(); }},
      Pair{"weir_plan_get_statistics", [&] { need_ok(weir_plan_get_statistics(plan, &statistics)); },
           [&] { copy = same.statistics(); }}};
  Rows rows;
  for (const Pair& pair : pairs) rows.push_back(measure(options, pair));
  print(options, rows);
  write_rows(rows, options.json);
  need_ok(weir_plan_destroy(plan));
  need_ok(weir_comm_destroy(comm));
}

}  // namespace

void add_capi(Command& benchmarks) {
  auto [command, options] =
      benchmarks.add("capi", "Measure the cost of calls of the C interface, compared with the C++ interface, on one rank", run);
  command.option("--count", options.count, "elements of the gradient").positive();
  command.option("--calls", options.calls, "calls in a round").positive();
  command.option("--rounds", options.rounds, "rounds of each interface, in turns").positive();
  command.option("--json", options.json, "also write the rows to this file");
}

}  // namespace weir::cli
