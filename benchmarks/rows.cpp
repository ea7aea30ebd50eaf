// weir-benchmarks rows: measures an embedding table's work on float32 rows in one thread: gathering a batch's rows, and adding up
// the gradients of equal ids. Compares with memcpy of as many bytes.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "base/buffer.hpp"
#include "benchmarks/benchmarks.hpp"
#include "cli/embedding_batches.hpp"
#include "cli/report.hpp"
#include "kernels/kernels.hpp"

namespace weir::cli {
namespace {

// Lower bounds, as shares of memcpy's speed.
constexpr double gather_bound = 0.5, coalesce_bound = 0.25;

struct Options {
  std::int64_t rows = 32000, tokens = 4096;
  std::vector<std::int64_t> widths{512};
  int iterations = 51;
  std::string json;
};

struct Batch {
  std::vector<std::uint32_t> ids;           ///< of the tokens
  std::vector<std::uint32_t> order, first;  ///< tokens by id, and where each id's tokens begin: arguments of coalesce_rows

  [[nodiscard]] std::int64_t distinct() const { return static_cast<std::int64_t>(first.size()) - 1; }
};

Batch make_batch(ZipfIds& zipf, std::int64_t tokens) {
  Batch batch;
  batch.ids.resize(static_cast<std::size_t>(tokens));
  for (std::uint32_t& id : batch.ids) id = zipf.next();
  batch.order.resize(batch.ids.size());
  std::iota(batch.order.begin(), batch.order.end(), 0u);
  const auto id_of = [&](std::uint32_t token) { return batch.ids[token]; };
  std::stable_sort(batch.order.begin(), batch.order.end(), [&](std::uint32_t a, std::uint32_t b) { return id_of(a) < id_of(b); });
  for (std::size_t i = 0; i < batch.order.size(); ++i) {
    if (i == 0 || id_of(batch.order[i]) != id_of(batch.order[i - 1])) batch.first.push_back(static_cast<std::uint32_t>(i));
  }
  batch.first.push_back(static_cast<std::uint32_t>(tokens));
  return batch;
}

Buffer<float> make_values(std::int64_t count) {
  std::mt19937 random(2);
  Buffer<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random()) * 0x1p-32f - 0.5f;
  return values;
}

/// A table, the vectors looked up in it, and their gradients.
class Tables {
 public:
  Tables(std::int64_t rows, std::int64_t width, std::int64_t tokens)
      : width_(width),
        table_(make_values(rows * width)),
        gradients_(make_values(tokens * width)),
        vectors_(make_values(tokens * width)),
        sums_(make_values(tokens * width)),
        copy_(make_values(tokens * width)) {}

  void gather(const Batch& batch) {
    kernels::host::gather_rows(table_.data(), width_, batch.ids.data(), static_cast<std::int64_t>(batch.ids.size()), width_,
                               vectors_.data(), width_);
  }
  void coalesce(const Batch& batch) {
    kernels::host::coalesce_rows(gradients_.data(), width_, batch.order.data(), batch.first.data(), batch.distinct(), sums_.data());
  }
  /// The gradients stand for ones that have just been computed.
  void copy(std::int64_t count) {
    std::memcpy(copy_.data(), gradients_.data(), static_cast<std::size_t>(count) * sizeof(float));
    asm volatile("" ::"r"(copy_.data()) : "memory");  // otherwise the compiler removes copies that are not read
  }

  /// Throws unless the last gather and coalesce were for this batch and have the right results.
  void check(const Batch& batch) {
    const auto tokens = static_cast<std::int64_t>(batch.ids.size());
    kernels::reference::gather_rows(table_.data(), width_, batch.ids.data(), tokens, width_, copy_.data(), width_);
    require_copy_of(vectors_, tokens * width_);
    kernels::reference::coalesce_rows(gradients_.data(), width_, batch.order.data(), batch.first.data(), batch.distinct(),
                                      copy_.data());
    require_copy_of(sums_, batch.distinct() * width_);
  }

 private:
  void require_copy_of(const Buffer<float>& result, std::int64_t count) const {
    if (std::memcmp(result.data(), copy_.data(), static_cast<std::size_t>(count) * sizeof(float)) == 0) return;
    throw std::runtime_error("bench rows: a kernel's result is not that of its reference");
  }

