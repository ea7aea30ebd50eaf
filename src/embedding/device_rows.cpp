// Rows in CUDA memory: all work on one stream, messages in pinned memory that kernels write and read themselves.
#include <cstring>
#include <deque>

#include "base/error.hpp"
#include "communicator/caller_stream.hpp"
#include "cuda/runtime.hpp"
#include "embedding/cuda_row_kernels.hpp"
#include "embedding/row_space.hpp"

namespace weir::embedding {
namespace {

namespace gpu = weir::cuda;

/// Memory for lists, which go through pinned memory to the device, because kernels read them more than once.
struct ListMemory {
  gpu::PinnedArray<std::uint32_t> pinned;
  gpu::DeviceArray<std::uint32_t> device;
  explicit ListMemory(std::int64_t entries) : pinned(entries), device(entries) {}
  [[nodiscard]] std::int64_t bytes() const { return pinned.bytes() + device.bytes(); }
};

class DeviceWork final : public RowWork {
 public:
  DeviceWork(ListMemory& memory, void* stream) : memory_(memory), stream_(stream) { event_.record(stream); }

  task<void> cleared(Channel channel) override {
    co_await channel.done(event_);
    used_ = 0;
  }

  const std::uint32_t* put(std::span<const std::uint32_t> list) override {
    const auto count = static_cast<std::int64_t>(list.size());
    if (count > memory_.pinned.size() - used_)
      fail(WEIR_ERR_INTERNAL, "lists of {} entries exceed the {} planned", used_ + count, memory_.pinned.size());
    std::uint32_t *const from = memory_.pinned.data() + used_, *const to = memory_.device.data() + used_;
    if (count == 0) return to;
    used_ += count;
    std::memcpy(from, list.data(), list.size_bytes());
    gpu::copy(to, from, static_cast<std::int64_t>(list.size_bytes()), stream_);
    event_.record(stream_);
    return to;
  }

  task<void> done(Channel channel) override {
    event_.record(stream_);
    co_await cleared(channel);
  }

 private:
  ListMemory& memory_;
  void* stream_;
  std::int64_t used_ = 0;
  gpu::Event event_;  // after lists have left pinned memory, or after what done() waits for
};

class DeviceRows final : public RowSpace {
 public:
  explicit DeviceRows(std::int64_t largest_batch) : ids_(largest_batch) {}
  ~DeviceRows() override {
    try {
      ids_there_.hold(stream_.get());  // ids are copied on their caller's stream
      gpu::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: nothing runs any more
    }
  }

  float* take_rows(std::int64_t elements) override { return rows_.emplace_back(elements).data(); }
  std::byte* take_message(std::int64_t bytes) override { return messages_.emplace_back(bytes).data(); }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    std::int64_t bytes = ids_.bytes();
    for (const auto& lists : lists_) bytes += lists.bytes();
    for (const auto& array : rows_) bytes += array.bytes();
    for (const auto& message : messages_) bytes += message.bytes();
    return bytes;
  }
  [[nodiscard]] bool is_host() const override { return false; }

  std::unique_ptr<RowWork> make_work(std::int64_t entries) override {
    return std::make_unique<DeviceWork>(lists_.emplace_back(entries), stream_.get());
  }
  std::unique_ptr<detail::CallerMemory> make_caller() override { return std::make_unique<detail::DeviceCaller>(stream_.get()); }

  Completion* bring_ids(CallIds& ids, void* stream) override {
    const gpu::Place place = gpu::place_of(ids.data);
    if (place.kind == gpu::Place::Kind::host || place.kind == gpu::Place::Kind::pinned) return nullptr;
    // Nothing waits for the event that this records: recording it detects a bad stream.
    ids.memory = ids_caller_.enter(ids.data, stream);
    if (ids.memory != InputError::none) return nullptr;
    const gpu::OnDevice on(device_);  // the default stream depends on the current device
    gpu::copy(ids_.data(), ids.data, ids.bytes(), stream);
    ids_there_.record(stream);
    ids.data = ids_.data();
    return &ids_there_;
  }

  void copy(void* to, const void* from, std::int64_t bytes) override {
    gpu::copy(to, from, bytes, stream_.get());
    gpu::synchronize(stream_.get());
  }

  void fill(const InitialValues& values, float* out) override { cuda::fill(queue(), values, out); }

  void fill_zero(float* out, std::int64_t count) override { kernels::cuda::fill_zero(queue(), out, count); }

  void pack(const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count, std::int64_t columns,
            WireValues values, std::byte* out) override {
    if (count * columns == 0) return;
    if (values == WireValues::native)
      kernels::cuda::gather_rows(queue(), x, stride, rows, count, columns, reinterpret_cast<float*>(out), columns);
    else
      cuda::pack_rows(queue(), values, x, stride, rows, count, columns, out);
  }

  void unpack(WireValues values, const std::byte* in, std::int64_t count, float* out) override {
    if (count == 0) return;
    if (values == WireValues::native)
      gpu::copy(out, in, count * static_cast<std::int64_t>(sizeof(float)), stream_.get());
    else
      cuda::unpack_values(queue(), values, in, count, out);
  }

  void gather(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* out,
              std::int64_t out_stride) override {
    if (count * columns == 0) return;
    kernels::cuda::gather_rows(queue(), x, columns, rows, count, columns, out, out_stride);
  }

  void coalesce(const float* x, std::int64_t columns, const GroupLists& groups, float* out) override {
    kernels::cuda::coalesce_rows(queue(), x, columns, groups.order, groups.first, groups.count, out);
  }

  void step(const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
            const GroupLists& groups) override {
    if (groups.count == 0) return;
    cuda::step_rows(queue(), optimizer, state, columns, x, groups);
  }

  void scatter(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) override {
    if (count * columns == 0) return;
    cuda::scatter_rows(queue(), x, rows, count, columns, to);
  }

 private:
  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_.get(), nullptr, device_}; }

  int device_ = gpu::current_device();
  gpu::Stream stream_;
  std::deque<gpu::DeviceArray<float>> rows_;
  std::deque<gpu::PinnedArray<std::byte>> messages_;
  std::deque<ListMemory> lists_;
  gpu::PinnedArray<std::int64_t> ids_;
  detail::CallerStream ids_caller_;
  gpu::Event ids_there_;
};

}  // namespace

std::unique_ptr<RowSpace> make_device_rows(std::int64_t largest_batch) {
  if (!gpu::why_unusable().empty())
    fail(WEIR_ERR_UNSUPPORTED, "a table in CUDA memory cannot be made here: {}", gpu::why_unusable());
  return std::make_unique<DeviceRows>(largest_batch);
}

}  // namespace weir::embedding
