// weir bench compress: measures each compressor's result for a gradient and its speed on one core, against memcpy of the gradient
// in the same run.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/buffer.hpp"
#include "base/standard_error.hpp"
#include "cli/bench_input.hpp"
#include "cli/commands.hpp"
#include "cli/named_options.hpp"
#include "cli/report.hpp"
#include "codec/wire.hpp"
#include "communicator/communicator.hpp"
#include "compress/compressor.hpp"
#include "kernels/instructions.hpp"
#include "kernels/kernels.hpp"
#include "plan/plan_config.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::cli {
namespace {

using compress::Carriage;
using compress::Compressor;

struct Options {
  std::vector<std::string> compressors = {"all"};
  std::string parameters, input, instructions, json;
  std::int64_t count = 16777216;
  double density = 0.01;
  int iterations = 15;
  bool smooth = false;
};

constexpr int warmup = 3;

class Subject {
 public:
  Subject(const Options& options, const Gradients& gradients, const Compressor& compressor)
      : options_(options), gradients_(gradients), compressor_(compressor), n_(options.count), copy_(n_), decoded_(n_) {}

  JsonValue measure() {
    const compress::CompressorRow& row = *compressor_.row;
    kernels::host::fill_zero(copy_.data(), n_);
    kernels::host::fill_zero(decoded_.data(), n_);
    const double bytes_per_element = row.codec != nullptr ? measure_codec() : measure_plan();
    const double encode = median(times_["encode"]), decode = median(times_["decode"]), copy = median(times_["memcpy"]);
    const double allocations = static_cast<double>(allocations_) / options_.iterations;
    const auto [relative_error, cosine] = compare(gradient(options_.iterations + warmup - 1));
    return {{"benchmark", "compress"},
            {"compressor", row.name},
            {"parameters", compressor_.parameters.text()},
            {"carriage", compress::name_of(row.carriage)},
            {"input", options_.smooth          ? "smooth"
                      : options_.input.empty() ? "heavy-tailed"
                                               : options_.input},
            {"kernels", instructions_in_use()},
            {"count", n_},
            {"bytes_per_element", bytes_per_element},
            {"encode_ms", encode},
            {"decode_ms", decode},
            {"baseline", "memcpy"},
            {"baseline_ms", copy},
            {"encode_ratio", copy / encode},
            {"decode_ratio", decode > 0 ? copy / decode : 0},
            {"relative_error", relative_error},
            {"cosine", cosine},
            {"allocations", allocations},
            {"bounded", row.codec != nullptr && row.streams},
            {"met", 2 * copy >= encode && 2 * copy >= decode && allocations == 0}};
  }

 private:
  [[nodiscard]] const float* gradient(int t) const { return gradients_[static_cast<std::size_t>(t) % gradients_.size()].data(); }

  /// Returns the bytes of an element in messages, like measure_plan().
  double measure_codec() {
    const auto codec = compressor_.row->codec(compressor_.parameters);
    Buffer<std::byte> message(codec->most_bytes(n_));
    std::memset(message.data(), 0, static_cast<std::size_t>(message.bytes()));
    std::int64_t bytes = 0, total = 0;
    for (int t = 0; t < options_.iterations + warmup; ++t) {
      const std::int64_t before = allocations_so_far();
      const Draw draw{1, static_cast<std::uint64_t>(t), 0};
      const double encode = milliseconds_of([&] { bytes = codec->encode(draw, 0, gradient(t), n_, message.data(), nullptr); });
      const double decode = milliseconds_of([&] { codec->decode(message.data(), bytes, n_, decoded_.data(), true); });
      note(t, encode, decode, allocations_so_far() - before);
      if (t >= warmup) total += bytes;
    }
    codec->decode(message.data(), bytes, n_, decoded_.data(), false);
    codec->finish(decoded_.data(), n_);
    return static_cast<double>(total) / options_.iterations / static_cast<double>(n_);
  }

  /// Measures a compressor without its own codec in a plan of one rank: selection or products, and delivery.
  double measure_plan() {
    InprocJob job(1, 0);
    const Communicator comm(detail::make_communicator(job.transport(0)));
    const bool sparse = compressor_.row->carriage == Carriage::sparse;
    AllreducePlan plan(comm, {.count = n_,
                              .density = options_.density,
                              .algorithm = sparse ? "topk_allgather" : "dense_ring",
                              .compressor = std::string(compressor_.row->name),
                              .compressor_parameters = compressor_.parameters.text(),
                              .error_feedback = Feedback::none});
    for (int t = 0; t < options_.iterations + warmup; ++t) {
      std::copy_n(gradient(t), n_, decoded_.data());
      const std::int64_t before = allocations_so_far();
      plan.run(std::span(decoded_.data(), static_cast<std::size_t>(n_)));
      const std::int64_t made = allocations_so_far() - before;
      const Statistics& s = plan.statistics();
      note(t, (sparse ? s.seconds_select : s.seconds_total) * 1e3, s.seconds_apply * 1e3, made);
    }
    const auto k = std::max<std::int64_t>(1, std::llround(options_.density * static_cast<double>(n_)));
    const double words = 4.0 * static_cast<double>(compress::expense_of(compressor_, n_, k).summed);
    const auto entries =
        static_cast<double>(wire::message_bytes<float>({}, plan.statistics().selected_local, static_cast<std::uint64_t>(n_)));
    return (sparse ? entries : words) / static_cast<double>(n_);
  }

