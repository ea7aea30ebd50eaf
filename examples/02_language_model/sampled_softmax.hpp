// sampled_softmax.hpp: the loss of the next word, by a softmax over a sample of the vocabulary (Jean et al., 2015, section 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gru.hpp"

namespace language_model {

/// Computes the loss's gradients. A row of the output table is a word's weights and, last, its bias: hidden + 1 elements.
class SampledSoftmax {
 public:
  SampledSoftmax(int tokens, int negatives, int hidden);

  /// Computes the gradients of the mean loss with respect to states and rows. `words` are the target of every token, then the
  /// negative samples; `rows` are the rows of these words; `log_expected` is that of NegativeSampler.
  void differentiate(std::span<const float> states, std::span<const std::int32_t> words, std::span<const float> rows,
                     std::span<const float> log_expected, const Pause& pause);
  [[nodiscard]] std::span<const float> state_gradients() const { return state_gradients_; }
  [[nodiscard]] std::span<const float> row_gradients() const { return row_gradients_; }

 private:
  void score_negatives(std::span<const float> states, std::span<const std::int32_t> words, std::span<const float> rows,
                       std::span<const float> log_expected);
  void score_target(int token, const float* state, const float* row, float log_expected);
  void differentiate_negatives(std::span<const float> states, std::span<const float> rows);
  void differentiate_target(int token, const float* state, const float* row);

  int tokens_, negatives_, hidden_, width_;
  std::vector<float> scores_;            ///< tokens x negatives; later their gradients
  std::vector<float> target_gradients_;  ///< of the score of each token's target
  std::vector<float> state_gradients_;
  std::vector<float> row_gradients_;
};

}  // namespace language_model
