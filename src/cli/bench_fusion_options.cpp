// The options of `weir bench fusion`, for MPI and for simulated machines.
#include "cli/bench_fusion.hpp"
#include "cli/commands.hpp"
#include "cli/named_option.hpp"
#include "cli/named_threshold.hpp"

namespace weir::cli {

void add_fusion_options(Command& command, FusionOptions& options) {
  command.footer(
      "A step is a backward pass, and the next forward pass, whose layers wait for their updates. Gradients are made up. Computing "
      "is\n"
      "waiting, as a host waits for its GPU; selection runs on the host's cores meanwhile, and counts where nothing hides it.\n"
      "--shrink S: every tensor and buffer has 1 / S of its bytes, computing takes as long as before. On a network with 1 / S of "
      "the\n"
      "bandwidth, transfers take as long as those of the whole model, and startups, tensors and latencies are as they were. "
      "Selection\n"
      "takes 1 / S of its time, and control messages and envelopes weigh S times as much.");
  command
      .option("--model", options.models,
              "names of installed tables (resnet50, resnet152, vgg19, bert_base, gpt2_large), files of such tables, or all")
      .delimiter(',');
  std::vector<std::string> schemes = fusion_schemes();
  schemes.insert(schemes.begin(), "all");
  command.option("--scheme", options.schemes, "which tensors travel together; dense: all of them whole, in buffers of that size")
      .one_of(schemes)
      .delimiter(',');
  std::vector<std::string> algorithms_and_auto = {"auto"};
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse && algorithm.host_memory) algorithms_and_auto.emplace_back(algorithm.name);
  }
  FusionConfig& config = options.config;
  command.option("--algorithm", config.algorithm, "exchanges the entries of a buffer").one_of(algorithms_and_auto);
  add_threshold(command, config.threshold, config.threshold_parameters);
  add_named(command, "--values", config.wire_values, "how values travel");
  command.option("--density", config.density, "share of its entries that each rank selects").between(1e-9, 1.0);
  command.option("--buffer-mib", options.buffer_mib, "size of a buffer, as gradients, before --shrink").between(1e-6, 1e6);
  command.option("--rate", options.gflops, "GFLOP/s of a GPU; the default is a V100's with 32-bit floats").between(1e-3, 1e9);
  command.option("--batch", options.batch, "samples a rank and step [the model's]").between(1, 1000000).without_default();
  command.option("--shrink", options.shrink, "tensors and buffers have 1 / S of their bytes, see below").between(1, 1000000);
  command
      .option("--poll-us", options.poll_us,
              "how often exchanges progress while the host waits for gradients; 0: only when it hands one in")
      .between(0.0, 1e6);
  command.option("--iterations", options.iterations, "measured steps of each scheme, which take turns; dense, a fifth").positive();
  command.option("--warmup", options.warmup, "steps before those that are measured").non_negative();
  command.option("--json", options.json, "rank 0 also writes the rows to this file");
}

}  // namespace weir::cli
