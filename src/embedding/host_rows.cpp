// Rows in host memory: work is done when it is given.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/buffer.hpp"
#include "codec/parts.hpp"
#include "embedding/row_groups.hpp"
#include "embedding/row_space.hpp"
#include "kernels/kernels.hpp"

namespace weir::embedding {
namespace {

class HostWork final : public RowWork {
 public:
  task<void> cleared(Channel) override { co_return; }
  const std::uint32_t* put(std::span<const std::uint32_t> list) override { return list.data(); }
  task<void> done(Channel) override { co_return; }
};

class HostCaller final : public RowCaller {
 public:
  InputError enter(const void* array, void* stream) override { return memory_.error_of(array, stream); }
  void begin() override {}
  void end() noexcept override {}

 private:
  HostPointers memory_;
};

class HostRows final : public RowSpace {
 public:
  explicit HostRows(std::int64_t width) : sums_(std::max(sum_elements, width)) {}

  float* take_rows(std::int64_t elements) override { return rows_.emplace_back(elements).data(); }
  std::byte* take_message(std::int64_t bytes) override { return messages_.emplace_back(bytes).data(); }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    std::int64_t bytes = static_cast<std::int64_t>(sizeof *this) + sums_.bytes() + bytes_of(rows_) + bytes_of(messages_);
    for (const auto& array : rows_) bytes += array.bytes();
    for (const auto& message : messages_) bytes += message.bytes();
    return bytes;
  }
  [[nodiscard]] bool is_host() const override { return true; }

  std::unique_ptr<RowWork> make_work(std::int64_t) override { return std::make_unique<HostWork>(); }
  std::unique_ptr<RowCaller> make_caller() override { return std::make_unique<HostCaller>(); }
  HostIds bring_ids(const void* ids, std::int64_t, void* stream) override { return {ids, nullptr, ids_.error_of(ids, stream)}; }

  void copy(void* to, const void* from, std::int64_t bytes) override { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }

  void fill(const InitialValues& values, float* out) override {
    for (std::int64_t row = 0; row < values.part().rows; ++row) {
      const std::uint64_t begin = values.begin_of(row);
      for (std::int64_t column = 0; column < values.part().columns; ++column) *out++ = values.at(begin, column);
    }
  }

  void fill_zero(float* out, std::int64_t count) override { kernels::host::fill_zero(out, count); }

  void pack(const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count, std::int64_t columns,
            WireValues values, std::byte* out) override {
    if (values == WireValues::native)
      return kernels::host::gather_rows(x, stride, rows, count, columns, reinterpret_cast<float*>(out), columns);
    const std::int64_t row_bytes = columns * wire::bytes_of_value<float>(values);
    for (std::int64_t i = 0; i < count; ++i) wire::pack_values(values, x + rows[i] * stride, columns, out + i * row_bytes);
  }

  void unpack(WireValues values, const std::byte* in, std::int64_t count, float* out) override {
    wire::unpack_values(values, in, count, out);
  }

  void gather(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* out,
              std::int64_t out_stride) override {
    kernels::host::gather_rows(x, columns, rows, count, columns, out, out_stride);
  }

  void coalesce(const float* x, std::int64_t columns, const GroupLists& groups, float* out) override {
    kernels::host::coalesce_rows(x, columns, groups.order, groups.first, groups.count, out);
  }

  void step(const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
            const GroupLists& groups) override {
    const std::int64_t rows = std::max<std::int64_t>(1, sum_elements / columns);
    for (std::int64_t begin = 0; begin < groups.count; begin += rows) {
      const std::int64_t count = std::min(rows, groups.count - begin);
      kernels::host::coalesce_rows(x, columns, groups.order, groups.first + begin, count, sums_.data());
      optimizer.apply(state, groups.keys + begin, count, columns, sums_.data());
    }
  }

  void scatter(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) override {
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(x + i * columns, columns, to + rows[i] * columns);
  }

 private:
  static constexpr std::int64_t sum_elements = 1 << 13;  // sums stay in the innermost cache until the optimizer reads them

  std::vector<Buffer<float>> rows_;
  std::vector<Buffer<std::byte>> messages_;
  HostPointers ids_;
  Buffer<float> sums_;
};

}  // namespace

std::unique_ptr<RowSpace> make_host_rows(std::int64_t width) { return std::make_unique<HostRows>(width); }

}  // namespace weir::embedding