  void note(int t, double encode, double decode, std::int64_t allocations) {
    const double copy = milliseconds_of([&] {
      std::memcpy(copy_.data(), gradient(t + 1), static_cast<std::size_t>(copy_.bytes()));
      asm volatile("" ::"r"(copy_.data()) : "memory");  // otherwise the compiler removes all but the first copy
    });
    if (t < warmup) return;
    allocations_ += allocations;
    add(times_, "encode", encode);
    add(times_, "decode", decode);
    add(times_, "memcpy", copy);
  }

  /// Returns the relative error of what was decoded, and its cosine to what is right.
  [[nodiscard]] std::pair<double, double> compare(const float* right) const {
    double error = 0, norm = 0, decoded_norm = 0, product = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double x = right[i], y = decoded_[i];
      error += (x - y) * (x - y);
      norm += x * x;
      decoded_norm += y * y;
      product += x * y;
    }
    return {norm != 0 ? std::sqrt(error / norm) : 0, norm != 0 && decoded_norm != 0 ? product / std::sqrt(norm * decoded_norm) : 1};
  }

  const Options& options_;
  const Gradients& gradients_;
  Compressor compressor_;
  std::int64_t n_;
  Buffer<float> copy_, decoded_;
  Samples times_;
  std::int64_t allocations_ = 0;  // of encoding and decoding together
};

void run(Options options) {
  require_writable(options.json);
  if (!options.instructions.empty()) kernels::host::cap_instruction_set(options.instructions);
  std::vector<Compressor> compressors;
  if (names_all(options.compressors)) options.compressors = names_in(compress::compressor_registry());
  for (const NamedCompressor& named : named_compressors(options.compressors, options.parameters))
    compressors.push_back(compress::make_compressor(named.names, named.parameters));
  const Gradients gradients = options.smooth          ? make_fields(options.count, 0, 2)
                              : options.input.empty() ? make_gradients(options.count, 0, 2)
                                                      : read_gradients(options.input, options.count, 0, 1);
  Rows rows, shown;
  const bool shows = isatty(STDERR_FILENO) == 1;
  for (const Compressor& compressor : compressors) {
    if (shows) print_error("\r\033[K{}", text_of(compressor));
    rows.push_back(Subject(options, gradients, compressor).measure());
    shown.push_back(rows.back());
    shown.back().set("name", text_of(compressor));
    const bool bounded = rows.back().view().at("bounded").boolean(), met = rows.back().view().at("met").boolean();
    shown.back().set("bound", !bounded ? "-" : met ? "met" : "missed");
  }
  if (shows) print_error("\r\033[K");
  print_table(shown,
              "{name:<20+} {carriage:<8} {bytes_per_element:>10.4f} {encode_ms:>10.3f} {decode_ms:>10.3f} {baseline_ms:>10.3f} "
              "{encode_ratio:>9.2f} {decode_ratio:>9.2f} {relative_error:>9.3g} {cosine:>8.4f} {allocations:>7.1f}  {bound}",
              {"compressor", "carriage", "bytes/elem", "encode ms", "decode ms", "memcpy ms", "enc/mem", "dec/mem", "rel.error",
               "cosine", "allocs", "bound"});
  fmt::print(
      "\nenc/mem, dec/mem: speed of encoding, and of decoding and adding, relative to memcpy of the gradient. bound: both are at\n"
      "least 0.5, and nothing is allocated. Sparse compressors: encoding is selection, decoding is delivery into a dense array.\n"
      "Linear compressors: encoding is the whole run of one rank. Instruction set: {}\n",
      instructions_in_use());
  write_rows(rows, options.json);
}

}  // namespace

void add_bench_compress(Command& bench) {
  auto [command, options] =
      bench.add("compress", "Measure size, time and error of compressors on one thread, compared with memcpy of the gradient", run);
  command.option("--compressor", options.compressors, "compressors to measure")
      .one_of(names_in(compress::compressor_registry(), {"all"}))
      .delimiter(',');
  add_compressor_parameters(command, options.parameters);
  command.option("--count", options.count, "elements of the gradient").between(1, 2147483647);
  command.option("--density", options.density, "share of entries that sparse compressors and shared_random_k send")
      .between(1e-9, 1.0);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  const Option input =
      command.option("--input", options.input, "recorded gradients of one rank, raw float32 or .npy, iterations x 1 x count")
          .existing_file();
  command.flag("--smooth", options.smooth, "compress smooth fields, as of a simulation, instead of heavy-tailed gradients")
      .excludes(input);
  command
      .option("--instructions", options.instructions,
              "instruction set of the kernels, if not the best one: AVX2, for example, or another that weir info lists")
      .check(kernels::host::wrong_instruction_set)
      .type_name("SET");
  command.option("--json", options.json, "also write the rows to this file");
  command.examples({"weir bench compress", "weir bench compress --compressor qsgd --compressor-parameters levels=3"});
}

}  // namespace weir::cli
