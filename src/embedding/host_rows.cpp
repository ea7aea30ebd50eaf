// Rows in host memory: work is done in the call, by all threads of the rank. Each row is handled by one thread.
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

class HostRows final : public RowSpace {
 public:
  HostRows(std::int64_t width, Threads threads)
      : threads_(std::move(threads)), sums_of_thread_(std::max(sum_elements, width)), sums_(threads_.count() * sums_of_thread_) {}

  float* take_rows(std::int64_t elements) override { return rows_.emplace_back(elements).data(); }
  std::byte* take_message(std::int64_t bytes) override { return messages_.emplace_back(bytes).data(); }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    std::int64_t bytes = static_cast<std::int64_t>(sizeof *this) + sums_.bytes() + bytes_of(rows_) + bytes_of(messages_);
    for (const auto& array : rows_) bytes += array.bytes();
    for (const auto& message : messages_) bytes += message.bytes();
    return bytes;
  }
  [[nodiscard]] bool is_host() const override { return true; }

  std::unique_ptr<RowWork> make_work(std::int64_t) override { return std::make_unique<RowWork>(); }
  std::unique_ptr<detail::CallerMemory> make_caller() override { return std::make_unique<detail::HostCaller>(); }
  Completion* bring_ids(CallIds& ids, void* stream) override {
    ids.memory = ids_.error_of(ids.data, stream);
    return nullptr;
  }

  void copy(void* to, const void* from, std::int64_t bytes) override { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }

  void fill(const InitialValues& values, float* out) override {
    const std::int64_t columns = values.part().columns;
    share_rows(values.part().rows, columns, [&](PartRange mine) {
      float* next = out + mine.begin * columns;
      for (std::int64_t row = mine.begin; row < mine.end; ++row) {
        const std::uint64_t begin = values.begin_of(row);
        for (std::int64_t column = 0; column < columns; ++column) *next++ = values.at(begin, column);
      }
    });
  }

  void fill_zero(float* out, std::int64_t count) override {
    share_rows(count, 1, [=](PartRange mine) { kernels::host::fill_zero(out + mine.begin, mine.count()); });
  }

  void pack(const float* x, std::int64_t stride, const std::uint32_t* rows, std::int64_t count, std::int64_t columns,
            WireValues values, std::byte* out) override {
    const std::int64_t row_bytes = columns * wire::bytes_of_value<float>(values);
    share_rows(count, columns, [=](PartRange mine) {
      std::byte* const message = out + mine.begin * row_bytes;
      if (values == WireValues::native)
        return kernels::host::gather_rows(x, stride, rows + mine.begin, mine.count(), columns, reinterpret_cast<float*>(message),
                                          columns);
      for (std::int64_t i = 0; i < mine.count(); ++i)
        wire::pack_values(values, x + rows[mine.begin + i] * stride, columns, message + i * row_bytes);
    });
  }

  void unpack(WireValues values, const std::byte* in, std::int64_t count, float* out) override {
    const std::int64_t value_bytes = wire::bytes_of_value<float>(values);
    share_rows(count, 1,
               [=](PartRange mine) { wire::unpack_values(values, in + mine.begin * value_bytes, mine.count(), out + mine.begin); });
  }

  void gather(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* out,
              std::int64_t out_stride) override {
    share_rows(count, columns, [=](PartRange mine) {
      kernels::host::gather_rows(x, columns, rows + mine.begin, mine.count(), columns, out + mine.begin * out_stride, out_stride);
    });
  }

  void coalesce(const float* x, std::int64_t columns, const GroupLists& groups, float* out) override {
    share_groups(groups, columns, [&](PartRange mine, int) {
      kernels::host::coalesce_rows(x, columns, groups.order, groups.first + mine.begin, mine.count(), out + mine.begin * columns);
    });
  }

  void step(const RowOptimizer& optimizer, const RowState& state, std::int64_t columns, const float* x,
            const GroupLists& groups) override {
    const std::int64_t rows = std::max<std::int64_t>(1, sum_elements / columns);
    share_groups(groups, columns, [&](PartRange mine, int part) {
      float* const sums = sums_.data() + part * sums_of_thread_;
      for (std::int64_t begin = mine.begin; begin < mine.end; begin += rows) {
        const std::int64_t count = std::min(rows, mine.end - begin);
        kernels::host::coalesce_rows(x, columns, groups.order, groups.first + begin, count, sums);
        optimizer.apply(state, groups.keys + begin, count, columns, sums);
      }
    });
  }

  void scatter(const float* x, const std::uint32_t* rows, std::int64_t count, std::int64_t columns, float* to) override {
    share_rows(count, columns, [=](PartRange mine) {
      for (std::int64_t i = mine.begin; i < mine.end; ++i) std::copy_n(x + i * columns, columns, to + rows[i] * columns);
    });
  }

 private:
  // The number of elements that a thread needs to pay for waking it.
  static constexpr std::int64_t least_elements = 1 << 16;

  /// Calls body(range) for ranges of `rows`.
  template <class Body>
  void share_rows(std::int64_t rows, std::int64_t columns, const Body& body) const {
    threads_.run_ranges(rows, rows_of(columns), 1, body);
  }
  /// Calls body(range, part) for ranges of the groups with about equally many members each: a few ids have most of the members.
  template <class Body>
  void share_groups(const GroupLists& groups, std::int64_t columns, const Body& body) const {
    if (groups.count == 0) return;
    const std::int64_t members = groups.first[groups.count] - groups.first[0];
    const int parts = threads_.parts(members, rows_of(columns));
    const auto begin = [&](int part) -> std::int64_t {
      return std::lower_bound(groups.first, groups.first + groups.count, groups.first[0] + members * part / parts) - groups.first;
    };
    threads_.run(parts, [&](int part) { body(PartRange{begin(part), part + 1 == parts ? groups.count : begin(part + 1)}, part); });
  }
  [[nodiscard]] static std::int64_t rows_of(std::int64_t columns) {
    return std::max<std::int64_t>(1, least_elements / std::max<std::int64_t>(1, columns));
  }

  static constexpr std::int64_t sum_elements = 1 << 13;  // sums stay in the innermost cache until the optimizer reads them

  std::vector<Buffer<float>> rows_;
  std::vector<Buffer<std::byte>> messages_;
  HostPointers ids_;
  Threads threads_;
  std::int64_t sums_of_thread_;
  Buffer<float> sums_;
};

}  // namespace

std::unique_ptr<RowSpace> make_host_rows(std::int64_t width, const Threads& threads) {
  return std::make_unique<HostRows>(width, threads);
}

}  // namespace weir::embedding
