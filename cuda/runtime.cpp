#include "cuda/runtime.hpp"

#include <cuda_runtime.h>

#include "base/error.hpp"
#include "cuda/check.hpp"
#include "cuda/driver.hpp"

namespace weir::cuda {
namespace {

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(void* event) { return static_cast<cudaEvent_t>(event); }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string find_reason() {
  int driver = 0, runtime = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  cudaGetLastError();
  return reason_unusable(driver, runtime, error, devices);
}

}  // namespace

std::string reason_unusable(int driver, int runtime, cudaError_t error, int devices) {
  if (driver == 0) return "no CUDA driver is installed";
  if (error == cudaErrorInsufficientDriver)
    return fmt::format("the driver is for CUDA {} and Weir was built with {}: update the driver", version_text(driver),
                       version_text(runtime));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0))
    return "no GPU is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi";
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

const std::string& why_unusable() {
  static const std::string reason = find_reason();
  return reason;
}

Place place_of(const void* address) {
  if (!driver_is_loaded()) return {};
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    cudaGetLastError();  // clears the error: an unknown address is not one
    return {};
  }
  switch (attributes.type) {
    case cudaMemoryTypeDevice:
      return {Place::Kind::device, attributes.device};
    case cudaMemoryTypeManaged:
      return {Place::Kind::managed, attributes.device};
    case cudaMemoryTypeHost:
      return {Place::Kind::pinned, -1};
    default:
      return {};
  }
}

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  return count;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current GPU");
  return device;
}

DeviceInfo describe(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for the properties of a GPU");
  char bus_id[32] = {};
  check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device), "asking for the bus address of a GPU");
  return {properties.name, properties.major, properties.minor, static_cast<std::int64_t>(properties.totalGlobalMem), bus_id};
}

OnDevice::OnDevice(int device) : before_(current_device()) { check(cudaSetDevice(device), "choosing a GPU"); }
OnDevice::~OnDevice() { cudaSetDevice(before_); }

Memory::Memory(MemoryKind kind, std::int64_t bytes) : kind_(kind), bytes_(bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<std::size_t>(bytes);
  const cudaError_t error =
      kind == MemoryKind::device ? cudaMalloc(&data_, size) : cudaHostAlloc(&data_, size, cudaHostAllocDefault);
  if (error == cudaSuccess) return;
  cudaGetLastError();
  if (error != cudaErrorMemoryAllocation) throw_cuda(error, "taking memory");
  fail(WEIR_ERR_MEMORY, "out of memory: {} bytes of {} memory cannot be allocated", bytes,
       kind == MemoryKind::device ? "GPU" : "pinned host");
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  if (kind_ == MemoryKind::device)
    cudaFree(data_);
  else
    cudaFreeHost(data_);
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = stream;
}
Stream::~Stream() { cudaStreamDestroy(native(stream_)); }

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  event_ = event;
}
Event::~Event() { cudaEventDestroy(native_event(event_)); }

void Event::record(void* stream) { check(cudaEventRecord(native_event(event_), native(stream)), "recording an event on a stream"); }

bool Event::reached() {
  const cudaError_t error = cudaEventQuery(native_event(event_));
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // clears the error: not being done is not one
    return false;
  }
  check(error, "work on the GPU");
  return true;
}

void Event::hold(void* stream) const {
  check(cudaStreamWaitEvent(native(stream), native_event(event_), 0), "making a stream wait");
}

bool is_stream(void* stream) {
  unsigned flags = 0;
  if (cudaStreamGetFlags(native(stream), &flags) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

void synchronize(void* stream) { check(cudaStreamSynchronize(native(stream)), "waiting for a stream"); }

void copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, native(stream)), "copying");
}

}  // namespace weir::cuda
