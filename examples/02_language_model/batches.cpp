#include "batches.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "random.hpp"

namespace language_model {

NegativeSampler::NegativeSampler(std::span<const std::int64_t> counts, std::int64_t draws, std::uint64_t seed) : seed_(seed) {
  double sum = 0;
  // Words missing from the training text are drawn at times, too. Otherwise nothing would lower their scores.
  const auto weight = [](std::int64_t count) { return std::pow(static_cast<double>(std::max<std::int64_t>(1, count)), 0.75); };
  for (const std::int64_t count : counts) cumulative_.push_back(sum += weight(count));
  for (const std::int64_t count : counts)
    log_expected_.push_back(static_cast<float>(std::log(static_cast<double>(draws) * weight(count) / sum)));
}

void NegativeSampler::draw(std::int64_t step, std::span<std::int32_t> words) const {
  Random random(seed_ + static_cast<std::uint64_t>(step) * 0xd1342543de82ef95);
  for (std::int32_t& word : words) {
    const auto found = std::ranges::upper_bound(cumulative_, random.uniform() * cumulative_.back());
    word = static_cast<std::int32_t>(std::min(found, cumulative_.end() - 1) - cumulative_.begin());
  }
}

BatchReader::BatchReader(const Corpus& corpus, const NegativeSampler& negatives, BatchShape shape, int rank, int ranks)
    : corpus_(corpus),
      negatives_(negatives),
      shape_(shape),
      first_sequence_(rank * shape.sequences),
      stretch_(static_cast<std::int64_t>(corpus.train.size()) / (ranks * shape.sequences)) {
  if (stretch_ > shape.length) return;
  throw std::runtime_error("the training text has " + std::to_string(corpus.train.size()) + " words: " + std::to_string(ranks) +
                           " ranks with " + std::to_string(shape.sequences) + " sequences of " + std::to_string(shape.length) +
                           " words need more; name a longer text with --text");
}

void BatchReader::read(std::int64_t step, Batch& batch) const {
  batch.inputs.resize(static_cast<std::size_t>(shape_.tokens()));
  batch.outputs.resize(static_cast<std::size_t>(shape_.tokens() + shape_.negatives));
  for (std::int64_t t = 0; t < shape_.length; ++t) {
    // The last word of a part is only a target.
    const std::int64_t place = (step * shape_.length + t) % (stretch_ - 1);
    for (std::int64_t s = 0; s < shape_.sequences; ++s) {
      const auto word = static_cast<std::size_t>((first_sequence_ + s) * stretch_ + place);
      const auto token = static_cast<std::size_t>(t * shape_.sequences + s);
      batch.inputs[token] = corpus_.train[word];
      batch.outputs[token] = corpus_.train[word + 1];
    }
  }
  negatives_.draw(step, std::span(batch.outputs).last(static_cast<std::size_t>(shape_.negatives)));
}

}  // namespace language_model
