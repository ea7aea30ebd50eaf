// Grouping of equal ids: CUB's radix sort, which is stable, and the heads of the groups in one pass.
#include <cub/device/device_radix_sort.cuh>

#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

/// What group_rows has in scratch, after the tile states: numbers, ids sorted, and CUB's own.
struct Parts {
  std::int64_t states, array, cub;
  [[nodiscard]] std::int64_t total() const { return states + 2 * array + cub; }
};

constexpr std::int64_t aligned(std::int64_t bytes) { return divide_up(bytes, 256) * 256; }

Parts parts_of(std::int64_t count) {
  std::size_t cub_bytes = 0;
  const std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
  check(cub::DeviceRadixSort::SortPairs(nullptr, cub_bytes, in, out, in, out, count), "asking for the memory of a sort");
  return {aligned(tiles_of(count, tile_size<std::uint32_t>) * 8), aligned(count * 4),
          aligned(static_cast<std::int64_t>(cub_bytes))};
}

__global__ void __launch_bounds__(threads_per_block) number_kernel(std::uint32_t* numbers, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (i < count) numbers[i] = static_cast<std::uint32_t>(i);
}

struct Heads {
  const std::uint32_t* sorted;
  std::int64_t count;
  std::uint32_t *ids, *first;
  TileStates states;
  std::int64_t* groups;
};

__global__ void __launch_bounds__(threads_per_block) heads_kernel(Heads h) {
  constexpr int size = width<std::uint32_t>;
  Vector<std::uint32_t, size> ids[rows];
  Hits heads;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const std::int64_t begin = position<std::uint32_t>(row);
    const int elements = present<std::uint32_t, false>(row, h.count);
    ids[row] = load<false, Use::again, std::uint32_t, size>(h.sorted, begin, elements);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      heads.add(row, e, e < elements && (begin + e == 0 || h.sorted[begin + e - 1] != ids[row].at[e]));
    }
  }
  const HitNumbers numbers(heads);
  const std::uint64_t before = h.states.before_in_block(numbers.total());
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    const std::uint64_t groups = before + numbers.total();
    h.first[groups] = static_cast<std::uint32_t>(h.count);
    *h.groups = static_cast<std::int64_t>(groups);
  }
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    std::uint64_t number = before + numbers.before(row);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (!heads.at(row, e)) continue;
      h.ids[number] = ids[row].at[e];
      h.first[number++] = static_cast<std::uint32_t>(position<std::uint32_t>(row) + e);
    }
  }
}

}  // namespace

std::int64_t group_scratch(std::int64_t count) { return parts_of(count).total(); }

void group_rows(Queue queue, const std::uint32_t* ids, std::int64_t count, std::uint32_t* distinct, std::uint32_t* order,
                std::uint32_t* first, std::int64_t* groups) {
  const Parts parts = parts_of(count);
  auto* const numbers = reinterpret_cast<std::uint32_t*>(queue.scratch + parts.states);
  auto* const sorted = reinterpret_cast<std::uint32_t*>(queue.scratch + parts.states + parts.array);
  std::byte* const memory = queue.scratch + parts.states + 2 * parts.array;
  launch(queue, number_kernel, tiles_of(count, threads_per_block), numbers, count);
  auto bytes = static_cast<std::size_t>(parts.cub);
  on_device(queue, "sorting ids", [&] {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, ids, sorted, static_cast<const std::uint32_t*>(numbers), order, count, 0,
                                           32, stream_of(queue));
  });
  clear(queue, queue.scratch, parts.states);
  launch(queue, heads_kernel, tiles_of(count, tile_size<std::uint32_t>),
         Heads{sorted, count, distinct, first, {reinterpret_cast<unsigned long long*>(queue.scratch)}, groups});
}

}  // namespace weir::kernels::cuda
