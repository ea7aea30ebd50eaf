// The options of `weir bench fusion`, for MPI and for simulated machines.
#include "cli/bench_fusion.hpp"
#include "cli/commands.hpp"
#include "cli/named_option.hpp"
#include "cli/named_threshold.hpp"

namespace weir::cli {

void add_fusion_options(Command& command, FusionOptions& options) {
  command.footer(
      "A step is a backward pass and the next forward pass, whose layers wait for their updates. "
      "Gradients are synthetic. "
      "Computing is waiting, as a host waits for its GPU. "
      "Selection runs on the host's cores meanwhile; it lengthens a step only if nothing hides it. "
      "With --shrink S, every tensor and buffer has 1 / S of its bytes, and computing takes as long as before. "
      "On a network with 1 / S of the bandwidth, transfers then take as long as those of the whole model; startups, tensors and "
      "latencies are unchanged. "
      "Selection takes 1 / S of its time. "
      "Control messages and envelopes weigh S times as much.");
  command
      .option(
          "--model", options.models,
          "networks to measure: installed tables (resnet50, resnet152, vgg19, bert_base, gpt2_large), files of such tables, or all")
      .delimiter(',');
  std::vector<std::string> schemes = fusion_schemes();
  schemes.insert(schemes.begin(), "all");
  command.option("--scheme", options.schemes, "schemes to measure; dense sends all tensors whole, in buffers of --buffer-mib")
      .one_of(schemes)
      .delimiter(',');
  std::vector<std::string> algorithms_and_auto = {"auto"};
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse && algorithm.host_memory) algorithms_and_auto.emplace_back(algorithm.name);
  }
  FusionConfig& config = options.config;
  command.option("--algorithm", config.algorithm, "algorithm that exchanges the entries of a buffer").one_of(algorithms_and_auto);
  add_threshold(command, config.threshold, config.threshold_parameters);
  add_named(command, "--values", config.wire_values, "type of values in messages");
  command.option("--density", config.density, "share of its entries that each rank selects").between(1e-9, 1.0);
  command.option("--buffer-mib", options.buffer_mib, "size of a buffer, in MiB of gradients, before --shrink").between(1e-6, 1e6);
  command.option("--rate", options.gflops, "GFLOP/s of the GPU; the default is that of a V100 with 32-bit floats")
      .between(1e-3, 1e9);
  command.option("--batch", options.batch, "samples of a rank in a step; default: the model's")
      .between(1, 1000000)
      .without_default();
  command.option("--shrink", options.shrink, "divide the bytes of tensors and buffers by S, see below").between(1, 1000000);
  command
      .option(
          "--poll-us", options.poll_us,
          "microseconds between progress of exchanges while the host waits for gradients; 0: progress only when it hands one in")
      .between(0.0, 1e6);
  command.option("--iterations", options.iterations, "measured steps of each scheme, in turns; dense makes a fifth of them")
      .positive();
  command.option("--warmup", options.warmup, "steps before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
