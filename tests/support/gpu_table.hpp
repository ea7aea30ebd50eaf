// gpu_table.hpp: tables in CUDA memory with the interface of those in host memory.
#pragma once

#include "embedding/partition.hpp"
#include "support/device_arrays.hpp"
#include "support/table_training.hpp"

namespace weir::test {

enum class IdsIn { host, gpu };

inline EmbeddingConfig in_cuda_memory(EmbeddingConfig config) {
  config.memory = MemorySpace::cuda;
  return config;
}

/// Calls f with every exchange that a table in CUDA memory supports.
template <class F>
void for_each_gpu_exchange(F f) {
  for (const embedding::TableExchange& exchange : embedding::exchange_registry()) {
    if (exchange.path != embedding::GradientPath::allreduce) f(exchange.name);
  }
}

class GpuTable {
 public:
  GpuTable(const Communicator& comm, const EmbeddingConfig& config) : table(comm, in_cuda_memory(config)) {}

  template <class Id>
  std::vector<float> lookup(const std::vector<Id>& ids, IdsIn where) {
    const Upload<float> vectors(std::vector<float>(ids.size() * static_cast<std::size_t>(table.config().width), -77), stream.get());
    const Upload<Id> on_gpu(ids, stream.get());
    table
        .lookup(where == IdsIn::gpu ? std::span<const Id>(on_gpu.there()) : std::span<const Id>(ids), vectors.there(), stream.get())
        .wait();
    return vectors.fetch();
  }
  template <class Id>
  Operation prefetch(const std::vector<Id>& ids, IdsIn where) {
    const Upload<Id> on_gpu(ids, stream.get());
    return table.prefetch(where == IdsIn::gpu ? std::span<const Id>(on_gpu.there()) : std::span<const Id>(ids), stream.get());
  }
  /// Later work on the stream overwrites the gradients.
  Operation update(const std::vector<float>& gradients) {
    const Upload<float> there(gradients, stream.get());
    Operation operation = table.update(there.there(), stream.get());
    const std::vector<float> other(gradients.size(), 77);
    cuda::copy(there.data(), other.data(), static_cast<std::int64_t>(other.size() * sizeof(float)), stream.get());
    cuda::synchronize(stream.get());
    return operation;
  }

  cuda::Stream stream;
  EmbeddingTable table;
};

}  // namespace weir::test
