// weir bench compress: measures each compressor's result for a gradient and its speed on one core, against memcpy of the gradient
// in the same run.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/buffer.hpp"
#include "base/json.hpp"
#include "base/standard_error.hpp"
#include "cli/bench_input.hpp"
#include "cli/commands.hpp"
#include "cli/named_compressors.hpp"
#include "cli/report.hpp"
#include "codec/wire.hpp"
#include "communicator/communicator.hpp"
#include "compress/compressor.hpp"
#include "kernels/kernels.hpp"
#include "plan/plan_config.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::cli {
namespace {

using compress::Carriage;
using compress::Compressor;

struct Options {
  std::vector<std::string> compressors = {"all"};
  std::string parameters, input, json;
  std::int64_t count = 16777216;
  double density = 0.01;
  int iterations = 15;
};

struct CompressRow {
  std::string compressor, parameters, carriage, input;
  std::string text;  ///< compressor and parameters, as text
  std::int64_t count = 0;
  double bytes_per_element = 0;
  double encode_ms = 0, decode_ms = 0, memcpy_ms = 0;  ///< medians
  double relative_error = 0, cosine = 0;               ///< of the decoded gradient, relative to the input
  double allocations = 0;                              ///< per encode and decode together
  bool bounded = false;                                ///< true if encode and decode must take at most twice as long as memcpy

