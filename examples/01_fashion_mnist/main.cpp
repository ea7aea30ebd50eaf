// fashion_mnist: trains a classifier on all ranks of an MPI job. A Weir plan averages the gradients.
#include <cblas.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>

#include "dataset.hpp"
#include "report.hpp"
#include "summary.hpp"
#include "training.hpp"

namespace {

using namespace fashion_mnist;

struct CommandLine {
  Options training;
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::filesystem::path output = ".";
  std::string progress = "auto";
  bool summarise = false;
};

void define_options(CLI::App& app, CommandLine& line) {
  const std::map<std::string, weir::Feedback> feedbacks = {{"automatic", weir::Feedback::automatic},
                                                           {"none", weir::Feedback::none},
                                                           {"residual", weir::Feedback::residual},
                                                           {"ef21", weir::Feedback::ef21}};
  const std::map<std::string, Optimizer> optimizers = {
      {"automatic", Optimizer::automatic}, {"before", Optimizer::before}, {"after", Optimizer::after}, {"lars", Optimizer::lars}};
  Options& training = line.training;
  app.add_option("--algorithm", training.algorithm, "how gradients are averaged: a name from `weir info`, auto or auto_sparse")
      ->capture_default_str();
  app.add_option("--compressor", training.compressor,
                 "what travels: a name from `weir info --compressors`, none (default: what the algorithm is made for)");
  app.add_option("--compressor-parameters", training.compressor_parameters, "of the compressor, as in levels=15,bucket=256");
  app.add_option("--error-feedback", training.error_feedback, "what a rank remembers of what it did not send (default: automatic)")
      ->transform(CLI::CheckedTransformer(feedbacks).description("automatic|none|residual|ef21"));
  app.add_option("--feedback-decay", training.feedback_decay, "part of the residual that stays from one step to the next")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--optimizer", training.optimizer,
         "learning rate and momentum enter before the plan, or after it; automatic (default): after it where a compressor's "
         "bytes, values or factors travel; lars: after it, and every layer steps in proportion to its weights")
      ->transform(CLI::CheckedTransformer(optimizers).description("automatic|before|after|lars"));
  app.add_option("--density", training.density, "fraction of the gradient that a sparse algorithm delivers")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_option("--threshold", training.threshold, "top-k thresholds: exact (default), or reuse them for some steps")
      ->check(CLI::IsMember({"exact", "reuse"}));
  app.add_option("--density-warmup", training.density_warmup_epochs, "epochs in which the density falls from 25 % to its target")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--epochs", training.epochs, "passes over the training images")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", training.batch, "images per rank and step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--learning-rate", training.learning_rate, "its peak")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--momentum", training.momentum, "of the gradient")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--trust-coefficient", training.trust_coefficient, "of lars: how far a layer steps, as a part of its weights")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning-rate-warmup", training.learning_rate_warmup_epochs,
                 "epochs in which the learning rate rises to its peak")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", training.seed, "of initial parameters and image order")->capture_default_str();
  app.add_option("--evaluate-every", training.evaluate_every, "steps from one test to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
      "--checkpoint", training.checkpoint.folder,
      "folder for checkpoints: the training goes on from the newest, and SIGUSR1 or SIGTERM save one and end it with status 75");
  app.add_option("--every", training.checkpoint.every, "steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--run", training.checkpoint.run, "name of this training: a folder with checkpoints of another is refused");
  app.add_option("--data", line.data, "folder of the data set's files")->capture_default_str();
  app.add_option("--output", line.output,
                 "folder for <name>.json and <name>.csv, where the name is <algorithm> or <algorithm>+<compressor>")
      ->capture_default_str();
  app.add_option("--progress", line.progress, "bar: one line rewritten; lines: one per epoch; auto: bar on a terminal")
      ->check(CLI::IsMember({"auto", "bar", "lines"}))
      ->capture_default_str();
  app.add_flag("--summarise", line.summarise, "do not train: print and merge the runs in --output");
}

constexpr int stopped_status = 75;  // EX_TEMPFAIL: start it again

/// Returns the exit status.
int train(const CommandLine& line) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::filesystem::create_directories(line.output);
  const Dataset train_set = read_dataset(line.data, "train");
  const Dataset test_set = read_dataset(line.data, "t10k");
  Progress progress(line.training, rank == 0, line.progress == "bar" || (line.progress == "auto" && isatty(STDERR_FILENO) == 1));
  const TrainingResult result = Trainer(MPI_COMM_WORLD, train_set, test_set, line.training).run(progress);
  if (result.stopped) {
    if (rank == 0)
      std::fprintf(stderr, "fashion_mnist: stopped by a signal; started again with --checkpoint %s, it goes on\n",
                   line.training.checkpoint.folder.c_str());
    return stopped_status;
  }
  if (rank == 0) write_report(line.output, line.training, result);
  return 0;
}

int train_under_mpi(int argc, char** argv, const CommandLine& line) {
  MPI_Init(&argc, &argv);
  int status = 1;
  try {
    status = train(line);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    // The other ranks may wait for this one in a collective call, so all must end.
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Trains a classifier of Fashion-MNIST on all ranks of an MPI job, gradients averaged by Weir.");
  define_options(app, line);
  CLI11_PARSE(app, argc, argv);
  if (!line.summarise) {
    // The ranks already use all cores; BLAS threads inside each would compete for them.
    openblas_set_num_threads(1);
    return train_under_mpi(argc, argv, line);
  }
  try {
    summarise(line.output);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 1;
  }
}
