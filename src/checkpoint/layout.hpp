// layout.hpp: what a checkpoint file holds and where. Pure: this code touches no file.
//
// A *subject* is what was added under a name: a plan, a table, fused tensors, an optimizer, a schedule or an array. Its fields are
// *datasets*. Each rank has a *piece* of a dataset. Numbers and texts are small: rank 0 gathers and writes them. Arrays are cut
// into *chunks*, which each rank writes and reads by itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/state.hpp"

namespace weir::checkpoint {

/// Indexed by Share.
inline constexpr std::array<std::string_view, 6> share_names = {"each", "agreed", "layout", "summed", "block", "cuts"};

inline constexpr std::int64_t schema_version = 1;
/// Bytes of a chunk of an array, before compression. Compressed chunks are larger because deflate then compresses better.
inline constexpr std::int64_t chunk_bytes = std::int64_t{1} << 18, compressed_chunk_bytes = std::int64_t{1} << 22;
[[nodiscard]] constexpr std::int64_t bytes_per_chunk(std::int64_t compression) {
  return compression > 0 ? compressed_chunk_bytes : chunk_bytes;
}

using Value = std::variant<std::int64_t, double, std::string>;
using Values = std::map<std::string, Value>;

/// One rank's part of a dataset.
struct Piece {
  std::int64_t count = absent;  ///< elements
  Region region{};              ///< if the share has one
  static constexpr std::int64_t absent = -1;

  [[nodiscard]] bool present() const { return count >= 0; }
};

/// A chunk's place in the file.
struct Chunk {
  std::int64_t address = 0;
  std::int64_t bytes = 0;  ///< in use; the file has room for a whole chunk
  std::uint64_t checksum = 0;
};

/// A range of the file.
struct Extent {
  std::int64_t begin = 0, bytes = 0;
};

/// Returns the number of chunks for `count` elements.
[[nodiscard]] constexpr std::int64_t chunks_for(std::int64_t count, std::int64_t chunk_elements) {
  return count <= 0 ? 0 : (count + chunk_elements - 1) / chunk_elements;
}

struct Dataset {
  std::string name;  ///< relative to its subject, for example "step/residual"
  StateType type{};
  Share share = Share::each;
  bool chunked = false;
  std::int64_t chunk_elements = 0;  ///< if chunked
  std::vector<Piece> pieces;        ///< by rank
  std::vector<std::size_t> rows;    ///< the ranks that have a row in the file, ascending; set only when reading or writing a file
  std::vector<Chunk> chunks;        ///< if chunked: those of rank 0, then those of rank 1, ...
  std::vector<Extent> room;         ///< the ranges of the file that chunks take; set only when laid out
  std::vector<std::byte> values;    ///< if not chunked: largest_piece() elements for each rank, padded with zeros

  [[nodiscard]] std::int64_t element_bytes() const { return state_type_bytes(type); }
  [[nodiscard]] std::int64_t largest_piece() const;
  [[nodiscard]] std::int64_t chunks_of(std::size_t rank) const { return chunks_for(pieces[rank].count, chunk_elements); }
  /// Returns the index of the rank's first chunk in `chunks`.
  [[nodiscard]] std::size_t first_chunk(std::size_t rank) const;
  [[nodiscard]] std::span<Chunk> chunks_at(std::size_t rank) {
    return std::span(chunks).subspan(first_chunk(rank), static_cast<std::size_t>(chunks_of(rank)));
  }
  /// Returns the elements [first, first + count) of a rank's piece that are in its chunk number `chunk`.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> elements_of(std::size_t rank, std::int64_t chunk) const;
  /// A chunk among those of a rank that has a row in the file.
  struct ChunkPlace {
    std::size_t row = 0, rank = 0;
    std::int64_t number = 0;            ///< among those of the rank
    std::int64_t first = 0, count = 0;  ///< elements
  };
  /// Calls see(chunk, its place) for all chunks. `rows` must be set.
  template <class See>
  void for_chunks(See&& see) {
    std::size_t at = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::int64_t c = 0; c < chunks_of(rows[row]); ++c) {
        const auto [first, count] = elements_of(rows[row], c);
        see(chunks[at++], ChunkPlace{row, rows[row], c, first, count});
      }
    }
  }
  /// Returns address, bytes and checksum of each chunk, as the file lists them.
  [[nodiscard]] std::vector<std::int64_t> chunk_numbers() const;
  /// Returns a rank's piece of `values`.
  [[nodiscard]] std::span<const std::byte> value(std::size_t rank) const;

  template <class Self, class Visit>
  static void fields(Self& d, Visit&& visit) {
    visit(d.name, d.type, d.share, d.chunked, d.chunk_elements, d.pieces, d.chunks, d.values);
  }
};