  [[nodiscard]] bool met() const { return 2 * memcpy_ms >= encode_ms && 2 * memcpy_ms >= decode_ms && allocations == 0; }
};

constexpr int warmup = 3;

template <class Body>
double milliseconds_of(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Medians of functions that take turns.
struct Times {
  std::vector<double> encode, decode, copy;
};

class Subject {
 public:
  Subject(const Options& options, const Gradients& gradients, const Compressor& compressor)
      : options_(options), gradients_(gradients), compressor_(compressor), n_(options.count), copy_(n_), decoded_(n_) {
    row_ = {.compressor = std::string(compressor.row->name),
            .parameters = compressor.parameters.text(),
            .carriage = std::string(compress::name_of(compressor.row->carriage)),
            .input = options.input.empty() ? "heavy-tailed" : options.input,
            .text = text_of(compressor),
            .count = n_};
    row_.bounded = compressor.row->codec != nullptr && compressor.row->streams;
  }

  CompressRow measure() {
    kernels::host::fill_zero(copy_.data(), n_);
    kernels::host::fill_zero(decoded_.data(), n_);
    if (compressor_.row->codec != nullptr)
      measure_codec();
    else
      measure_plan();
    row_.encode_ms = median(times_.encode);
    row_.decode_ms = median(times_.decode);
    row_.memcpy_ms = median(times_.copy);
    row_.allocations = static_cast<double>(allocations_) / options_.iterations;
    return row_;
  }

 private:
  [[nodiscard]] const float* gradient(int t) const { return gradients_[static_cast<std::size_t>(t) % gradients_.size()].data(); }

  void measure_codec() {
    const auto codec = compressor_.row->codec(compressor_.parameters);
    Buffer<std::byte> message(codec->most_bytes(n_));
    std::memset(message.data(), 0, static_cast<std::size_t>(message.bytes()));
    std::int64_t bytes = 0, total = 0;
    for (int t = 0; t < options_.iterations + warmup; ++t) {
      const std::int64_t before = allocations_so_far();
      const Draw draw{1, static_cast<std::uint64_t>(t), 0};
      const double encode = milliseconds_of([&] { bytes = codec->encode(draw, 0, gradient(t), n_, message.data(), nullptr); });
      const double decode = milliseconds_of([&] { codec->decode(message.data(), bytes, n_, decoded_.data(), true); });
      if (t >= warmup) allocations_ += allocations_so_far() - before;
      note(t, encode, decode);
      if (t >= warmup) total += bytes;
    }
    row_.bytes_per_element = static_cast<double>(total) / options_.iterations / static_cast<double>(n_);
    codec->decode(message.data(), bytes, n_, decoded_.data(), false);
    codec->finish(decoded_.data(), n_);
    compare(gradient(options_.iterations + warmup - 1));
  }

  /// Measures a compressor without its own codec in a plan of one rank: selection or products, and delivery.
  void measure_plan() {
    InprocJob job(1, 0);
    const Communicator comm(detail::make_communicator(job.transport(0)));
    const bool sparse = compressor_.row->carriage == Carriage::sparse;
    AllreducePlan plan(comm, {.count = n_,
                              .density = options_.density,
                              .algorithm = sparse ? "topk_allgather" : "dense_ring",
                              .compressor = row_.compressor,
                              .compressor_parameters = row_.parameters,
                              .error_feedback = Feedback::none});
    for (int t = 0; t < options_.iterations + warmup; ++t) {
      std::copy_n(gradient(t), n_, decoded_.data());
      const std::int64_t before = allocations_so_far();
      plan.run(std::span(decoded_.data(), static_cast<std::size_t>(n_)));
      if (t >= warmup) allocations_ += allocations_so_far() - before;
      const Statistics& s = plan.statistics();
      note(t, (sparse ? s.seconds_select : s.seconds_total) * 1e3, s.seconds_apply * 1e3);
    }
    const auto k = std::max<std::int64_t>(1, std::llround(options_.density * static_cast<double>(n_)));
    const double words = 4.0 * static_cast<double>(compress::expense_of(compressor_, n_, k).summed);
    const auto entries =
        static_cast<double>(wire::message_bytes<float>({}, plan.statistics().selected_local, static_cast<std::uint64_t>(n_)));
    row_.bytes_per_element = (sparse ? entries : words) / static_cast<double>(n_);
    compare(gradient(options_.iterations + warmup - 1));
  }

  void note(int t, double encode, double decode) {
    const double copy = milliseconds_of([&] {
      std::memcpy(copy_.data(), gradient(t + 1), static_cast<std::size_t>(copy_.bytes()));
      asm volatile("" ::"r"(copy_.data()) : "memory");  // otherwise the compiler removes all but the first copy
    });
    if (t < warmup) return;
    times_.encode.push_back(encode);
    times_.decode.push_back(decode);
    times_.copy.push_back(copy);
  }

  void compare(const float* right) {
    double error = 0, norm = 0, decoded_norm = 0, product = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double x = right[i], y = decoded_[i];
      error += (x - y) * (x - y);
      norm += x * x;
      decoded_norm += y * y;
      product += x * y;
    }
    row_.relative_error = norm != 0 ? std::sqrt(error / norm) : 0;
    row_.cosine = norm != 0 && decoded_norm != 0 ? product / std::sqrt(norm * decoded_norm) : 1;
  }

  const Options& options_;
  const Gradients& gradients_;
  Compressor compressor_;
  std::int64_t n_;
  Buffer<float> copy_, decoded_;
  CompressRow row_;
  Times times_;
  std::int64_t allocations_ = 0;
};

void print_compress_table(const std::vector<CompressRow>& rows) {
  std::size_t width = 20;
  for (const CompressRow& r : rows) width = std::max(width, r.text.size());
  fmt::print("{:<{}} {:<8} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>8} {:>7}  {}\n", "compressor", width, "carriage",
             "bytes/elem", "encode ms", "decode ms", "memcpy ms", "enc/mem", "dec/mem", "rel.error", "cosine", "allocs", "bound");
  for (const CompressRow& r : rows) {
    fmt::print("{:<{}} {:<8} {:>10.4f} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.2f} {:>9.2f} {:>9.3g} {:>8.4f} {:>7.1f}  {}\n", r.text,
               width, r.carriage, r.bytes_per_element, r.encode_ms, r.decode_ms, r.memcpy_ms, r.memcpy_ms / r.encode_ms,
               r.decode_ms > 0 ? r.memcpy_ms / r.decode_ms : 0, r.relative_error, r.cosine, r.allocations,
               !r.bounded ? "-"
               : r.met()  ? "met"
                          : "missed");
  }
  fmt::print(
      "\nenc/mem, dec/mem: speed of encoding, and of decoding and adding, relative to memcpy of the gradient. bound: both are at\n"
      "least 0.5, and nothing is allocated. Sparse compressors: encoding is selection, decoding is delivery into a dense array.\n"
      "Linear compressors: encoding is the whole run of one rank\n");
}

void write_compress_json(const std::vector<CompressRow>& rows, const std::string& file) {
  JsonValue list = JsonValue::array();
  for (const CompressRow& r : rows) {
    list.push_back({{"benchmark", "compress"},
                    {"compressor", r.compressor},
                    {"parameters", r.parameters},
                    {"carriage", r.carriage},
                    {"input", r.input},
                    {"count", r.count},
                    {"bytes_per_element", r.bytes_per_element},
                    {"encode_ms", r.encode_ms},
                    {"decode_ms", r.decode_ms},
                    {"baseline", "memcpy"},
                    {"baseline_ms", r.memcpy_ms},
                    {"encode_ratio", r.memcpy_ms / r.encode_ms},
                    {"decode_ratio", r.decode_ms > 0 ? r.memcpy_ms / r.decode_ms : 0},
                    {"relative_error", r.relative_error},
                    {"cosine", r.cosine},
                    {"allocations", r.allocations},
                    {"bounded", r.bounded},
                    {"met", r.met()}});
  }
  write_json(list, file);
}

void run(Options options) {
  require_writable(options.json);
  std::vector<Compressor> compressors;
  if (names_all(options.compressors)) options.compressors = all_compressors();
  for (const NamedCompressor& named : named_compressors(options.compressors, options.parameters))
    compressors.push_back(compress::make_compressor(named.names, named.parameters));
  const Gradients gradients =
      options.input.empty() ? make_gradients(options.count, 0, 2) : read_gradients(options.input, options.count, 0, 1);
  std::vector<CompressRow> rows;
  const bool shows = isatty(STDERR_FILENO) == 1;
  for (const Compressor& compressor : compressors) {
    if (shows) print_error("\r\033[K{}", text_of(compressor));
    rows.push_back(Subject(options, gradients, compressor).measure());
  }
  if (shows) print_error("\r\033[K");
  print_compress_table(rows);
  if (!options.json.empty()) write_compress_json(rows, options.json);
}

}  // namespace

void add_bench_compress(Command& bench) {
  auto options = std::make_shared<Options>();
  Command command =
      bench.add("compress", "Measure size, time and error of compressors on one thread, compared with memcpy of the gradient");
  std::vector<std::string> names = all_compressors();
  names.insert(names.begin(), "all");
  command.option("--compressor", options->compressors, "compressors to measure").one_of(names).delimiter(',');
  add_compressor_parameters(command, options->parameters);
  command.option("--count", options->count, "elements of the gradient").between(1, 2147483647);
  command.option("--density", options->density, "share of entries that sparse compressors and shared_random_k send")
      .between(1e-9, 1.0);
  command.option("--iterations", options->iterations, "measured iterations").positive();
  command.option("--input", options->input, "recorded gradients of one rank, raw float32 or .npy, iterations x 1 x count")
      .existing_file();
  command.option("--json", options->json, "also write the rows to this file");
  command.examples({"weir bench compress", "weir bench compress --compressor qsgd --compressor-parameters levels=3"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
