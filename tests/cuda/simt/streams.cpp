// streams.cpp: streams and events of the emulated GPUs.
//
// Work is delayed until a caller waits for it, or until a random moment. If a result is read, or memory reused, before the work is
// done, results are therefore wrong.
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "base/give_way.hpp"
#include "cuda_runtime.h"

namespace {

class Stream {
 public:
  ~Stream() {
    while (first_ != nullptr) simt::Work::destroy(take());
  }
  void put(simt::Work* work) {
    (first_ == nullptr ? first_ : last_->next) = work;
    last_ = work;
    ++put_;
  }
  /// Works until `until` pieces are done. Returns false if that is not possible yet.
  bool proceed(std::uint64_t until) {
    while (done_ < until) {
      if (!first_->run(first_)) return false;
      simt::Work::destroy(take());
      ++done_;
    }
    return true;
  }
  bool proceed() { return proceed(put_); }
  [[nodiscard]] std::uint64_t put_so_far() const { return put_; }

 private:
  simt::Work* take() {
    simt::Work* const work = first_;
    first_ = work->next;
    return work;
  }
  simt::Work *first_ = nullptr, *last_ = nullptr;
  std::uint64_t put_ = 0, done_ = 0;
};

using Time = std::chrono::steady_clock::time_point;

struct Event {
  std::shared_ptr<Stream> stream;  // null for the default stream, which is always done
  std::uint64_t after = 0;
  bool asked = false;
  std::shared_ptr<Time> reached = std::make_shared<Time>();
};
Event& of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

std::recursive_mutex mutex;  // guards all below; recursive, because work that waits for another stream runs that stream
std::map<cudaStream_t, std::shared_ptr<Stream>> streams;
std::minstd_rand random_number(7);

std::shared_ptr<Stream> find(cudaStream_t stream) {
  const auto found = streams.find(stream);
  return found == streams.end() ? nullptr : found->second;
}

/// Returns false at the first query, as if the work took a while.
bool has_happened(Event& event) {
  event.asked = !event.asked;
  return !event.asked && (event.stream == nullptr || event.stream->proceed(event.after));
}

bool is_pageable(const void* address) {
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, address);
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace

namespace simt {

cudaError_t put(cudaStream_t handle, Work* work) {
  const std::scoped_lock lock(mutex);
  const std::shared_ptr<Stream> stream = find(handle);
  if (errors.put_to_fail > 0 && --errors.put_to_fail == 0) {
    Work::destroy(work);
    return remember(cudaErrorUnknown);
  }
  if (handle == nullptr) {  // the default stream does not wait for ours, nor they for it
    while (!work->run(work)) std::this_thread::yield();
    Work::destroy(work);
  } else if (stream == nullptr) {
    Work::destroy(work);
    return remember(cudaErrorInvalidResourceHandle);
  } else {
    stream->put(work);
    if (random_number() % 8 == 0) stream->proceed();
  }
  return cudaSuccess;
}

void finish_everything() {
  const std::scoped_lock lock(mutex);
  for (const auto& [handle, stream] : streams) stream->proceed();
}

}  // namespace simt

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::scoped_lock lock(mutex);
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  streams[*stream] = std::make_shared<Stream>();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::scoped_lock lock(mutex);
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return simt::remember(cudaErrorInvalidResourceHandle);
  stream->proceed();
  streams.erase(handle);
  std::free(handle);
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const std::scoped_lock lock(mutex);
  *flags = cudaStreamNonBlocking;
  return simt::remember(stream == nullptr || find(stream) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  while (handle != nullptr) {
    {
      const std::scoped_lock lock(mutex);
      const std::shared_ptr<Stream> stream = find(handle);
      if (stream == nullptr) return simt::remember(cudaErrorInvalidResourceHandle);
      if (stream->proceed()) break;
    }
    weir::give_way();
  }
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::scoped_lock lock(mutex);
  if (of(event).stream == nullptr) return cudaSuccess;
  return simt::put(stream, [awaited = of(event).stream, after = of(event).after] { return awaited->proceed(after); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  Event& event = of(handle);
  const cudaError_t error = simt::put(stream, [reached = event.reached] { *reached = std::chrono::steady_clock::now(); });
  if (error != cudaSuccess) return error;
  event.stream = find(stream);
  event.after = event.stream != nullptr ? event.stream->put_so_far() : 0;
  event.asked = false;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const std::scoped_lock lock(mutex);
  return simt::remember(has_happened(of(handle)) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  for (bool done = false; !done; weir::give_way()) {
    const std::scoped_lock lock(mutex);
    done = has_happened(of(handle));
  }
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(*of(end).reached - *of(begin).reached).count();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return simt::put(stream, [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (is_pageable(to)) {
    const cudaError_t error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess) std::memcpy(to, from, bytes);
    return error;
  }
  if (!is_pageable(from)) return simt::put(stream, [=] { std::memcpy(to, from, bytes); });
  std::unique_ptr<void, void (*)(void*)> now(std::malloc(bytes), std::free);
  std::memcpy(now.get(), from, bytes);
  return simt::put(stream, [to, bytes, now = std::move(now)] { std::memcpy(to, now.get(), bytes); });
}