enum class Kind { plan, table, schedule, array, fused, optimizer };
inline constexpr std::array kinds = {Kind::plan, Kind::table, Kind::schedule, Kind::array, Kind::fused, Kind::optimizer};
/// group_of() returns the name of the group for a kind, for example "plans". word_of() returns the word for one, for example
/// "plan".
[[nodiscard]] std::string_view group_of(Kind kind);
[[nodiscard]] std::string_view word_of(Kind kind);

struct Subject {
  Kind kind{};
  std::string name;
  Values about;  ///< its configuration
  std::vector<Dataset> datasets;

  [[nodiscard]] const Dataset* find(std::string_view dataset) const;
  /// Returns the path in the file, for example "/plans/gradient".
  [[nodiscard]] std::string path() const;
  /// Returns its name in texts, for example "plan 'gradient'".
  [[nodiscard]] std::string words() const;

  template <class Self, class Visit>
  static void fields(Self& s, Visit&& visit) {
    visit(s.kind, s.name, s.about, s.datasets);
  }
};

/// What one rank has: its subjects, before the parts of all ranks are combined. Datasets have one piece, the rank's own.
using Outline = std::vector<Subject>;

/// Everything that a file states except the elements of arrays.
struct Index {
  std::int64_t step = 0;
  std::int64_t compression = 0;
  std::string run, written, weir;      ///< "2026-11-22T21:40:00Z", "0.1.0"
  std::vector<std::int64_t> nodes;     ///< of each rank, numbered from 0 in the order of their first ranks
  std::vector<std::int64_t> switches;  ///< of each rank; -1 if there are no switch groups (collectives/switch_groups.hpp)
  Values values;                       ///< set by the caller
  std::vector<Subject> subjects;

  [[nodiscard]] std::size_t ranks() const { return nodes.size(); }

  template <class Self, class Visit>
  static void fields(Self& i, Visit&& visit) {
    visit(i.step, i.compression, i.run, i.written, i.weir, i.nodes, i.switches, i.values, i.subjects);
  }
};

/// Returns the element for which `is` is true, or nullptr. Tries `hint` first.
template <class List, class Is>
[[nodiscard]] auto* find_near(List& list, std::size_t hint, Is&& is) {
  if (hint < list.size() && is(list[hint])) return &list[hint];
  const auto found = std::find_if(list.begin(), list.end(), is);
  return found == list.end() ? nullptr : &*found;
}
/// Returns the subject of the same kind and name, or nullptr.
template <class Subjects>
[[nodiscard]] auto* find_same(Subjects& subjects, const Subject& like, std::size_t hint = 0) {
  return find_near(subjects, hint, [&](const Subject& other) { return other.kind == like.kind && other.name == like.name; });
}
/// Calls see(dataset, own) for every dataset of a rank's outline, in its order. `subjects` must have all of them.
template <class Subjects, class See>
void for_datasets(Subjects& subjects, const Outline& outline, See&& see) {
  for (std::size_t s = 0; s < outline.size(); ++s) {
    auto& datasets = find_same(subjects, outline[s], s)->datasets;
    for (std::size_t d = 0; d < outline[s].datasets.size(); ++d) {
      const Dataset& own = outline[s].datasets[d];
      see(*find_near(datasets, d, [&](const Dataset& dataset) { return dataset.name == own.name; }), own);
    }
  }
}

/// Returns the subjects of all ranks' outlines, without values and chunks. Throws Error(WEIR_ERR_MISMATCH) if ranks have different
/// subjects, or a dataset has different types.
[[nodiscard]] std::vector<Subject> put_together(const std::vector<Outline>& ranks, std::int64_t compression);
/// Returns an outline as bytes that travel, without the values of datasets.
[[nodiscard]] std::vector<std::uint8_t> packed_outline(Outline outline);

/// Returns the ranges of a file of `file_bytes` that the HDF5 library has written: all except the room of chunks. Ascending.
[[nodiscard]] std::vector<Extent> structure_of(const Index& index, std::int64_t file_bytes);

}  // namespace weir::checkpoint
