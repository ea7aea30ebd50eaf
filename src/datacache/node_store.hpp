// node_store.hpp: level 2: decoded samples in memory that the ranks of a node share.
//
// Only the owner writes to its part. A part has an entry for each of the owner's samples, and their values, one after the other. A
// value never moves once it is stored, so a rank that finds an entry may read the value without asking.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "datacache/ownership.hpp"

namespace weir::datacache {

/// One owner's part of the memory.
class StorePart {
 public:
  StorePart() = default;
  /// `memory` has `bytes` bytes, aligned to 16. The owner calls clear() before any other rank reads.
  StorePart(std::byte* memory, std::int64_t bytes, SampleRange range);

  void clear() noexcept;
  /// Returns the value that keep() has stored, if any. Any thread of any rank of the node may call find().
  struct Value {
    const std::byte* data = nullptr;  ///< null: not stored
    std::int64_t bytes = 0;
  };
  [[nodiscard]] Value find(std::int64_t sample) const noexcept;

  [[nodiscard]] std::int64_t bytes() const {
    return entries_ == nullptr ? 0 : values_ - reinterpret_cast<std::byte*>(entries_) + room_;
  }
  /// Returns the bytes needed for `samples` values of `value_bytes` each.
  [[nodiscard]] static std::int64_t bytes_for(std::int64_t samples, std::int64_t value_bytes);
  /// Returns the bytes needed for the entries alone.
  [[nodiscard]] static std::int64_t least_bytes(std::int64_t samples) { return bytes_for(samples, 0); }

 private:
  friend class StoreOwner;
  struct Entry {
    std::uint64_t place;  // 1 + offset of the value; 0: not stored
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

/// Writes the owner's part. Thread-safe.
class StoreOwner {
 public:
  explicit StoreOwner(StorePart part) : part_(part) {}
  [[nodiscard]] const StorePart& part() const { return part_; }
  /// Returns whether `bytes` more would fit.
  [[nodiscard]] bool has_room(std::int64_t bytes) const;
  /// Copies the value, unless it is already stored, or does not fit.
  void keep(std::int64_t sample, std::span<const std::byte> value);
  [[nodiscard]] std::int64_t kept() const { return kept_.load(std::memory_order_relaxed); }

 private:
  StorePart part_;
  mutable std::mutex mutex_;
  std::int64_t used_ = 0;
  std::atomic<std::int64_t> kept_{0};
};

}  // namespace weir::datacache
