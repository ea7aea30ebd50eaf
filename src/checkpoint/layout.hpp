// layout.hpp: what a checkpoint file holds and where. Pure: this code touches no file.
//
// A *subject* is what was added under a name: a plan, a table, fused tensors, an optimizer, a schedule or an array. Its fields are
// *datasets*. Each rank has a *piece* of a dataset. Numbers and texts are small: rank 0 gathers and writes them. Arrays are cut
// into *chunks*, which each rank writes and reads by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/state.hpp"

namespace weir::checkpoint {

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
  [[nodiscard]] std::int64_t chunks_of(std::size_t rank) const;
  /// Returns the index of the rank's first chunk in `chunks`.
  [[nodiscard]] std::size_t first_chunk(std::size_t rank) const;
  /// Returns whether ranks without elements need no row. True for parts of one whole, each of which has its own region.
  [[nodiscard]] bool needs_no_empty_rows() const;
  /// Returns the elements [first, first + count) of a rank's piece that are in its chunk number `chunk`.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> elements_of(std::size_t rank, std::int64_t chunk) const;
  /// Returns a rank's piece of `values`.
  [[nodiscard]] std::span<const std::byte> value(std::size_t rank) const;
};

/// Returns the number of chunks for `count` elements.
[[nodiscard]] constexpr std::int64_t chunks_for(std::int64_t count, std::int64_t chunk_elements) {
  return count <= 0 ? 0 : (count + chunk_elements - 1) / chunk_elements;
}

enum class Kind { plan, table, schedule, array, fused, optimizer };
/// group_of() returns the name of the group for a kind, for example "plans". word_of() returns the word for one, for example
/// "plan".
[[nodiscard]] std::string_view group_of(Kind kind);
[[nodiscard]] std::string_view word_of(Kind kind);
inline constexpr std::array kinds = {Kind::plan, Kind::table, Kind::schedule, Kind::array, Kind::fused, Kind::optimizer};

struct Subject {
  Kind kind{};
  std::string name;
  Values about;  ///< its configuration
  std::vector<Dataset> datasets;

  [[nodiscard]] const Dataset* find(std::string_view dataset) const;
  /// Returns the path in the file, for example "/plans/gradient".
  [[nodiscard]] std::string path() const;
};

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
};

/// One rank's part of a subject, before the parts of all ranks are combined.
struct OutlinedField {
  FieldVisit visit;
  bool array = false;
  std::vector<std::byte> value;  ///< if not an array
};
struct OutlinedSubject {
  Kind kind{};
  std::string name;
  Values about;
  std::vector<OutlinedField> fields;
};
using Outline = std::vector<OutlinedSubject>;

/// Returns the subjects of all ranks' outlines, without values and chunks. Throws Error(WEIR_ERR_MISMATCH) if ranks have different
/// subjects, or a field has different types.
[[nodiscard]] std::vector<Subject> put_together(const std::vector<Outline>& ranks, std::int64_t compression);
/// Stores one rank's numbers and texts. `values` has them one after the other, in the order of the outline.
void set_values(std::vector<Subject>& subjects, std::size_t rank, const Outline& outline, std::span<const std::byte> values);

// Convert to and from bytes that travel between ranks. Outlines leave out the values of fields.
[[nodiscard]] std::vector<std::uint8_t> encode(const Outline& outline);
[[nodiscard]] Outline decode_outline(std::span<const std::uint8_t> bytes);
[[nodiscard]] std::vector<std::uint8_t> encode(const Index& index);
[[nodiscard]] Index decode_index(std::span<const std::uint8_t> bytes);

/// Returns the element for which `is` is true. Tries `hint` first.
template <class List, class Is>
[[nodiscard]] auto& find_near(List& list, std::size_t hint, Is&& is) {
  if (hint < list.size() && is(list[hint])) return list[hint];
  std::size_t at = 0;
  while (!is(list[at])) ++at;
  return list[at];
}

/// Calls see(dataset, field) for every field of a rank's outline, in its order. `subjects` must have all subjects of the outline.
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
/// Calls see(dataset) for every array.
template <class Subjects, class See>
void for_arrays(Subjects& subjects, const Outline& outline, See&& see) {
  for_fields(subjects, outline, [&](auto& dataset, const OutlinedField& field) {
    if (field.array) see(dataset);
  });
}

/// Returns the ranges of a file of `file_bytes` that the HDF5 library has written: all except the room of chunks. Ascending.
[[nodiscard]] std::vector<Extent> structure_of(const Index& index, std::int64_t file_bytes);

}  // namespace weir::checkpoint
