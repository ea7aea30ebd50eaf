// Replaces memory_spaces_cuda.cpp in a build without CUDA.
#include "base/error.hpp"
#include "collectives/memory_spaces.hpp"
#include "cuda/runtime.hpp"

namespace weir {
namespace {

[[noreturn]] void refuse() { fail(WEIR_ERR_UNSUPPORTED, "an exchange in CUDA memory cannot run here: {}", cuda::why_unusable()); }

}  // namespace

template <class T, class Space>
class OkTopk;
template <class T, class Space>
class TopkAllgather;
template <class T, class Space>
class TopkDsa;
template <class Space>
class PackedAllgather;
template <class Space>
class PackedReduceScatter;

template <template <class T, class Space> class Algorithm>
std::unique_ptr<SparseAllreduce<float>> SparseInCudaMemory<Algorithm>::float32(const ExchangeSpec&) {
  refuse();
}
template <template <class T, class Space> class Algorithm>
std::unique_ptr<SparseAllreduce<double>> SparseInCudaMemory<Algorithm>::float64(const ExchangeSpec&) {
  refuse();
}
template <template <class Space> class Algorithm>
std::unique_ptr<CompressedExchange> PackedInCudaMemory<Algorithm>::make(const ExchangeSpec&, std::unique_ptr<PackedCodec>) {
  refuse();
}

// The same list as in memory_spaces_cuda.cpp.
template struct SparseInCudaMemory<OkTopk>;
template struct SparseInCudaMemory<TopkAllgather>;
template struct SparseInCudaMemory<TopkDsa>;
template struct PackedInCudaMemory<PackedAllgather>;
template struct PackedInCudaMemory<PackedReduceScatter>;

}  // namespace weir
