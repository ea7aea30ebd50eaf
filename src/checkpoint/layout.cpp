#include "checkpoint/layout.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/packing.hpp"

namespace weir::checkpoint {
namespace {

struct KindRow {
  std::string_view group, word;
};
constexpr std::array kind_rows = {KindRow{"plans", "plan"},   KindRow{"tables", "table"}, KindRow{"schedules", "schedule"},
                                  KindRow{"arrays", "array"}, KindRow{"fused", "fused"},  KindRow{"optimizers", "optimizer"}};

const KindRow& row_of(Kind kind) { return kind_rows[static_cast<std::size_t>(kind)]; }

void check_same_subjects(const Outline& first, const Outline& other, std::size_t rank) {
  const auto missing = [](const Outline& from, const Outline& in) {
    return std::find_if(from.begin(), from.end(), [&](const Subject& subject) { return find_same(in, subject) == nullptr; });
  };
  if (const auto here = missing(first, other); here != first.end())
    fail(WEIR_ERR_MISMATCH, "ranks have added different things: rank 0 has {}, rank {} has not", here->words(), rank);
  if (const auto there = missing(other, first); there != other.end())
    fail(WEIR_ERR_MISMATCH, "ranks have added different things: rank {} has {}, rank 0 has not", rank, there->words());
}

void add_dataset(Subject& subject, const Dataset& own, std::size_t rank, std::size_t ranks, std::int64_t compression) {
  Dataset* whole = find_near(subject.datasets, 0, [&](const Dataset& dataset) { return dataset.name == own.name; });
  if (whole == nullptr) {
    whole = &subject.datasets.emplace_back(own);
    whole->chunk_elements = bytes_per_chunk(compression) / own.element_bytes();
    whole->pieces.assign(ranks, {});
  }
  if (whole->type != own.type || whole->share != own.share || whole->chunked != own.chunked)
    fail(WEIR_ERR_MISMATCH, "ranks disagree about {}, field '{}': rank {} has {} there, a lower one {}{}", subject.words(),
         own.name, rank, state_type_name(own.type), state_type_name(whole->type),
         whole->type == own.type ? ", distributed in another way" : "");
  whole->pieces[rank] = own.pieces.front();
}

/// Checks that the parts of all ranks make up the caller's array, with each element once. Otherwise it could not be restored.
void check_parts(const Subject& subject, const Dataset& dataset) {
  const Region& whole = dataset.pieces[0].region;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // begin, end
  for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
    const Region& region = dataset.pieces[rank].region;
    if (region.whole_rows != whole.whole_rows)
      fail(WEIR_ERR_MISMATCH, "array '{}': ranks disagree about its length: rank 0 has {} elements, rank {} has {}", subject.name,
           whole.whole_rows, rank, region.whole_rows);
    if (region.rows > 0) ranges.emplace_back(region.first_row, region.first_row + region.rows);
  }
  std::sort(ranges.begin(), ranges.end());
  ranges.emplace_back(whole.whole_rows, whole.whole_rows);
  std::int64_t end = 0;
  for (const auto& [begin, next] : ranges) {
    if (begin != end)
      fail(WEIR_ERR_MISMATCH, "array '{}': {} element {}: blocks must make up all of its {} elements, each of them once",
           subject.name, begin > end ? "no rank has" : "two ranks have", std::min(begin, end), whole.whole_rows);
    end = next;
  }
}

}  // namespace

std::string_view group_of(Kind kind) { return row_of(kind).group; }
std::string_view word_of(Kind kind) { return row_of(kind).word; }

std::int64_t Dataset::largest_piece() const {
  std::int64_t largest = 0;
  for (const Piece& piece : pieces) largest = std::max(largest, piece.count);
  return largest;
}

std::size_t Dataset::first_chunk(std::size_t rank) const {
  std::int64_t first = 0;
  for (std::size_t r = 0; r < rank; ++r) first += chunks_of(r);
  return static_cast<std::size_t>(first);
}

std::pair<std::int64_t, std::int64_t> Dataset::elements_of(std::size_t rank, std::int64_t chunk) const {
  const std::int64_t first = chunk * chunk_elements;
  return {first, std::min(chunk_elements, pieces[rank].count - first)};
}

std::vector<std::int64_t> Dataset::chunk_numbers() const {
  std::vector<std::int64_t> numbers;
  for (const Chunk& chunk : chunks)
    numbers.insert(numbers.end(), {chunk.address, chunk.bytes, static_cast<std::int64_t>(chunk.checksum)});
  return numbers;
}

std::span<const std::byte> Dataset::value(std::size_t rank) const {
  const auto row = static_cast<std::size_t>(largest_piece() * element_bytes());
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(0, pieces[rank].count) * element_bytes());
  return std::span(values).subspan(rank * row, bytes);
}

const Dataset* Subject::find(std::string_view dataset) const {
  return find_near(datasets, 0, [&](const Dataset& d) { return d.name == dataset; });
}

std::string Subject::path() const { return fmt::format("/{}/{}", group_of(kind), name); }
std::string Subject::words() const { return fmt::format("{} '{}'", word_of(kind), name); }

std::vector<Subject> put_together(const std::vector<Outline>& ranks, std::int64_t compression) {
  std::vector<Subject> subjects;
  for (const Subject& subject : ranks[0]) subjects.push_back({subject.kind, subject.name, subject.about, {}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    check_same_subjects(ranks[0], ranks[rank], rank);
    for (const Subject& outlined : ranks[rank]) {
      Subject& subject = *find_same(subjects, outlined);
      for (const Dataset& own : outlined.datasets) add_dataset(subject, own, rank, ranks.size(), compression);
    }
  }
  for (Subject& subject : subjects) {
    for (Dataset& dataset : subject.datasets) {
      if (subject.kind == Kind::array && dataset.share == Share::block) check_parts(subject, dataset);
      const std::int64_t largest = dataset.largest_piece();
      if (dataset.chunked) {
        // Chunks of equal size waste hardly any room.
        const std::int64_t chunks = std::max<std::int64_t>(1, chunks_for(largest, dataset.chunk_elements));
        dataset.chunk_elements = std::max<std::int64_t>(1, (largest + chunks - 1) / chunks);
        dataset.chunks.resize(dataset.first_chunk(ranks.size()));
      } else {
        dataset.values.resize(ranks.size() * static_cast<std::size_t>(largest * dataset.element_bytes()));
      }
    }
  }
  return subjects;
}

std::vector<std::uint8_t> packed_outline(Outline outline) {
  for (Subject& subject : outline) {
    for (Dataset& own : subject.datasets) own.values.clear();
  }
  return packed(outline);
}

std::vector<Extent> structure_of(const Index& index, std::int64_t file_bytes) {
  std::vector<Extent> chunks;
  for (const Subject& subject : index.subjects) {
    for (const Dataset& dataset : subject.datasets) {
      chunks.insert(chunks.end(), dataset.room.begin(), dataset.room.end());
    }
  }
  std::sort(chunks.begin(), chunks.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::vector<Extent> rest;
  std::int64_t at = 0;
  for (const Extent& chunk : chunks) {
    if (chunk.begin > at) rest.push_back({at, chunk.begin - at});
    at = std::max(at, chunk.begin + chunk.bytes);
  }
  if (file_bytes > at) rest.push_back({at, file_bytes - at});
  return rest;
}

}  // namespace weir::checkpoint
