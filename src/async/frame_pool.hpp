// frame_pool.hpp: memory for coroutine frames, recycled by size, so that a run in the steady state allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace weir {

/// Free lists of one communicator, used by any thread that works with it. A frame goes back to the pool that it came from,
/// whichever thread frees it. Must outlive its frames.
class FramePool {
 public:
  /// While it lives, coroutines that this thread makes take their frames from `pool`. Without one they come from the heap.
  class Scope {
   public:
    explicit Scope(FramePool& pool) : before_(std::exchange(current_, &pool)) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { current_ = before_; }

   private:
    FramePool* before_;
  };

  static void* allocate_frame(std::size_t bytes) {
    FramePool* const pool = current_;
    void* const memory = pool != nullptr ? pool->allocate(bytes + sizeof(Header)) : ::operator new(bytes + sizeof(Header));
    return new (memory) Header{pool} + 1;
  }
  static void release_frame(void* frame, std::size_t bytes) noexcept {
    Header* const header = static_cast<Header*>(frame) - 1;
    if (header->pool == nullptr) return ::operator delete(header);
    header->pool->release(header, bytes + sizeof(Header));
  }

  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (Node*& head : free_) {
      while (head != nullptr) {
        Node* next = head->next;
        ::operator delete(head);
        head = next;
      }
    }
  }

 private:
  struct Node {
    Node* next;
  };
  struct alignas(std::max_align_t) Header {
    FramePool* pool;
  };

  void* allocate(std::size_t bytes) {
    const std::size_t bin = (bytes + granule - 1) / granule;
    if (bin < free_.size() && free_[bin] != nullptr) {
      Node* node = free_[bin];
      free_[bin] = node->next;
      return node;
    }
    // The number of frames of a size that are alive at once depends on timing: a few spare ones now save allocations later.
    for (int spare = 0; spare < 3 && bin < free_.size(); ++spare) release(::operator new(bin* granule), bytes);
    return ::operator new(bin* granule);
  }

  void release(void* memory, std::size_t bytes) noexcept {
    const std::size_t bin = (bytes + granule - 1) / granule;
    if (bin >= free_.size()) return ::operator delete(memory);
    free_[bin] = new (memory) Node{free_[bin]};
  }

  static inline thread_local FramePool* current_ = nullptr;
  static constexpr std::size_t granule = 64;
  std::array<Node*, 128> free_{};
};

}  // namespace weir
