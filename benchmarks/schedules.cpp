// weir-benchmarks schedules: measures oktopk with each of its schedules over several sizes, against MPI_Allreduce of the dense
// array. Start it with mpirun.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "kernels/kernels.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::vector<std::int64_t> counts = {256, 1024, 4096, 16384, 65536, 262144, 524288, 1048576, 4194304};
  std::string json;
  double density = 0.01;
  int radix = 0, iterations = 20, warmup = 3;
};

// Upper bound of automatic choice relative to the best schedule.
constexpr double choice_bound = 1.15;
// Several runs of small arrays are measured together: enough for this many elements.
constexpr std::int64_t elements_at_once = 100000, most_at_once = 50;

class Size {
 public:
  Size(const Communicator& comm, const Options& options, std::int64_t count)
      : comm_(comm), options_(options), count_(count), gradients_(make_gradients(count, comm.rank(), 3)) {
    at_once_ = std::clamp<std::int64_t>(elements_at_once / count, 1, most_at_once);
    for (const std::string_view schedule : schedule_names) {
      // Where ranks share memory, automatic takes it.
      if (schedule == name_of(ExchangeSchedule::shared) && chosen() != schedule) continue;
      names_.push_back(schedule);
      plans_.push_back(std::make_unique<AllreducePlan>(
          comm, AllreduceConfig{.count = count,
                                .density = options.density,
                                .algorithm_parameters = fmt::format("schedule={},radix={}", schedule, options.radix)}));
    }
    in_place_ = std::make_unique<AllreducePlan>(comm, AllreduceConfig{.count = count, .density = options.density});
  }

  void measure(Progress& progress, int done) {
    std::vector<float> dense(gradients_[0]), sum(gradients_[0]);
    ways_ = {{"MPI_Allreduce",
              [&](int) { MPI_Allreduce(MPI_IN_PLACE, dense.data(), static_cast<int>(count_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
              [&](int t) { dense = gradient(t); }},
             {"add", [&](int t) { kernels::host::add(gradient(t).data(), sum.data(), count_); }}};
    for (std::size_t i = 0; i < plans_.size(); ++i)
      ways_.push_back({std::string(names_[i]), [&, p = plans_[i].get()](int t) { p->run_sparse(gradient(t)); }});
    ways_.push_back({"in place", [&](int) { in_place_->run(dense); }, [&](int t) { dense = gradient(t); }});
    for (Way& way : ways_) way.at_once = at_once_;
    take_turns(ways_, options_.warmup, options_.iterations, progress, done);
  }

  void print_header() const {
    fmt::print("{:>10} {:>8} {:>9} {:>9}", "elements", "k", "MPI ms", "add ms");
    for (const std::string_view name : names_) fmt::print(" {:>9}", name);
    fmt::print(" {:>9} {:>9}  {}\n", "in place", "to best", "chosen");
  }
  void print() const {
    const double mpi = median(ways_[0].times);
    fmt::print("{:>10} {:>8} {:>9.4f} {:>9.4f}", count_, plans_[0]->statistics().k, mpi, median(ways_[1].times));
    for (std::size_t i = 2; i < ways_.size(); ++i) fmt::print(" {:>9.3f}", median(ways_[i].times) / mpi);
    fmt::print(" {:>9.3f}  {}\n", to_best(), chosen());
  }
  void add_rows(Rows& rows) const {
    for (const Way& way : ways_)
      rows.push_back(row_of("schedules", way, ways_[0],
                            {{"ran_as", way.name == "automatic" ? chosen() : way.name},
                             {"count", count_},
                             {"density", options_.density},
                             {"ranks", comm_.size()},
                             {"allocations_per_iteration",
                              static_cast<double>(way.allocations) / options_.iterations / static_cast<double>(at_once_)}}));
  }

 private:
  [[nodiscard]] const std::vector<float>& gradient(int t) const {
    return gradients_[static_cast<std::size_t>(t) % gradients_.size()];
  }
  /// Returns the time of automatic choice relative to the fastest schedule.
  [[nodiscard]] double to_best() const {
    const auto best = std::min_element(ways_.begin() + 3, ways_.end() - 1,
                                       [](const Way& a, const Way& b) { return median(a.times) < median(b.times); });
    return median(ways_[2].times) / median(best->times);
  }
  /// Returns the schedule that automatic choice has taken, from the plan's explanation.
  [[nodiscard]] std::string chosen() const {
    constexpr std::string_view begin = "schedule: ";
    const std::string& text = plans_[0]->explanation();
    const std::size_t place = text.find(begin);
    if (place == std::string::npos) return {};
    return text.substr(place + begin.size(), text.find('\n', place) - place - begin.size());
  }

  const Communicator& comm_;
  const Options& options_;
  std::int64_t count_, at_once_ = 1;
  Gradients gradients_;
  std::vector<std::string_view> names_;  // of the schedules
  std::vector<std::unique_ptr<AllreducePlan>> plans_;
  std::unique_ptr<AllreducePlan> in_place_;
  std::vector<Way> ways_;
};

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  const int rounds = options.warmup + options.iterations;
  Progress progress(comm.rank() == 0, "schedules", rounds * static_cast<int>(options.counts.size()));
  Rows rows;
  int done = 0;
  for (const std::int64_t count : options.counts) {
    Size size(comm, options, count);
    size.measure(progress, done);
    done += rounds;
    if (comm.rank() != 0) continue;
    if (rows.empty()) size.print_header();
    size.print();
    size.add_rows(rows);
  }
  if (comm.rank() != 0) return;
  fmt::print(
      "automatic, direct, phased, one_round, shared: time relative to MPI_Allreduce, with sparse results. in place: the same for\n"
      "automatic with the dense result. add: r[i] += g[i] by all ranks at once. to best: automatic relative to the fastest\n"
      "schedule (Weir's goal: at most {}). chosen: the schedule that automatic takes\n",
      choice_bound);
  write_rows(rows, options.json);
}

}  // namespace

void add_schedules(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "schedules", "Measure oktopk with each of its schedules over sizes, compared with MPI_Allreduce; start with mpirun", run);
  command.option("--count", options.counts, "elements of the gradient, one or more sizes separated by commas")
      .between(1, 2147483647)
      .delimiter(',');
  command.option("--density", options.density, "share of entries to deliver").between(1e-9, 1.0);
  command.option("--radix", options.radix, "radix of the phased schedule; 0: the cheapest by the cost functions")
      .one_of({0, 2, 4, 8, 16, 32, 64});
  command.option("--iterations", options.iterations, "measured iterations, each of which runs every variant once").positive();
  command.option("--warmup", options.warmup, "iterations before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
