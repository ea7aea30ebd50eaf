// layout.hpp: what a checkpoint file holds and where in the file it is. Pure: no file is touched here.
//
// A *subject* is what was added under a name: a plan, a table, fused tensors, an optimizer, a schedule or an array. Its fields are
// *datasets*; each rank has a *piece* of a dataset. Numbers and texts are small: rank 0 gathers and writes them. Arrays are cut
// into *chunks*, which each rank writes and reads at their places in the file by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/state.hpp"

namespace weir::checkpoint {

inline constexpr std::int64_t schema_version = 1;
/// Bytes of a chunk of an array, as its elements are in memory. Compressed chunks are larger: deflate gains by it.
inline constexpr std::int64_t chunk_bytes = std::int64_t{1} << 18, compressed_chunk_bytes = std::int64_t{1} << 22;
[[nodiscard]] constexpr std::int64_t bytes_per_chunk(std::int64_t compression) {
  return compression > 0 ? compressed_chunk_bytes : chunk_bytes;
}

using Value = std::variant<std::int64_t, double, std::string>;
using Values = std::map<std::string, Value>;

/// One rank's part of a dataset.
struct Piece {
  std::int64_t count = absent;  ///< elements
  Region region{};              ///< of shares that have one
  static constexpr std::int64_t absent = -1;

  [[nodiscard]] bool present() const { return count >= 0; }
};

/// Where a chunk is in the file.
struct Chunk {
  std::int64_t address = 0;
  std::int64_t bytes = 0;  ///< that are meant; the file has room for a whole chunk
  std::uint64_t checksum = 0;
};

/// A range of the file.
struct Extent {
  std::int64_t begin = 0, bytes = 0;
};

struct Dataset {
  std::string name;  ///< below its subject: "step/residual"
  StateType type{};
  Share share = Share::each;
  bool chunked = false;
  std::int64_t chunk_elements = 0;  ///< of chunked ones
  std::vector<Piece> pieces;        ///< by rank
  std::vector<std::size_t> rows;    ///< the ranks that have a row in the file, ascending; in a file only
  std::vector<Chunk> chunks;        ///< of chunked ones: those of rank 0, then those of rank 1, ...
  std::vector<Extent> room;         ///< that chunks take in the file; as it is laid out only
  std::vector<std::byte> values;    ///< of the others: largest_piece() elements for each rank, zeros behind its piece

  [[nodiscard]] std::int64_t element_bytes() const { return state_type_bytes(type); }
  [[nodiscard]] std::int64_t largest_piece() const;
  [[nodiscard]] std::int64_t chunks_of(std::size_t rank) const;
  /// Returns the index of the rank's first chunk in `chunks`.
  [[nodiscard]] std::size_t first_chunk(std::size_t rank) const;
  /// Whether ranks without an element need no row: parts of one whole, each of which says itself where it belongs.
  [[nodiscard]] bool needs_no_empty_rows() const;
  /// Elements [first, first + count) of a rank's piece that its chunk number `chunk` has.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> elements_of(std::size_t rank, std::int64_t chunk) const;
  /// A rank's piece of `values`.
  [[nodiscard]] std::span<const std::byte> value(std::size_t rank) const;
};

/// Chunks of `count` elements.
[[nodiscard]] constexpr std::int64_t chunks_for(std::int64_t count, std::int64_t chunk_elements) {
  return count <= 0 ? 0 : (count + chunk_elements - 1) / chunk_elements;
}

enum class Kind { plan, table, schedule, array, fused, optimizer };
/// The name of the group that has all of a kind, "plans", and the word for one of them in texts, "plan".
[[nodiscard]] std::string_view group_of(Kind kind);
[[nodiscard]] std::string_view word_of(Kind kind);
inline constexpr std::array kinds = {Kind::plan, Kind::table, Kind::schedule, Kind::array, Kind::fused, Kind::optimizer};

struct Subject {
  Kind kind{};
  std::string name;
  Values about;  ///< its configuration
  std::vector<Dataset> datasets;

  [[nodiscard]] const Dataset* find(std::string_view dataset) const;
  /// "/plans/gradient"
  [[nodiscard]] std::string path() const;
};

/// All that a file says besides the elements of arrays.
struct Index {
  std::int64_t step = 0;
  std::int64_t compression = 0;
  std::string run, written, weir;      ///< "2026-11-22T21:40:00Z", "0.1.0"
  std::vector<std::int64_t> nodes;     ///< of each rank, counted from 0 in the order of their first ranks
  std::vector<std::int64_t> switches;  ///< of each rank, -1 where there are no switch groups (collectives/switch_groups.hpp)
  Values values;                       ///< the caller's own
  std::vector<Subject> subjects;

  [[nodiscard]] std::size_t ranks() const { return nodes.size(); }
};

/// What one rank has of a subject, before all ranks' are put together.
struct OutlinedField {
  FieldVisit visit;
  bool array = false;
  std::vector<std::byte> value;  ///< of fields that are not arrays
};
struct OutlinedSubject {
  Kind kind{};
  std::string name;
  Values about;
  std::vector<OutlinedField> fields;
};
using Outline = std::vector<OutlinedSubject>;

/// The subjects of all ranks' outlines, without values and chunks. Throws Error(WEIR_ERR_MISMATCH) where ranks have other subjects,
/// or a field of another type.
[[nodiscard]] std::vector<Subject> put_together(const std::vector<Outline>& ranks, std::int64_t compression);
/// Puts one rank's numbers and texts, one behind the other in the order of its outline, to their places.
void set_values(std::vector<Subject>& subjects, std::size_t rank, const Outline& outline, std::span<const std::byte> values);

// As bytes that travel between ranks. Values of fields are left out of outlines.
[[nodiscard]] std::vector<std::uint8_t> encode(const Outline& outline);
[[nodiscard]] Outline decode_outline(std::span<const std::uint8_t> bytes);
[[nodiscard]] std::vector<std::uint8_t> encode(const Index& index);
[[nodiscard]] Index decode_index(std::span<const std::uint8_t> bytes);

/// Returns the element for which `is` is true; most often it is at `hint`.
template <class List, class Is>
[[nodiscard]] auto& find_near(List& list, std::size_t hint, Is&& is) {
  if (hint < list.size() && is(list[hint])) return list[hint];
  std::size_t at = 0;
  while (!is(list[at])) ++at;
  return list[at];
}

/// Calls see(dataset, field) for every field of a rank's outline, in its order, whose subjects are among `subjects`.
template <class Subjects, class See>
void for_fields(Subjects& subjects, const Outline& outline, See&& see) {
  for (std::size_t s = 0; s < outline.size(); ++s) {
    auto& subject = find_near(subjects, s,
                              [&](const Subject& other) { return other.kind == outline[s].kind && other.name == outline[s].name; });
    for (std::size_t f = 0; f < outline[s].fields.size(); ++f) {
      const OutlinedField& field = outline[s].fields[f];
      see(find_near(subject.datasets, f, [&](const Dataset& dataset) { return dataset.name == field.visit.name; }), field);
    }
  }
}
/// see(dataset) for every array.
template <class Subjects, class See>
void for_arrays(Subjects& subjects, const Outline& outline, See&& see) {
  for_fields(subjects, outline, [&](auto& dataset, const OutlinedField& field) {
    if (field.array) see(dataset);
  });
}

/// All of a file of `file_bytes` but the room of chunks: what the HDF5 library has written. Ascending.
[[nodiscard]] std::vector<Extent> structure_of(const Index& index, std::int64_t file_bytes);

}  // namespace weir::checkpoint
