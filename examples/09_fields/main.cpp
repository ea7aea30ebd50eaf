// fields: each rank runs a member of an ensemble of Gray-Scott simulations. Now and then all ranks average their fields: densely,
// and by Weir's compressor error_bounded, whose every element is within a bound.
#include <mpi.h>
#include <weir/mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gray_scott.hpp"

namespace {

struct Options {
  int edge = 512, steps = 1000, every = 200;
  std::vector<double> relative = {1e-3, 1e-4};
  bool rows = true;
  std::string algorithm, json;
};

/// Averages fields over all ranks.
class Way {
 public:
  explicit Way(std::string name) : name_(std::move(name)) {}
  virtual ~Way() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the largest error that is promised, as a part of the range of the values, or 0.
  [[nodiscard]] virtual double relative() const { return 0; }
  virtual void take(std::span<const float> field) = 0;
  /// Collective. Averages what was taken. Returns the bytes that this rank has sent.
  virtual std::int64_t average() = 0;
  [[nodiscard]] virtual double mean(std::size_t i) const = 0;

 private:
  std::string name_;
};

template <class T>
class MpiAllreduce final : public Way {
 public:
  MpiAllreduce(std::string name, int ranks) : Way(std::move(name)), ranks_(ranks) {}
  void take(std::span<const float> field) override { values_.assign(field.begin(), field.end()); }
  std::int64_t average() override {
    constexpr bool is_double = sizeof(T) == sizeof(double);
    const auto count = static_cast<int>(values_.size());
    MPI_Allreduce(MPI_IN_PLACE, values_.data(), count, is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (T& value : values_) value /= static_cast<T>(ranks_);
    return 2 * static_cast<std::int64_t>(values_.size() * sizeof(T)) * (ranks_ - 1) / ranks_;  // MPI does not tell
  }
  [[nodiscard]] double mean(std::size_t i) const override { return static_cast<double>(values_[i]); }

 private:
  int ranks_;
  std::vector<T> values_;
};

class WeirPlan final : public Way {
 public:
  WeirPlan(std::string name, const weir::Communicator& comm, const weir::AllreduceConfig& config, double relative = 0)
      : Way(std::move(name)), plan_(comm, config), relative_(relative) {}
  [[nodiscard]] double relative() const override { return relative_; }
  void take(std::span<const float> field) override { values_.assign(field.begin(), field.end()); }
  std::int64_t average() override {
    plan_.run(std::span(values_));
    return plan_.statistics().payload_bytes_sent + plan_.statistics().control_bytes_sent;
  }
  [[nodiscard]] double mean(std::size_t i) const override { return static_cast<double>(values_[i]); }

 private:
  weir::AllreducePlan plan_;
  double relative_;
  std::vector<float> values_;
};

std::string text_of(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::fixed).ptr};
}

/// Returns whether all ranks share the memory of one machine.
bool on_one_node(int ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  int size = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  return size == ranks;
}

/// The first one is of float64, and the others are compared with it.
std::vector<std::unique_ptr<Way>> make_ways(const Options& options, const weir::Communicator& comm) {
  std::vector<std::unique_ptr<Way>> ways;
  ways.push_back(std::make_unique<MpiAllreduce<double>>("MPI_Allreduce, float64", comm.size()));
  ways.push_back(std::make_unique<MpiAllreduce<float>>("MPI_Allreduce, float32", comm.size()));
  weir::AllreduceConfig config;
  config.count = std::int64_t{options.edge} * options.edge;
  config.algorithm = "dense_ring";
  ways.push_back(std::make_unique<WeirPlan>("Weir, dense_ring", comm, config));
  config.algorithm = options.algorithm;
  config.compressor = "error_bounded";
  constexpr int least_row = 64;
  const std::string row = options.rows && options.edge >= least_row ? ",row=" + std::to_string(options.edge) : "";
  for (const double relative : options.relative) {
    const std::string bound = "relative=" + text_of(relative);
    config.compressor_parameters = bound + row;
    ways.push_back(std::make_unique<WeirPlan>("Weir, " + bound, comm, config, relative));
  }
  return ways;
}

/// What one way took to average one field.
struct Measured {
  int step;
  const char* field;
  const Way* way;
  double seconds;  // on the slowest rank; all begin at once
  double bytes;    // sent by the rank that sends most
  double error;    // the largest of all elements, as a part of the range of the values
  bool held;       // no element of any rank is further off than the bound
};

double most_of_all(double x) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return x;
}

