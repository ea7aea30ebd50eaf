// Instantiates the algorithms that exchange CUDA memory. The entries of other algorithms are staged.
#include "collectives/allreduce_oktopk.hpp"
#include "collectives/allreduce_packed_allgather.hpp"
#include "collectives/allreduce_packed_reduce_scatter.hpp"
#include "collectives/allreduce_topk_allgather.hpp"
#include "collectives/allreduce_topk_dsa.hpp"
#include "collectives/device_space.hpp"
#include "collectives/memory_spaces.hpp"

namespace weir {

template <template <class T, class Space> class Algorithm>
std::unique_ptr<SparseAllreduce<float>> SparseInCudaMemory<Algorithm>::float32(const ExchangeSpec& spec) {
  return std::make_unique<Algorithm<float, DeviceSpace<float>>>(spec);
}
template <template <class T, class Space> class Algorithm>
std::unique_ptr<SparseAllreduce<double>> SparseInCudaMemory<Algorithm>::float64(const ExchangeSpec& spec) {
  return std::make_unique<Algorithm<double, DeviceSpace<double>>>(spec);
}
template <template <class Space> class Algorithm>
std::unique_ptr<CompressedExchange> PackedInCudaMemory<Algorithm>::make(const ExchangeSpec& spec,
                                                                        std::unique_ptr<PackedCodec> codec) {
  return std::make_unique<Algorithm<DeviceSpace<float>>>(spec, std::move(codec));
}

// The same list as in memory_spaces_stub.cpp.
template struct SparseInCudaMemory<OkTopk>;
template struct SparseInCudaMemory<TopkAllgather>;
template struct SparseInCudaMemory<TopkDsa>;
template struct PackedInCudaMemory<PackedAllgather>;
template struct PackedInCudaMemory<PackedReduceScatter>;

}  // namespace weir
