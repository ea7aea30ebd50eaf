// entry_lists.hpp: lists of entries of sparse tensors, for the "weir" backend of torch.distributed: how their positions travel, and
// their sum. It serves the Python package only, is not installed, and is no part of the C ABI: it may change with any version.
// _torch_sparse.py has the same declarations.
//
// The position of an entry is its place in an array of the tensor's sparse dimensions. Positions ascend, and travel as distances
// from one to the next, in the width that suits them: 1, 2, 4 or 8 bytes. The largest number of the width stands for a distance
// without an entry.
#pragma once

#include <weir/mpi.h>

extern "C" {
#pragma GCC visibility push(default)

typedef struct weir_entry_list {
  const std::uint8_t* coded;  ///< positions
  std::int64_t bytes, width;  ///< of them
  std::int64_t first;         ///< from which the first distance counts
  std::int64_t count;         ///< entries
} weir_entry_list;

/** Sets positions[i] to that of entry i. `indices` has a row of `count` for each of the `dims` sizes. Refuses indices that are not
 * in the array, or do not ascend. */
weir_status weir_entries_positions(const std::int64_t* indices, const std::int64_t* sizes, std::int32_t dims, std::int64_t count,
                                   std::int64_t* positions);
/** Codes positions, from `first` on. `coded` has room for 12 * count bytes. */
weir_status weir_entries_code(const std::int64_t* positions, std::int64_t count, std::int64_t first, std::uint8_t* coded,
                              std::int64_t* bytes, std::int64_t* width);
/** Sets `indices` to those of all entries, list after list: a row of `row` for each of the `dims` sizes. */
weir_status weir_entries_decode(const weir_entry_list* lists, std::int32_t count, const std::int64_t* sizes, std::int32_t dims,
                                std::int64_t* indices, std::int64_t row);
/** Sums lists. The values are of a type of GroupType, `elements` for each entry, and follow one another as the lists do. `indices`
 * gets each index once, in ascending order, and `sums` the sum of its values in the order of the lists, from zero on. Both have
 * room for all entries; `*merged` is how many there are then. */
weir_status weir_entries_sum(const weir_entry_list* lists, std::int32_t count, const std::int64_t* sizes, std::int32_t dims,
                             std::int32_t type, std::int64_t elements, const void* values, void* sums, std::int64_t* indices,
                             std::int64_t row, std::int64_t* merged);

#pragma GCC visibility pop
}