/// Collective. Averages a field of all members in every way.
void average(const std::vector<std::unique_ptr<Way>>& ways, std::span<const float> field, int step, const char* name,
             std::vector<Measured>& all) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto [least, most] = std::minmax_element(field.begin(), field.end());
  const double range = most_of_all(static_cast<double>(*most)) + most_of_all(-static_cast<double>(*least));
  for (const auto& way : ways) {
    way->take(field);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const std::int64_t bytes = way->average();
    const double seconds = MPI_Wtime() - begin;

    const double bound = way->relative() * range;
    double error = 0;
    bool held = true;
    for (std::size_t i = 0; i < field.size(); ++i) {
      const double right = ways[0]->mean(i), off = std::abs(way->mean(i) - right);
      // Float32 itself rounds each addition and the division.
      const double rounded = (ranks + 2) * 0x1p-24 * std::abs(right);
      error = std::max(error, off);
      held = held && (way->relative() == 0 || off <= bound + rounded);
    }
    all.push_back({step, name, way.get(), most_of_all(seconds), most_of_all(static_cast<double>(bytes)),
                   range > 0 ? most_of_all(error) / range : 0, most_of_all(held ? 0 : 1) == 0});
  }
}

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// Prints a row for each way, with medians over all fields: a table that Markdown reads, too.
void print_table(const std::vector<std::unique_ptr<Way>>& ways, const std::vector<Measured>& all) {
  const auto median_of = [&](const Way& way, double Measured::*figure) {
    std::vector<double> x;
    for (const Measured& one : all) {
      if (one.way == &way) x.push_back(one.*figure);
    }
    return median(x);
  };
  const double dense_bytes = median_of(*ways[1], &Measured::bytes), dense_seconds = median_of(*ways[1], &Measured::seconds);
  std::printf("| %-22s | %12s | %12s | %9s | %12s | %13s | %9s |\n", "average by", "MB sent", "of float32's", "seconds", "speed",
              "largest error", "bound");
  std::printf("| ---------------------- | -----------: | -----------: | --------: | -----------: | ------------: | --------: |\n");
  for (const auto& way : ways) {
    const double bytes = median_of(*way, &Measured::bytes), seconds = median_of(*way, &Measured::seconds);
    double error = 0;
    for (const Measured& one : all) {
      if (one.way == way.get()) error = std::max(error, one.error);
    }
    std::printf("| %-22s | %12.4f | %10.1f %% | %9.5f | %12.2f | %13.2e | %9s |\n", way->name().c_str(), bytes / 1e6,
                dense_bytes > 0 ? 100 * bytes / dense_bytes : 0, seconds, dense_seconds / seconds, error,
                way->relative() > 0 ? text_of(way->relative()).c_str() : "-");
  }
}

/// Writes a row on a line of its own, for scripts.
void write_json(const Options& options, int ranks, const std::vector<Measured>& all) {
  std::ofstream file(options.json);
  const char* before = "[\n";
  for (const Measured& one : all) {
    const nlohmann::json row = {{"ranks", ranks},
                                {"edge", options.edge},
                                {"algorithm", one.way->relative() > 0 ? options.algorithm : ""},
                                {"step", one.step},
                                {"field", one.field},
                                {"way", one.way->name()},
                                {"seconds", one.seconds},
                                {"bytes_sent", one.bytes},
                                {"error", one.error},
                                {"bound", one.way->relative()},
                                {"held", one.held}};
    file << before << row.dump();
    before = ",\n";
  }
  file << "\n]\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
}

void run(Options options) {
  const weir::Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0 && !options.json.empty() && !std::ofstream(options.json, std::ios::app))
    throw std::runtime_error("cannot write " + options.json);
  // Where ranks share a node, packed_reduce_scatter sums in their memory, and compresses only what leaves the node.
  if (options.algorithm.empty()) options.algorithm = on_one_node(comm.size()) ? "packed_allgather" : "packed_reduce_scatter";
  const std::vector<std::unique_ptr<Way>> ways = make_ways(options, comm);
  fields::GrayScott member(options.edge, comm.rank());
  std::vector<Measured> all;
  average(ways, member.v(), 0, "v", all);  // the first run of each way takes longer
  all.clear();
  for (int step = 1; step <= options.steps; ++step) {
    member.step();
    if (step % options.every != 0) continue;
    average(ways, member.u(), step, "u", all);
    average(ways, member.v(), step, "v", all);
  }
  if (comm.rank() == 0) {
    std::printf("%d members of %d x %d cells: u and v, averaged after each %d of %d steps, by %s\n\n", comm.size(), options.edge,
                options.edge, options.every, options.steps, options.algorithm.c_str());
    print_table(ways, all);
    std::printf("\nMedians of a field's average. Errors and bounds are parts of the range of all members' values.\n");
    if (!options.json.empty()) write_json(options, comm.size(), all);
  }
  for (const Measured& one : all) {
    if (!one.held)
      throw std::runtime_error(one.way->name() + ": " + one.field + " at step " + std::to_string(one.step) +
                               " is further off than the bound");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Averages the fields of an ensemble of simulations, densely and within a bound on the error of every element. Start it with "
      "mpirun: each rank is a member.");
  app.add_option("--edge", options.edge, "cells along each edge of the plane")->check(CLI::Range(2, 32768))->capture_default_str();
  app.add_option("--steps", options.steps, "steps of the simulation")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--every", options.every, "steps between two averages")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--relative", options.relative, "bounds, as parts of the range of the values")
      ->check(CLI::Range(1e-9, 1.0))
      ->delimiter(',')
      ->default_str("0.001,0.0001");
  app.add_flag("--rows,!--no-rows", options.rows,
               "tell error_bounded how long a row of cells is (the default, from 64 on), which saves bytes, or not");
  app.add_option("--algorithm", options.algorithm,
                 "what carries error_bounded: packed_reduce_scatter (between nodes the default), packed_allgather (within one)");
  app.add_option("--json", options.json, "where rank 0 writes what each average took");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help is no error
  }
  if (options.every > options.steps) {
    std::fprintf(stderr, "fields: --every is %d: it must be at most --steps, %d\n", options.every, options.steps);
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fields: %s\n", error.what());
    // The other ranks may wait for this one in a collective call, so all must end.
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
