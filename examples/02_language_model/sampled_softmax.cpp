#include "sampled_softmax.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace language_model {
namespace {

/// A score far below all others, but finite, so that exp gives 0 and no NaN.
constexpr float never = -1e30F;

std::size_t product(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace

SampledSoftmax::SampledSoftmax(int tokens, int negatives, int hidden)
    : tokens_(tokens),
      negatives_(negatives),
      hidden_(hidden),
      width_(hidden + 1),
      scores_(product(tokens, negatives)),
      target_gradients_(static_cast<std::size_t>(tokens)),
      state_gradients_(product(tokens, hidden)),
      row_gradients_(product(tokens + negatives, width_)) {}

void SampledSoftmax::differentiate(std::span<const float> states, std::span<const std::int32_t> words, std::span<const float> rows,
                                   std::span<const float> log_expected, const Pause& pause) {
  score_negatives(states, words, rows, log_expected);
  pause();
  for (int token = 0; token < tokens_; ++token) {
    const auto target = static_cast<std::size_t>(words[static_cast<std::size_t>(token)]);
    score_target(token, &states[product(token, hidden_)], &rows[product(token, width_)], log_expected[target]);
  }
  pause();
  differentiate_negatives(states, rows);
  pause();
  for (int token = 0; token < tokens_; ++token)
    differentiate_target(token, &states[product(token, hidden_)], &rows[product(token, width_)]);
  pause();
}

void SampledSoftmax::score_negatives(std::span<const float> states, std::span<const std::int32_t> words,
                                     std::span<const float> rows, std::span<const float> log_expected) {
  const float* negative_rows = &rows[product(tokens_, width_)];
  for (int i = 0; i < negatives_; ++i) {
    const std::int32_t word = words[static_cast<std::size_t>(tokens_ + i)];
    const float offset =
        negative_rows[product(i, width_) + static_cast<std::size_t>(hidden_)] - log_expected[static_cast<std::size_t>(word)];
    for (int token = 0; token < tokens_; ++token) {
      // A token's own target must not count as a negative sample.
      const bool is_target = words[static_cast<std::size_t>(token)] == word;
      scores_[product(token, negatives_) + static_cast<std::size_t>(i)] = is_target ? never : offset;
    }
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, tokens_, negatives_, hidden_, 1.0F, states.data(), hidden_, negative_rows,
              width_, 1.0F, scores_.data(), negatives_);
}

void SampledSoftmax::score_target(int token, const float* state, const float* row, float log_expected) {
  const std::span<float> scores(&scores_[product(token, negatives_)], static_cast<std::size_t>(negatives_));
  const float score = cblas_sdot(hidden_, state, 1, row, 1) + row[hidden_] - log_expected;
  const float largest = std::max(score, *std::ranges::max_element(scores));
  const float target = std::exp(score - largest);
  float sum = target;
  for (float& value : scores) sum += value = std::exp(value - largest);
  const float scale = 1.0F / (sum * static_cast<float>(tokens_));
  for (float& value : scores) value *= scale;
  target_gradients_[static_cast<std::size_t>(token)] = target * scale - 1.0F / static_cast<float>(tokens_);
}

void SampledSoftmax::differentiate_negatives(std::span<const float> states, std::span<const float> rows) {
  const float* negative_rows = &rows[product(tokens_, width_)];
  float* gradients = &row_gradients_[product(tokens_, width_)];
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, tokens_, hidden_, negatives_, 1.0F, scores_.data(), negatives_,
              negative_rows, width_, 0.0F, state_gradients_.data(), hidden_);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, negatives_, hidden_, tokens_, 1.0F, scores_.data(), negatives_,
              states.data(), hidden_, 0.0F, gradients, width_);
  for (int i = 0; i < negatives_; ++i) gradients[product(i, width_) + static_cast<std::size_t>(hidden_)] = 0.0F;
  for (int token = 0; token < tokens_; ++token)
    cblas_saxpy(negatives_, 1.0F, &scores_[product(token, negatives_)], 1, gradients + hidden_, width_);
}

void SampledSoftmax::differentiate_target(int token, const float* state, const float* row) {
  const float gradient = target_gradients_[static_cast<std::size_t>(token)];
  float* of_row = &row_gradients_[product(token, width_)];
  for (int i = 0; i < hidden_; ++i) of_row[i] = gradient * state[i];
  of_row[hidden_] = gradient;
  cblas_saxpy(hidden_, gradient, row, 1, &state_gradients_[product(token, hidden_)], 1);
}

}  // namespace language_model
