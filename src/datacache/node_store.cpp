#include "datacache/node_store.hpp"

#include <algorithm>

namespace weir::datacache {

StorePart::StorePart(std::byte* memory, std::int64_t bytes, SampleRange range) : range_(range) {
  const std::int64_t index = least_bytes(range.count);
  if (bytes < index) return;  // there is no room for any value
  entries_ = reinterpret_cast<Entry*>(memory);
  values_ = memory + index;
  room_ = bytes - index;
}

std::int64_t StorePart::bytes_for(std::int64_t samples, std::int64_t value_bytes) {
  return aligned(samples * static_cast<std::int64_t>(sizeof(Entry))) + samples * aligned(value_bytes);
}

void StorePart::clear() noexcept {
  if (entries_ != nullptr) std::fill_n(entries_, range_.count, Entry{});
}

StorePart::Value StorePart::find(std::int64_t sample) const noexcept {
  if (entries_ == nullptr) return {};
  Entry& e = entry(sample);
  const std::uint64_t place = std::atomic_ref(e.place).load(std::memory_order_acquire);
  if (place == 0) return {};
  return {values_ + (place - 1), static_cast<std::int64_t>(e.bytes)};
}

bool StoreOwner::has_room(std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return part_.entries_ != nullptr && used_ + StorePart::aligned(bytes) <= part_.room_;
}

void StoreOwner::keep(std::int64_t sample, std::span<const std::byte> value) {
  if (part_.entries_ == nullptr) return;
  StorePart::Entry& entry = part_.entry(sample);
  const std::int64_t bytes = StorePart::aligned(static_cast<std::int64_t>(value.size()));
  const std::lock_guard lock(mutex_);
  if (entry.place != 0 || used_ + bytes > part_.room_) return;
  std::copy(value.begin(), value.end(), part_.values_ + used_);
  entry.bytes = value.size();
  std::atomic_ref(entry.place).store(static_cast<std::uint64_t>(used_) + 1, std::memory_order_release);
  used_ += bytes;
  kept_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace weir::datacache
