// Streams and events of the emulated GPUs.
//
// Work is put off: it is done when somebody waits for it, or at moments that nobody can foresee. So a result that is read, or
// memory that is used again, before the work is done shows up as a wrong result.
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "cuda_runtime.h"

namespace {

struct Stream {
  std::deque<simt::Work> work;
  std::uint64_t done = 0, asked = 0;  // pieces of work
};

std::recursive_mutex mutex;
std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
std::minstd_rand random_number(7);

/// False if work before `position` cannot be done yet.
bool proceed(Stream& stream, std::uint64_t position) {
  while (stream.done < position) {
    if (!stream.work.front()()) return false;
    stream.work.pop_front();
    ++stream.done;
  }
  return true;
}

using Time = std::chrono::steady_clock::time_point;

struct Event {
  std::shared_ptr<Stream> stream;
  std::uint64_t position = 0;
  bool looked = false;
  std::shared_ptr<Time> reached = std::make_shared<Time>();
};
Event& state_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

std::shared_ptr<Stream> find(cudaStream_t stream) {
  const auto found = streams.find(stream);
  return found == streams.end() ? nullptr : found->second;
}

}  // namespace

namespace simt {

cudaError_t enqueue(cudaStream_t handle, Work work) {
  const std::scoped_lock lock(mutex);
  if (handle == nullptr) {  // the default stream does not wait for ours, nor they for it
    while (!work()) std::this_thread::yield();
    return cudaSuccess;
  }
  const auto stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->work.push_back(std::move(work));
  ++stream->asked;
  if (random_number() % 8 == 0) (void)proceed(*stream, stream->asked);
  return cudaSuccess;
}

void finish_everything() {
  const std::scoped_lock lock(mutex);
  for (const auto& [handle, stream] : streams) (void)proceed(*stream, stream->asked);
}

}  // namespace simt

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::scoped_lock lock(mutex);
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  streams[*stream] = std::make_shared<Stream>();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  const auto found = streams.find(stream);
  if (found == streams.end()) return cudaErrorInvalidResourceHandle;
  (void)proceed(*found->second, found->second->asked);
  streams.erase(found);
  std::free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const std::scoped_lock lock(mutex);
  *flags = cudaStreamNonBlocking;
  return stream == nullptr || find(stream) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  if (handle == nullptr) return cudaSuccess;
  while (true) {
    {
      const std::scoped_lock lock(mutex);
      const auto stream = find(handle);
      if (stream == nullptr) return cudaErrorInvalidResourceHandle;
      if (proceed(*stream, stream->asked)) return cudaSuccess;
    }
    std::this_thread::yield();
  }
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::scoped_lock lock(mutex);
  const Event awaited = state_of(event);
  if (awaited.stream == nullptr) return cudaSuccess;
  return simt::enqueue(stream, [awaited] { return proceed(*awaited.stream, awaited.position); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  Event& event = state_of(handle);
  const cudaError_t error = simt::enqueue(stream, [reached = event.reached] {
    *reached = std::chrono::steady_clock::now();
    return true;
  });
  if (error != cudaSuccess) return error;
  event.stream = find(stream);
  event.position = event.stream != nullptr ? event.stream->asked : 0;
  event.looked = false;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  while (cudaEventQuery(handle) != cudaSuccess) std::this_thread::yield();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(*state_of(end).reached - *state_of(begin).reached).count();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const std::scoped_lock lock(mutex);
  Event& event = state_of(handle);
  event.looked = !event.looked;
  if (event.looked) return cudaErrorNotReady;
  return event.stream == nullptr || proceed(*event.stream, event.position) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return simt::enqueue(stream, [=] {
    std::memset(memory, value, bytes);
    return true;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const auto unknown = [](const void* address) {
    cudaPointerAttributes attributes{};
    cudaPointerGetAttributes(&attributes, address);
    return attributes.type == cudaMemoryTypeUnregistered;
  };
  if (unknown(from)) {  // has been read when the call returns
    const auto* const bytes_of = static_cast<const std::byte*>(from);
    return simt::enqueue(stream, [to, copy = std::vector<std::byte>(bytes_of, bytes_of + bytes)] {
      std::memcpy(to, copy.data(), copy.size());
      return true;
    });
  }
  const cudaError_t error = simt::enqueue(stream, [=] {
    std::memcpy(to, from, bytes);
    return true;
  });
  return error == cudaSuccess && unknown(to) ? cudaStreamSynchronize(stream) : error;
}
