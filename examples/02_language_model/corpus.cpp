#include "corpus.hpp"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

namespace language_model {
namespace {

constexpr double held_out_share = 0.05;

std::string read_text(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(std::filesystem::is_directory(path) ? nullptr : gzopen(path.c_str(), "rb"),
                                                        &gzclose);
  if (!file) {
    throw std::runtime_error("cannot open " + path.string() +
                             ": install the Debian package dict-gcide, or name a text, plain or gzipped, with --text");
  }
  constexpr unsigned piece = 1U << 20U;
  gzbuffer(file.get(), piece);
  std::string text;
  for (int got = 1; got > 0;) {
    const std::size_t size = text.size();
    text.resize(size + piece);
    got = gzread(file.get(), text.data() + size, piece);
    if (got < 0) throw std::runtime_error(path.string() + " is damaged");
    text.resize(size + static_cast<std::size_t>(got));
  }
  if (int error = Z_OK; gzerror(file.get(), &error), error != Z_OK)
    throw std::runtime_error(path.string() + " ends too early or is damaged");
  return text;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

void lower(std::string& text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
}

/// Appends every word of `text` to `words`, as its place in the order of first appearance. Returns the number of different words.
std::int64_t number_words(std::string_view text, std::vector<std::int32_t>& words) {
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_letter);
    const auto end = std::find_if_not(begin, text.end(), is_letter);
    if (begin == end) break;
    words.push_back(numbers.try_emplace(std::string_view(begin, end), static_cast<std::int32_t>(numbers.size())).first->second);
    begin = end;
  }
  return static_cast<std::int64_t>(numbers.size());
}

/// Returns the number by frequency of each word, in the order of first appearance. Rare words get unknown_word.
std::vector<std::int32_t> rank_by_frequency(const std::vector<std::int64_t>& counts, std::int64_t vocabulary) {
  std::vector<std::int32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::int32_t word) { return counts[static_cast<std::size_t>(word)]; });
  std::vector<std::int32_t> ranks(counts.size(), unknown_word);
  const auto known = std::min(order.size(), static_cast<std::size_t>(vocabulary - 1));
  for (std::size_t i = 0; i < known; ++i) ranks[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i + 1);
  return ranks;
}

}  // namespace

Corpus read_corpus(const std::filesystem::path& path, std::int64_t vocabulary) {
  std::string text = read_text(path);
  lower(text);
  std::vector<std::int32_t> words;
  const std::int64_t different = number_words(text, words);
  const auto train = words.size() - static_cast<std::size_t>(held_out_share * static_cast<double>(words.size()));

  std::vector<std::int64_t> counts(static_cast<std::size_t>(different));
  for (std::size_t i = 0; i < train; ++i) ++counts[static_cast<std::size_t>(words[i])];
  const std::vector<std::int32_t> ranks = rank_by_frequency(counts, vocabulary);
  for (std::int32_t& word : words) word = ranks[static_cast<std::size_t>(word)];

  Corpus corpus;
  corpus.train.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(train));
  corpus.held_out.assign(words.begin() + static_cast<std::ptrdiff_t>(train), words.end());
  corpus.counts.resize(static_cast<std::size_t>(std::min(vocabulary, different + 1)));
  for (const std::int32_t word : corpus.train) ++corpus.counts[static_cast<std::size_t>(word)];
  return corpus;
}

}  // namespace language_model
