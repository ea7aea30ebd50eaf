// language_model: trains a word-level language model on all ranks of an MPI job, once for each scheme of exchanging gradients.
#include <cblas.h>
#include <mpi.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "report.hpp"
#include "summary.hpp"

namespace {

using namespace language_model;

/// Ends the program on every rank if one of them fails. The lowest failing rank prints its message.
class StartCheck {
 public:
  explicit StartCheck(MPI_Comm comm) : comm_(comm) {}

  template <class Call>
  bool all_succeed(Call&& call) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm_, &rank);
    MPI_Comm_size(comm_, &size);
    int failed = size;
    try {
      call();
    } catch (const std::exception& error) {
      text_ = error.what();
      failed = rank;
    }
    int first = size;
    MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, comm_);
    if (first == rank) std::fprintf(stderr, "language_model: %s\n", text_.c_str());
    return first == size;
  }

 private:
  MPI_Comm comm_;
  std::string text_;
};

constexpr int stopped_status = 75;  // EX_TEMPFAIL: start it again

/// Returns the perplexity reached, or nothing if a signal has stopped the training.
std::optional<double> train(const CommandLine& line, const weir::Communicator& comm, const Corpus& corpus, const Scheme& scheme) {
  Options options = line.training;
  options.vocabulary = static_cast<std::int64_t>(corpus.counts.size());
  const bool first = comm.rank() == 0;
  Progress progress(scheme, options, first, line.progress == "bar" || (line.progress == "auto" && isatty(STDERR_FILENO) == 1));
  const TrainingResult result = Trainer(MPI_COMM_WORLD, comm, corpus, scheme, options).run(progress);
  if (result.stopped) {
    if (first)
      std::fprintf(stderr, "language_model: stopped by a signal; started again with --checkpoint %s, it goes on\n",
                   options.checkpoint.folder.c_str());
    return {};
  }
  if (first) write_report(line.output, scheme, options, result);
  return result.curve.back().perplexity;
}

/// Returns the exit code, the same on all ranks.
int train_all(const CommandLine& line) {
  std::vector<Scheme> chosen;
  Corpus corpus;
  const bool ready = StartCheck(MPI_COMM_WORLD).all_succeed([&] {
    chosen = chosen_schemes(line);
    std::filesystem::create_directories(line.output);
    corpus = read_corpus(line.text, line.training.vocabulary);
    check_length(MPI_COMM_WORLD, corpus, line.training);
  });
  if (!ready) return 1;

  const weir::Communicator comm(MPI_COMM_WORLD);
  int outcome = 0;
  for (const Scheme& scheme : chosen) {
    const std::optional<double> perplexity = train(line, comm, corpus, scheme);
    if (!perplexity) return stopped_status;
    if (line.require_perplexity > 0 && !(*perplexity <= line.require_perplexity)) {
      if (comm.rank() == 0)
        std::fprintf(stderr, "language_model: %s has reached a perplexity of %.1f: --require-perplexity is %.1f\n",
                     std::string(scheme.name).c_str(), *perplexity, line.require_perplexity);
      outcome = 1;
    }
  }
  if (comm.rank() == 0) {
    std::vector<std::string> names;
    for (const Scheme& scheme : chosen) names.push_back(line.training.name(scheme));
    if (!summarise(line.output, names)) outcome = 1;
  }
  MPI_Bcast(&outcome, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return outcome;
}

int train_under_mpi(int argc, char** argv, const CommandLine& line) {
  MPI_Init(&argc, &argv);
  int outcome = 1;
  try {
    outcome = train_all(line);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "language_model: %s\n", error.what());
    // The other ranks may wait for this one in a collective call, so all must end.
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Trains a word-level language model on all ranks of an MPI job, embedding tables and gradients exchanged by Weir.");
  define_options(app, line);
  CLI11_PARSE(app, argc, argv);
  if (!line.summarise) {
    // The ranks already use all cores; BLAS threads inside each would compete for them.
    openblas_set_num_threads(1);
    return train_under_mpi(argc, argv, line);
  }
  try {
    return summarise(line.output) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "language_model: %s\n", error.what());
    return 1;
  }
}
