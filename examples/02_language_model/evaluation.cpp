#include "evaluation.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace language_model {
namespace {

constexpr std::int64_t stretch_words = 64;
constexpr int rows_at_once = 32;  // few enough for their scores to stay in cache

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

std::int64_t stretch_count(const Corpus& corpus, std::int64_t words) {
  const std::int64_t count = std::max<std::int64_t>(1, words / stretch_words);
  const auto there = static_cast<std::int64_t>(corpus.held_out.size());
  if (there > count * stretch_words) return count;
  throw std::runtime_error("the held-out text has " + std::to_string(there) + " words: to be tested on " +
                           std::to_string(count * stretch_words) + " of them it must have more; name a longer text with --text");
}

/// Returns the shape for this rank's parts of the text.
GruShape shape_of(MPI_Comm comm, std::int64_t stretches, int inputs, int hidden) {
  const int rank = rank_of(comm), size = size_of(comm);
  const std::int64_t mine = stretches * (rank + 1) / size - stretches * rank / size;
  return {.inputs = inputs, .hidden = hidden, .sequences = static_cast<int>(mine), .length = static_cast<int>(stretch_words)};
}

}  // namespace

Evaluator::Evaluator(MPI_Comm comm, const Corpus& corpus, int inputs, int hidden, std::int64_t words)
    : comm_(comm),
      vocabulary_(static_cast<std::int64_t>(corpus.counts.size())),
      inputs_(inputs),
      hidden_(hidden),
      gru_(shape_of(comm, stretch_count(corpus, words), inputs, hidden)),
      scores_(static_cast<std::size_t>(rows_at_once * vocabulary_)) {
  const std::int64_t stretches = stretch_count(corpus, words);
  const std::int64_t first = stretches * rank_of(comm) / size_of(comm), end = stretches * (rank_of(comm) + 1) / size_of(comm);
  const std::int64_t apart = (static_cast<std::int64_t>(corpus.held_out.size()) - 1) / stretches;
  words_ = stretches * stretch_words;
  for (std::int64_t t = 0; t < stretch_words; ++t) {
    for (std::int64_t stretch = first; stretch < end; ++stretch) {
      const auto word = static_cast<std::size_t>(stretch * apart + t);
      sources_.push_back(corpus.held_out[word]);
      targets_.push_back(corpus.held_out[word + 1]);
    }
  }
}

double Evaluator::perplexity(const Model& model) {
  const auto inputs = static_cast<std::size_t>(inputs_), width = static_cast<std::size_t>(hidden_);
  double sum = 0;
  if (!sources_.empty()) {
    std::vector<float> vectors(sources_.size() * inputs);
    for (std::size_t i = 0; i < sources_.size(); ++i)
      std::copy_n(&model.embedding[static_cast<std::size_t>(sources_[i]) * inputs], inputs, &vectors[i * inputs]);
    gru_.reset_state();
    gru_.project(model.input_block, vectors);
    gru_.forward(model.recurrent_block, [] {});
    for (std::size_t first = 0; first < targets_.size(); first += rows_at_once) {
      const std::size_t count = std::min<std::size_t>(rows_at_once, targets_.size() - first);
      sum += log_likelihood(model, gru_.outputs().subspan(first * width, count * width), std::span(targets_).subspan(first, count));
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comm_);
  return std::exp(-sum / static_cast<double>(words_));
}

double Evaluator::log_likelihood(const Model& model, std::span<const float> states, std::span<const std::int32_t> targets) {
  const auto vocabulary = static_cast<std::size_t>(vocabulary_), width = static_cast<std::size_t>(hidden_) + 1;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    for (std::size_t word = 0; word < vocabulary; ++word) scores_[row * vocabulary + word] = model.output[(word + 1) * width - 1];
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(targets.size()), static_cast<int>(vocabulary), hidden_,
              1.0F, states.data(), hidden_, model.output.data(), hidden_ + 1, 1.0F, scores_.data(), static_cast<int>(vocabulary));
  double sum = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const std::span<const float> scores(&scores_[row * vocabulary], vocabulary);
    const float largest = *std::ranges::max_element(scores);
    double total = 0;
    for (const float score : scores) total += std::exp(score - largest);
    sum += scores[static_cast<std::size_t>(targets[row])] - largest - std::log(total);
  }
  return sum;
}

}  // namespace language_model