  std::int64_t width_;
  Buffer<float> table_, gradients_, vectors_, sums_, copy_;
};

JsonValue measure(const Options& options, std::int64_t width) {
  Tables tables(options.rows, width, options.tokens);
  ZipfIds zipf(options.rows);
  Samples samples;
  const int warm = 2;
  for (int t = 0; t < options.iterations + warm; ++t) {
    // New ids each time: only the rows of frequent words are in the caches, as in training.
    const Batch batch = make_batch(zipf, options.tokens);
    const double gather_ms = milliseconds_of([&] { tables.gather(batch); });
    const double gather_memcpy_ms = milliseconds_of([&] { tables.copy(options.tokens * width); });
    const double coalesce_ms = milliseconds_of([&] { tables.coalesce(batch); });
    const double coalesce_memcpy_ms = milliseconds_of([&] { tables.copy((options.tokens + batch.distinct()) / 2 * width); });
    if (t < warm) {
      tables.check(batch);
      continue;
    }
    samples["distinct"].push_back(static_cast<double>(batch.distinct()));
    samples["gather"].push_back(gather_ms);
    samples["gather_memcpy"].push_back(gather_memcpy_ms);
    samples["coalesce"].push_back(coalesce_ms);
    samples["coalesce_memcpy"].push_back(coalesce_memcpy_ms);
  }
  const double gather = median(samples["gather"]), gather_memcpy = median(samples["gather_memcpy"]);
  const double coalesce = median(samples["coalesce"]), coalesce_memcpy = median(samples["coalesce_memcpy"]);
  return {{"benchmark", "rows"},
          {"rows", options.rows},
          {"width", width},
          {"tokens", options.tokens},
          {"distinct", static_cast<std::int64_t>(median(samples["distinct"]))},
          {"gather_ms", gather},
          {"coalesce_ms", coalesce},
          {"baseline", "memcpy"},
          {"gather_baseline_ms", gather_memcpy},
          {"coalesce_baseline_ms", coalesce_memcpy},
          {"gather_ratio", gather_memcpy / gather},
          {"coalesce_ratio", coalesce_memcpy / coalesce},
          {"gather_bound", gather_bound},
          {"coalesce_bound", coalesce_bound}};
}

void run(const Options& options) {
  require_writable(options.json);
  Rows rows;
  for (const std::int64_t width : options.widths) rows.push_back(measure(options, width));
  fmt::print("kernels: {}\n", kernels::host::instruction_set());
  print_table(
      rows,
      "{rows:>10} {width:>6} {tokens:>8} {distinct:>9} {gather_ms:>10.4f} {gather_baseline_ms:>10.4f} {gather_ratio:>13.3f} "
      "{coalesce_ms:>12.4f} {coalesce_baseline_ms:>10.4f} {coalesce_ratio:>15.3f}",
      {"table rows", "width", "tokens", "distinct", "gather ms", "memcpy ms", "memcpy/gather", "coalesce ms", "memcpy ms",
       "memcpy/coalesce"});
  fmt::print("bounds: memcpy/gather at least {}, memcpy/coalesce at least {}\n", gather_bound, coalesce_bound);
  write_rows(rows, options.json);
}

}  // namespace

void add_rows(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "rows", "Measure gathering and coalescing rows of an embedding table on one thread, compared with memcpy", run);
  command.footer(
      "gather copies the rows of a batch's tokens. It is compared with memcpy of tokens x width values. "
      "coalesce adds up the gradients of equal ids. It is compared with memcpy of (tokens + distinct) / 2 x width values. "
      "Each memcpy moves as many bytes as the kernel reads and writes. "
      "Ratios are time of memcpy / time of the kernel. "
      "Ids follow Zipf's law, and every iteration takes other tokens.");
  command.option("--rows", options.rows, "rows of the table").between(std::int64_t{1}, std::int64_t{0xffffffff});
  command.option("--width", options.widths, "float32 values of a row, one or more widths")
      .between(std::int64_t{1}, std::int64_t{1} << 20);
  command.option("--tokens", options.tokens, "ids of a batch").between(1, 0x7fffffff);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--json", options.json, "also write the rows to this file");
}

}  // namespace weir::cli
