// corpus.hpp: reads text as numbers. Words are runs of ASCII letters in lower case, numbered by frequency.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace language_model {

/// The number of every word that is not in the vocabulary.
inline constexpr std::int32_t unknown_word = 0;

struct Corpus {
  /// How often each word is in `train`. The vocabulary has counts.size() words: unknown_word, then the most frequent first.
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> train;     ///< the first 95 % of the text
  std::vector<std::int32_t> held_out;  ///< the rest
};

/// Reads plain or gzipped text. `vocabulary` is the largest number of words, including unknown_word. Throws std::runtime_error
/// that names the file and the fault.
Corpus read_corpus(const std::filesystem::path& path, std::int64_t vocabulary);

}  // namespace language_model
