// result_hashes.cpp: prints one line per plan: a hash of what its runs deliver, keep and send, on every rank. It is not a test.
// Print the lines before and after a change that must not change results, and compare them (diff), on the same kind of machine.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/splitmix.hpp"
#include "collectives/allreduce.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/counters.hpp"
#include "support/inproc_ranks.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

class Hash {
 public:
  void add_bytes(const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ull;  // FNV-1a
  }
  template <class V>
  void add(const V& value) {
    add_bytes(&value, sizeof(V));
  }
  template <class V>
  void add_all(std::span<const V> values) {
    add_bytes(values.data(), values.size_bytes());
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

/// Returns magnitudes over 20 octaves, similar on all ranks, with ties, by integer arithmetic alone.
template <class T>
std::vector<T> gradient(std::int64_t count, int rank, int t) {
  std::vector<T> g(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::uint64_t common = splitmix64(i), own = splitmix64(common + static_cast<std::uint64_t>(1000 * t + rank + 1));
    const auto mantissa = static_cast<std::int64_t>((common >> 40) % 512 + (own >> 40) % 256) - 384;
    g[i] = static_cast<T>(mantissa) / static_cast<T>(1 << (common % 20));
  }
  return g;
}

struct Machine {
  int ranks;
  const char* description;
};
constexpr std::array machines = {Machine{1, ""}, Machine{3, ""}, Machine{4, "node:2 rank:2"}, Machine{5, "nodes:2,3"},
                                 Machine{8, "node:4 rank:2"}};

template <class T>
std::uint64_t hash_of(const Machine& machine, const AllreduceConfig& config) {
  constexpr int runs = 7, bad_run = 5;
  std::vector<Hash> hashes(static_cast<std::size_t>(machine.ranks));
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              Hash& hash = hashes[static_cast<std::size_t>(comm.rank())];
              AllreducePlan plan(comm, config);
              const bool sparse = find_allreduce(config.algorithm).sparse();
              for (int t = 0; t < runs; ++t) {
                std::vector<T> g = gradient<T>(config.count, comm.rank(), t);
                const Counters before = counters_of(plan);
                if (t == bad_run && comm.rank() == 0 && config.count > 0) g[0] = std::numeric_limits<T>::infinity();
                if (sparse && t % 3 == 2)
                  plan.run_sparse(std::span<const T>(g));
                else
                  plan.run(g);
                const Statistics& s = plan.statistics();
                hash.add_all(std::span<const T>(g));
                for (const std::int64_t number : {s.iteration, s.k, s.selected_local, s.selected_global, s.payload_bytes_sent,
                                                  s.payload_bytes_received, s.control_bytes_sent, s.control_bytes_received})
                  hash.add(number);
                hash.add_all(std::span<const std::int64_t>(s.messages_sent));
                const Counters after = counters_of(plan);
                const auto in_this_run = [&](std::string_view name) { return counted(before, after, name); };
                for (const bool flag : {in_this_run("recut"), in_this_run("balanced"), s.skipped}) hash.add(flag);
                if (!sparse) continue;
                hash.add(in_this_run("rethresholded") || in_this_run("global_rethresholded"));
                const SparseView<T> update = plan.sparse_result<T>();
                hash.add_all(update.indices);
                hash.add_all(update.values);
                hash.add(plan.residual_begin());
                hash.add_all(plan.residual<T>());
              }
            },
            {.seed = 7, .machine = machine.description});
  Hash all;
  for (const Hash& hash : hashes) all.add(hash.value());
  return all.value();
}

template <class T>
void print(const Machine& machine, const AllreduceConfig& config) {
  std::printf(
      "%s %s P %d '%s' n %" PRId64 " k %" PRId64 " %s wire %d/%d warm-up %" PRId64 "/%" PRId64 " feedback %d: %016" PRIx64 "\n",
      config.algorithm.c_str(), sizeof(T) == 4 ? "float32" : "float64", machine.ranks, machine.description, config.count, config.k,
      config.threshold.c_str(), static_cast<int>(config.wire_format), static_cast<int>(config.wire_values), config.dense_iterations,
      config.warmup_iterations, config.error_feedback != Feedback::none, hash_of<T>(machine, config));
}

template <class T>
void print_all(const AllreduceRow& row, const Machine& machine) {
  if (row.packed() && sizeof(T) == 8) return;
  AllreduceConfig config{.count = 6007,
                         .type = data_type_of<T>,
                         .algorithm = std::string(row.name),
                         .algorithm_parameters = parameters_for(row.name, "boundary_period=4"),
                         .non_finite = NonFinite::skip};
  for (const std::int64_t n : {0, 1, 6007}) {
    config.count = n;
    config.k = std::min<std::int64_t>(n, 61);
    print<T>(machine, config);
  }
  if (!row.sparse()) return;
  for (const std::string& threshold : all_thresholds) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      if (sizeof(T) == 8 && values != WireValues::native) continue;
      for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
        AllreduceConfig other = config;
        set_threshold(other, threshold);
        other.wire_values = values;
        other.wire_format = format;
        print<T>(machine, other);
      }
    }
  }
  AllreduceConfig other = config;
  other.dense_iterations = 1;
  other.warmup_iterations = 2;
  print<T>(machine, other);
  other = config;
  other.error_feedback = Feedback::none;
  print<T>(machine, other);
  for (const std::int64_t k : {std::int64_t{0}, config.count}) {
    other = config;
    other.k = k;
    print<T>(machine, other);
  }
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;
    for (const test::Machine& machine : test::machines) {
      test::print_all<float>(row, machine);
      test::print_all<double>(row, machine);
    }
  }
}
