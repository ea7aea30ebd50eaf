// batches.hpp: makes the batch of a step from the next words of this rank's parts of the text and from negative samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "corpus.hpp"

namespace language_model {

/// Draws words with replacement, with probability proportional to count^0.75 (Mikolov et al., 2013).
class NegativeSampler {
 public:
  NegativeSampler(std::span<const std::int64_t> counts, std::int64_t draws, std::uint64_t seed);
  /// Fills `words` with samples, the same for the same step on every rank.
  void draw(std::int64_t step, std::span<std::int32_t> words) const;
  /// Returns, for each word, the logarithm of its expected number of draws in a step. Sampled softmax subtracts it from a score.
  [[nodiscard]] std::span<const float> log_expected() const { return log_expected_; }

 private:
  std::uint64_t seed_;
  std::vector<double> cumulative_;
  std::vector<float> log_expected_;
};

/// The shape of a rank's batch.
struct BatchShape {
  std::int64_t sequences = 16;
  std::int64_t length = 20;  ///< words of each sequence, and steps of back-propagation through time
  std::int64_t negatives = 256;
  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
};

/// The words of a step. Word t of sequence s is at t * sequences + s.
struct Batch {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> outputs;  ///< the word after each input, then the negative samples
};

/// Reads batches. Each sequence of each rank has its own part of the text and continues where the previous step ended.
class BatchReader {
 public:
  /// `corpus` and `negatives` must outlive the reader. Throws std::runtime_error if the text is too short.
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
