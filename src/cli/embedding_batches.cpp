#include "cli/embedding_batches.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include "cli/report.hpp"

namespace weir::cli {
namespace {

/// The distinct words of a text, numbered in order of appearance, and the text as these numbers.
struct Words {
  std::vector<std::string> spelling;
  std::vector<std::int64_t> count;
  std::vector<std::uint32_t> text;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) give_up("cannot read the text '{}'", file);
  return text;
}

Words find_words(const std::string& text) {
  Words words;
  std::unordered_map<std::string, std::uint32_t> number;
  std::string word;
  for (auto c = text.begin(); c != text.end();) {
    c = std::find_if(c, text.end(), is_letter);
    const auto end = std::find_if_not(c, text.end(), is_letter);
    if (c == end) break;
    word.assign(c, end);
    for (char& letter : word) letter = static_cast<char>(letter | 0x20);
    const auto [known, is_new] = number.try_emplace(word, static_cast<std::uint32_t>(number.size()));
    if (is_new) {
      words.spelling.push_back(word);
      words.count.push_back(0);
    }
    ++words.count[known->second];
    words.text.push_back(known->second);
    c = end;
  }
  return words;
}

std::vector<std::int64_t> ids_by_frequency(const Words& words, std::int64_t rows) {
  std::vector<std::uint32_t> order(words.count.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return words.count[a] != words.count[b] ? words.count[a] > words.count[b] : words.spelling[a] < words.spelling[b];
  });
  std::vector<std::int64_t> id(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    id[order[place]] = std::min(static_cast<std::int64_t>(place), rows - 1);
  return id;
}

/// Fills all batches in order. `next` returns an id.
template <class Next>
IdBatches fill_batches(const BatchShape& shape, Next next) {
  IdBatches batches(static_cast<std::size_t>(shape.steps), std::vector<std::int64_t>(static_cast<std::size_t>(shape.tokens)));
  for (auto& batch : batches) std::ranges::generate(batch, next);
  return batches;
}

}  // namespace

IdBatches zipf_batches(const BatchShape& shape, int rank) {
  ZipfIds zipf(shape.rows, static_cast<std::uint64_t>(rank));
  return fill_batches(shape, [&] { return std::int64_t{zipf.next()}; });
}

IdBatches text_batches(const std::string& file, const BatchShape& shape, int rank, int ranks) {
  const Words words = find_words(read_file(file));
  const auto have = static_cast<std::int64_t>(words.text.size());
  if (have / ranks / shape.steps < shape.tokens)
    give_up("the text '{}' has {} words: {} ranks x {} steps x {} tokens take {}; take a longer text, fewer iterations or tokens",
            file, have, ranks, shape.steps, shape.tokens, shape.tokens * ranks * shape.steps);
  const std::vector<std::int64_t> id = ids_by_frequency(words, shape.rows);
  auto word = words.text.begin() + have / ranks * rank;
  return fill_batches(shape, [&] { return id[*word++]; });
}

}  // namespace weir::cli
