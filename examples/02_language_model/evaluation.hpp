// Perplexity on held-out text, with the softmax over the whole vocabulary.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "corpus.hpp"
#include "gru.hpp"

namespace language_model {

/// Everything that has been learnt.
struct Model {
  std::span<const float> embedding;  ///< vocabulary x inputs
  std::span<const float> input_block, recurrent_block;
  std::span<const float> output;  ///< vocabulary x (hidden + 1), bias last
};

/// The same stretches of held-out text each time, dealt out to the ranks.
class Evaluator {
 public:
  /// `words`: about how many are predicted. Throws std::runtime_error when the text is too short.
  Evaluator(MPI_Comm comm, const Corpus& corpus, int inputs, int hidden, std::int64_t words);
  /// Collective.
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
