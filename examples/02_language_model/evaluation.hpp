// evaluation.hpp: computes the perplexity on held-out text, with the softmax over the whole vocabulary.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "corpus.hpp"
#include "gru.hpp"

namespace language_model {

/// The trained parameters.
struct Model {
  std::span<const float> embedding;  ///< vocabulary x inputs
  std::span<const float> input_block, recurrent_block;
  std::span<const float> output;  ///< vocabulary x (hidden + 1), bias last
};

/// Evaluates on the same parts of the held-out text each time, which are divided among the ranks.
class Evaluator {
 public:
  /// `words` is about the number of words to predict. Throws std::runtime_error if the text is too short.
  Evaluator(MPI_Comm comm, const Corpus& corpus, int inputs, int hidden, std::int64_t words);
  /// Collective. Returns the perplexity.
  double perplexity(const Model& model);

 private:
  [[nodiscard]] double log_likelihood(const Model& model, std::span<const float> states, std::span<const std::int32_t> targets);

  MPI_Comm comm_;
  std::int64_t vocabulary_;
  int inputs_, hidden_;
  std::int64_t words_ = 0;  ///< predicted by all ranks
  std::vector<std::int32_t> sources_, targets_;
  Gru gru_;
  std::vector<float> scores_;
};

}  // namespace language_model
