// node_store.hpp: level 2: decoded samples in memory that the ranks of a node share.
//
// Each owner has a part that it alone writes to: an entry for each of its samples, and their values, one behind the other. What is
// there once stays where it is: a rank that finds an entry may read the value without asking anybody.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "datacache/ownership.hpp"

namespace weir::datacache {

/// One owner's part.
class StorePart {
 public:
  StorePart() = default;
  /// In `memory`, `bytes` long and aligned to 16 bytes, for `range`. The owner calls clear() before anybody else looks.
  StorePart(std::byte* memory, std::int64_t bytes, SampleRange range);

  void clear() noexcept;
  /// What keep() has put there, if it has. Any thread of any rank of the node.
  struct Value {
    const std::byte* data = nullptr;  ///< null: not there
    std::int64_t bytes = 0;
  };
  [[nodiscard]] Value find(std::int64_t sample) const noexcept;

  [[nodiscard]] std::int64_t bytes() const {
    return entries_ == nullptr ? 0 : values_ - reinterpret_cast<std::byte*>(entries_) + room_;
  }
  /// Bytes for `samples` of `value_bytes` each.
  [[nodiscard]] static std::int64_t bytes_for(std::int64_t samples, std::int64_t value_bytes);
  /// So many bytes hold at least the entries of a part.
  [[nodiscard]] static std::int64_t least_bytes(std::int64_t samples) { return bytes_for(samples, 0); }

 private:
  friend class StoreOwner;
  struct Entry {
    std::uint64_t place;  // 1 + where the value begins; 0: it is not there
    std::uint64_t bytes;
  };
  static constexpr std::int64_t alignment = 16;
  [[nodiscard]] static std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
  [[nodiscard]] Entry& entry(std::int64_t sample) const { return entries_[sample - range_.first]; }

  Entry* entries_ = nullptr;
  std::byte* values_ = nullptr;
  std::int64_t room_ = 0;  // for values
  SampleRange range_;
};

/// What the owner does with its part. Thread-safe.
class StoreOwner {
 public:
  explicit StoreOwner(StorePart part) : part_(part) {}
  [[nodiscard]] const StorePart& part() const { return part_; }
  /// Whether `bytes` more could be kept.
  [[nodiscard]] bool has_room(std::int64_t bytes) const;
  /// Copies the value, unless it is there, or there is no room.
  void keep(std::int64_t sample, std::span<const std::byte> value);
  [[nodiscard]] std::int64_t kept() const { return kept_.load(std::memory_order_relaxed); }

 private:
  StorePart part_;
  mutable std::mutex mutex_;
  std::int64_t used_ = 0;
  std::atomic<std::int64_t> kept_{0};
};

}  // namespace weir::datacache
