// cuda_runtime.h: enough of CUDA to run kernels on the processor, so that tests need no GPU. It replaces the toolkit's header when
// .cu files are compiled as C++.
//
// Blocks run one after another, in order. The threads of a block are fibers that stop only at barriers and warp functions. A warp
// runs as far as it can before the next one, in an order that changes, so that code that is right only for one order gives wrong
// results. If some threads of a block never reach a barrier, the program ends with a message. Warp functions need all 32 lanes.
// Memory is on the heap. Work on streams is delayed; see streams.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after another
#define __restrict__

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};

namespace simt {

/// The place of the running thread.
struct Place {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern Place place;

/// Runs body(data) once per thread.
void run(dim3 blocks, dim3 threads, void (*body)(void*), void* data);
void synchronize_block();
/// Takes a value from each of the 32 lanes. Returns the values of all, which are valid until the warp's next exchange but one.
const std::uint64_t* exchange(std::uint64_t value);

template <class T>
const std::uint64_t* exchange_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return exchange(bits);
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Plain operations are atomic, because the emulated threads run in turns.
template <class T, class V>
T exchange_memory(T* address, V value) {
  const T old = *address;
  *address = static_cast<T>(value);
  return old;
}

}  // namespace simt

inline const uint3 &threadIdx = simt::place.thread, &blockIdx = simt::place.block;
inline const dim3 &blockDim = simt::place.threads, &gridDim = simt::place.blocks;
inline constexpr int warpSize = 32;

inline void __syncthreads() { simt::synchronize_block(); }
inline int __syncthreads_or(int predicate) {
  static int any;
  any = 0;
  simt::synchronize_block();
  any |= predicate != 0;
  simt::synchronize_block();
  const int result = any;
  simt::synchronize_block();
  return result;
}
inline void __syncwarp(unsigned = ~0u) { simt::exchange(0); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) {}
/// Loads and stores with cache hints. They copy bytes, because the objects there often have another type.
template <class T>
T __ldcs(const T* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
template <class T>
void __stcs(T* address, T value) {
  std::memcpy(address, &value, sizeof value);
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  const std::uint64_t* all = simt::exchange(predicate);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(all[lane] != 0) << lane;
  return bits;
}
inline bool __any_sync(unsigned mask, bool predicate) { return __ballot_sync(mask, predicate) != 0; }
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return simt::from_bits<T>(simt::exchange_bits(value)[lane & 31]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return simt::from_bits<T>(simt::exchange_bits(value)[lane < distance ? lane : lane - distance]);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  return simt::from_bits<T>(simt::exchange_bits(value)[(threadIdx.x % 32) ^ static_cast<unsigned>(distance)]);
}

using std::max;
using std::min;
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

template <class T>
T atomicAdd(T* address, T value) {
  return simt::exchange_memory(address, *address + value);
}
template <class T>
T atomicMax(T* address, T value) {
  return simt::exchange_memory(address, value > *address ? value : *address);
}
template <class T>
T atomicOr(T* address, T value) {
  return simt::exchange_memory(address, *address | value);
}

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorUnknown = 999
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
inline constexpr unsigned cudaHostAllocDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor;
  std::size_t totalGlobalMem;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace simt {

inline constexpr int devices = 8;

/// The errors of this thread.
struct Errors {
  cudaError_t last = cudaSuccess;
  int put_to_fail = 0;  ///< if n > 0, the n-th put onto a stream from now on fails with cudaErrorUnknown
};
inline thread_local Errors errors;

/// Returns `error`, and keeps it as the thread's last error unless it is cudaSuccess.
inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) errors.last = error;
  return error;
}

/// A piece of work on a stream. It uses malloc, because tests count the library's own allocations.
struct Work {
  Work* next = nullptr;
  /// Returns false if the work cannot be done yet.
  bool (*run)(Work*) = nullptr;
  void (*end)(Work*) = nullptr;
  static void destroy(Work* work) {
    work->end(work);
    std::free(work);
  }
};
/// Puts `work` onto the stream, and takes ownership of it.
cudaError_t put(cudaStream_t stream, Work* work);
/// Does all work that can be done now, on all streams. Freeing memory waits for it.
void finish_everything();

/// Calls `body` later: once, or, if it returns a bool, until it returns true.
template <class Body>
cudaError_t put(cudaStream_t stream, Body body) {
  struct Call : Work {
    explicit Call(Body called) : body(std::move(called)) {}
    Body body;
  };
  Call* const call = new (std::malloc(sizeof(Call))) Call(std::move(body));
  call->run = [](Work* work) {
    if constexpr (std::is_void_v<decltype(static_cast<Call*>(work)->body())>) {
      static_cast<Call*>(work)->body();
      return true;
    } else {
      return static_cast<Call*>(work)->body();
    }
  };
  call->end = [](Work* work) { static_cast<Call*>(work)->~Call(); };
  return put(stream, static_cast<Work*>(call));
}

}  // namespace simt

// In runtime.cpp and streams.cpp: memory of several devices that knows its kind, and streams and events that can be distinguished
// from destroyed ones.
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
/// A GPU of two multiprocessors, so that blocks loop over arrays in strides even in small tests.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
/// Measures the processor's time.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
/// Is not ready at the first query, as if the work took a while.
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
inline cudaError_t cudaGetLastError() { return std::exchange(simt::errors.last, cudaSuccess); }
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = simt::devices;
  return cudaSuccess;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return simt::put(config->stream, [config = *config, kernel, copies = std::tuple<Parameters...>(arguments...)] {
    auto body = [&] { std::apply(kernel, copies); };
    simt::run(
        config.gridDim, config.blockDim, [](void* data) { (*static_cast<decltype(body)*>(data))(); }, &body);
  });
}
