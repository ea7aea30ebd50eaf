// What a step trains on: the next words of this rank's stretches of the text, and the words they are told apart from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "corpus.hpp"

namespace language_model {

/// Draws words as often as their count to the power of 0.75 says (Mikolov et al., 2013), with replacement.
class NegativeSampler {
 public:
  NegativeSampler(std::span<const std::int64_t> counts, std::int64_t draws, std::uint64_t seed);
  /// The same for the same step on every rank.
  void draw(std::int64_t step, std::span<std::int32_t> words) const;
  /// Returns the logarithm of how often each word is drawn in one step on average. Sampled softmax subtracts it from a score.
  [[nodiscard]] std::span<const float> log_expected() const { return log_expected_; }

 private:
  std::uint64_t seed_;
  std::vector<double> cumulative_;
  std::vector<float> log_expected_;
};

/// Shape of a rank's batch.
struct BatchShape {
  std::int64_t sequences = 16;
  std::int64_t length = 20;  ///< words of each sequence: how far back-propagation goes through time
  std::int64_t negatives = 256;
  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
};

/// Word t of sequence s is at t * sequences + s.
struct Batch {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> outputs;  ///< the word after each of the inputs, then the negative samples
};

/// Each sequence of each rank reads a stretch of its own, going on where the step before has ended.
class BatchReader {
 public:
  /// Both must outlive the reader. Throws std::runtime_error when the text is too short.
  BatchReader(const Corpus& corpus, const NegativeSampler& negatives, BatchShape shape, int rank, int ranks);
  void read(std::int64_t step, Batch& batch) const;

 private:
  const Corpus& corpus_;
  const NegativeSampler& negatives_;
  BatchShape shape_;
  std::int64_t first_sequence_;
  std::int64_t stretch_;
};

}  // namespace language_model
