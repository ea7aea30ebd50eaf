#include "communicator/caller_stream.hpp"

#include "base/error.hpp"

namespace weir::detail {

InputError CallerStream::enter(const void* memory, void* stream) {
  const cuda::Place place = cuda::place_of(memory);
  if (place.kind == cuda::Place::Kind::host || place.kind == cuda::Place::Kind::pinned) return InputError::host_memory;
  if (place.device != device_) return InputError::other_device;
  if (!cuda::is_stream(stream)) return InputError::bad_stream;
  try {  // a stream of another GPU cannot record an event of this one
    const cuda::OnDevice on(device_);
    entered_.record(stream);
  } catch (const Error&) {
    return InputError::bad_stream;
  }
  stream_ = stream;
  return InputError::none;
}

void CallerStream::leave(void* own) noexcept {
  try {
    const cuda::OnDevice on(device_);
    left_.record(own);
    left_.hold(stream_);
  } catch (const Error&) {  // the GPU has failed
  }
}

}  // namespace weir::detail
