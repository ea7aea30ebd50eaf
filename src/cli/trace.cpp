// weir trace: combines the traces and dumps of ranks.
#include <fmt/core.h>

#include "base/standard_error.hpp"
#include "cli/commands.hpp"
#include "cli/trace_diagnose.hpp"
#include "cli/trace_merge.hpp"
#include "cli/trace_summary.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::string folder, output;
  std::optional<int> communicator;
};

/// Prints what does not stop the work.
void print(const Remarks& remarks) {
  for (const std::string& remark : remarks) print_error("weir: {}\n", remark);
}

/// The traces of one run, and the offsets of their clocks.
struct Traces {
  Traces(const Options& options, Remarks& remarks)
      : infos(read_infos(rank_files(options.folder, "trace", options.communicator, remarks), remarks)),
        offsets(align_clocks(infos)) {}
  [[nodiscard]] std::string title() const {
    const TraceInfo& first = infos.front();
    return fmt::format("communicator {}: traces of {} of {} ranks, Weir {}, run {}", first.communicator, infos.size(), first.ranks,
                       first.version, first.run);
  }

  std::vector<TraceInfo> infos;
  std::vector<ClockOffset> offsets;
};

void merge(const Options& options) {
  Remarks remarks;
  const Traces traces(options, remarks);
  const std::string beside = fmt::format("{}/weir-trace.c{}.json", options.folder, traces.infos.front().communicator);
  const std::string output = options.output.empty() ? beside : options.output;
  merge_traces(traces.infos, traces.offsets, output, remarks);
  print(remarks);
  fmt::print("{}\nclocks when the communicator was made:\n", traces.title());
  for (const ClockOffset& offset : traces.offsets) fmt::print("  {}\n", describe(offset, traces.offsets.front().rank));
  fmt::print("written to {}: open it in https://ui.perfetto.dev\n", output);
}

void summarize(const Options& options) {
  Remarks remarks;
  const Traces traces(options, remarks);
  const std::vector<std::int64_t> shifts = shifts_of(traces.infos, traces.offsets);
  Summarizer summarizer(traces.infos.front().ranks);
  for (std::size_t i = 0; i < traces.infos.size(); ++i) {
    summarizer.begin_rank(traces.infos[i].rank);
    read_events(traces.infos[i], shifts[i], remarks, [&](const JsonValue& event) { summarizer.take(event); });
  }
  const TraceSummary summary = summarizer.finish();
  print(remarks);
  fmt::print("{}, {:.3f} s\n\n{}", traces.title(), summary.seconds, to_text(summary));
  if (!options.output.empty()) write_json(to_json(summary), options.output);
}

void diagnose_dumps(const Options& options) {
  Remarks remarks;
  const Dumps dumps = read_dumps(rank_files(options.folder, "dump", options.communicator, remarks), remarks);
  print(remarks);
  const Diagnosis diagnosis = diagnose(dumps);
  fmt::print("{}\n", diagnosis.verdict);
  for (const std::string& line : diagnosis.evidence) fmt::print("  {}\n", line);
}

}  // namespace

void add_trace(Command& app) {
  Command trace = app.add("trace", "Read the traces (WEIR_TRACE) and dumps (WEIR_DUMP) that ranks have written");
  trace.require_subcommand();
  const auto add = [&](const char* name, const char* description, const char* variable, const char* example,
                       void (*run)(const Options&), const char* output, const char* help) {
    auto [command, options] = trace.add(name, description, run);
    command.option("folder", options.folder, std::string("folder that ") + variable + " named").required().existing_folder();
    command.option("--communicator", options.communicator, "number of the communicator in the files' names; default: the first one")
        .between(0, 999999999);
    if (output != nullptr) command.option(output, options.output, help);
    command.examples({example});
  };
  add("merge", "Make one trace of all ranks, on one clock, for Perfetto and chrome://tracing", "WEIR_TRACE",
      "weir trace merge traces", merge, "--output", "the file to write; default: weir-trace.cN.json in the folder");
  add("summary", "Print time by stage, overlap, bytes, the slowest rank and the longest waits", "WEIR_TRACE",
      "weir trace summary traces", summarize, "--json", "also write the figures to this file");
  add("diagnose", "Print what is wrong, by the dumps of flight recorders: one line, then the evidence", "WEIR_DUMP",
      "weir trace diagnose weir-dump", diagnose_dumps, nullptr, "");
}

}  // namespace weir::cli
