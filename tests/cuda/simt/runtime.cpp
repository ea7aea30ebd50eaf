// runtime.cpp: memory and devices of the emulated GPUs.
#include <cstdio>
#include <map>
#include <mutex>

#include "cuda/driver.hpp"
#include "cuda_runtime.h"

namespace {

struct Allocation {
  std::size_t bytes;
  cudaPointerAttributes attributes;
};

constexpr std::size_t gpu_bytes = std::size_t{1} << 30;
std::mutex mutex;
std::map<std::uintptr_t, Allocation> allocations;
thread_local int current = 0;

std::size_t bytes_taken() {
  std::size_t taken = 0;
  for (const auto& [begin, allocation] : allocations) taken += allocation.bytes;
  return taken;
}

cudaError_t allocate(void** memory, std::size_t bytes, cudaMemoryType type) {
  const std::scoped_lock lock(mutex);
  *memory = bytes_taken() + bytes > gpu_bytes ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return simt::remember(cudaErrorMemoryAllocation);
  allocations[reinterpret_cast<std::uintptr_t>(*memory)] = {bytes, {type, current}};
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  simt::finish_everything();
  const std::scoped_lock lock(mutex);
  if (memory != nullptr && allocations.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0)
    return simt::remember(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "an emulated error"; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "an error";
  }
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes, cudaMemoryTypeDevice); }
cudaError_t cudaFree(void* memory) { return release(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  const std::scoped_lock lock(mutex);
  *free = gpu_bytes - bytes_taken();
  *all = gpu_bytes;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return allocate(memory, bytes, cudaMemoryTypeHost); }
cudaError_t cudaFreeHost(void* memory) { return release(memory); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const std::scoped_lock lock(mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto after = allocations.upper_bound(at);
  *attributes = {cudaMemoryTypeUnregistered, -1};
  if (after == allocations.begin()) return cudaSuccess;
  const auto& [begin, allocation] = *std::prev(after);
  if (at < begin + allocation.bytes) *attributes = allocation.attributes;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= simt::devices) return simt::remember(cudaErrorInvalidValue);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated", 9, 0, gpu_bytes};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:0%d:00.0", device);
  return cudaSuccess;
}

namespace weir::cuda {

bool driver_is_loaded() { return true; }

}  // namespace weir::cuda
