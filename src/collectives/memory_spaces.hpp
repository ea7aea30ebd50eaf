// memory_spaces.hpp: factories of algorithms that are templates over the memory space. They use the spec's memory.
//
// Host and CUDA memory are compiled separately: the code for CUDA memory is instantiated in memory_spaces_cuda.cpp, which a build
// without CUDA replaces by memory_spaces_stub.cpp.
#pragma once

#include <memory>
#include <utility>

#include "codec/packed.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/compressed_exchange.hpp"
#include "collectives/host_space.hpp"

namespace weir {

/// The factories of a sparse algorithm for CUDA memory. They throw Error(WEIR_ERR_UNSUPPORTED) if the build has no CUDA.
template <template <class T, class Space> class Algorithm>
struct SparseInCudaMemory {
  static std::unique_ptr<SparseAllreduce<float>> float32(const ExchangeSpec& spec);
  static std::unique_ptr<SparseAllreduce<double>> float64(const ExchangeSpec& spec);
};
/// The same for a packed algorithm, with a codec for CUDA memory whose messages have a fixed size.
template <template <class Space> class Algorithm>
struct PackedInCudaMemory {
  static std::unique_ptr<CompressedExchange> make(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec);
};

template <template <class T, class Space> class Algorithm, class T>
std::unique_ptr<SparseAllreduce<T>> make_in_memory_of(const ExchangeSpec& spec) {
  if (spec.memory == MemorySpace::host) return std::make_unique<Algorithm<T, HostSpace<T>>>(spec);
  if constexpr (sizeof(T) == 4)
    return SparseInCudaMemory<Algorithm>::float32(spec);
  else
    return SparseInCudaMemory<Algorithm>::float64(spec);
}
template <template <class T, class Space> class Algorithm>
inline constexpr Factories<SparseAllreduce> sparse_in_both_memories{make_in_memory_of<Algorithm, float>,
                                                                    make_in_memory_of<Algorithm, double>};

template <template <class Space> class Algorithm>
std::unique_ptr<CompressedExchange> make_packed_in_memory_of(const ExchangeSpec& spec, std::unique_ptr<PackedCodec> codec) {
  if (spec.memory == MemorySpace::host) return std::make_unique<Algorithm<HostSpace<float>>>(spec, std::move(codec));
  return PackedInCudaMemory<Algorithm>::make(spec, std::move(codec));
}

}  // namespace weir
