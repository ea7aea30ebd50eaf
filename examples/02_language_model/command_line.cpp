#include "command_line.hpp"

#include <map>

namespace language_model {
namespace {

void define_model(CLI::App& app, Options& training) {
  app.add_option("--vocabulary", training.vocabulary, "words that are known, the most frequent; all others are one unknown word")
      ->check(CLI::Range(2, 100'000'000))
      ->capture_default_str();
  app.add_option("--embedding", training.embedding, "elements of a word's vector")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--hidden", training.hidden, "elements of the recurrent state")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--batch", training.batch.sequences, "sequences per rank and step")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--length", training.batch.length, "words of a sequence, through which gradients are propagated back")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--negatives", training.batch.negatives, "words per step that the right ones are told apart from")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

void define_training(CLI::App& app, Options& training) {
  app.add_option("--steps", training.steps, "of every scheme")->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  app.add_option("--seconds", training.seconds, "of training after which a scheme ends at the next evaluation; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--table-learning-rate", training.table_learning_rate, "of both tables (Adagrad)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dense-learning-rate", training.dense_learning_rate, "of the recurrent layer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dense-momentum", training.dense_momentum, "of the recurrent layer: SGD instead of Adam (default)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--evaluate-every", training.evaluate_every, "steps from one test on held-out text to the next")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--evaluation-words", training.evaluation_words, "words of held-out text that are predicted")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--seed", training.seed, "of initial parameters and negative samples")->capture_default_str();
}

void define_travel(CLI::App& app, Travel& travel) {
  const std::map<std::string, weir::Feedback> feedbacks = {{"automatic", weir::Feedback::automatic},
                                                           {"none", weir::Feedback::none},
                                                           {"residual", weir::Feedback::residual},
                                                           {"ef21", weir::Feedback::ef21}};
  app.add_option("--dense-algorithm", travel.algorithm, "how the recurrent layer's gradients travel: a name from `weir info`")
      ->capture_default_str();
  app.add_option("--density", travel.density, "fraction of them that a sparse algorithm delivers")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_option("--compressor", travel.compressor,
                 "what of them travels: a name from `weir info --compressors`, none (default: what the algorithm is made for)");
  app.add_option("--compressor-parameters", travel.compressor_parameters, "of the compressor, as in levels=15,bucket=256");
  app.add_option("--error-feedback", travel.error_feedback, "what a rank remembers of what it did not send (default: automatic)")
      ->transform(CLI::CheckedTransformer(feedbacks).description("automatic|none|residual|ef21"));
  app.add_option("--feedback-decay", travel.feedback_decay, "part of the residual that stays from one step to the next")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

std::string describe_schemes() {
  std::string text = "Schemes:\n";
  for (const Scheme& scheme : schemes()) text.append("  ").append(scheme.name).append(": ").append(scheme.description).append("\n");
  return text;
}

}  // namespace

void define_options(CLI::App& app, CommandLine& line) {
  app.footer(describe_schemes());
  app.add_option("--scheme", line.schemes, "all, or some of: " + scheme_names())->capture_default_str();
  define_training(app, line.training);
  define_travel(app, line.training.dense);
  define_model(app, line.training);
  app.add_option(
      "--checkpoint", line.training.checkpoint.folder,
      "folder for checkpoints: a training goes on from its newest, and SIGUSR1 or SIGTERM save one and end it with status 75");
  app.add_option("--every", line.training.checkpoint.every, "steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--text", line.text, "plain or gzipped")->capture_default_str();
  app.add_option(
         "--output", line.output,
         "folder for <name>.json and <name>.csv: <scheme>, <scheme>+<compressor> or <scheme>+<dense algorithm>+<compressor>")
      ->capture_default_str();
  app.add_option("--progress", line.progress, "bar: one line rewritten; lines: one per evaluation; auto: bar on a terminal")
      ->check(CLI::IsMember({"auto", "bar", "lines"}))
      ->capture_default_str();
  app.add_option("--require-perplexity", line.require_perplexity, "exit with 1 when a scheme ends above it; 0: any will do")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--summarise", line.summarise, "do not train: print and compare the runs in --output");
}

std::vector<Scheme> chosen_schemes(const CommandLine& line) {
  std::vector<Scheme> chosen;
  for (const std::string& name : line.schemes) {
    if (name == "all") return {schemes().begin(), schemes().end()};
    chosen.push_back(find_scheme(name));
  }
  return chosen;
}

}  // namespace language_model
