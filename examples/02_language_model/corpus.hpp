// Text as numbers: words are runs of ASCII letters, lower-cased, numbered by frequency.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace language_model {

/// The word that stands for all that the vocabulary lacks.
inline constexpr std::int32_t unknown_word = 0;

struct Corpus {
  std::vector<std::int64_t> counts;  ///< of each word in `train`; the vocabulary is counts.size() words, most frequent first after
                                     ///< unknown_word
  std::vector<std::int32_t> train;   ///< the first 95 % of the text
  std::vector<std::int32_t> held_out;  ///< the rest
};

/// Reads plain or gzipped text. `vocabulary`: words at most, unknown_word included. Throws std::runtime_error naming the file and
/// what is wrong with it.
Corpus read_corpus(const std::filesystem::path& path, std::int64_t vocabulary);

}  // namespace language_model
