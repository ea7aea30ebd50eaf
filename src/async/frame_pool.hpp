// frame_pool.hpp: memory for coroutine frames, recycled by size, so that a run in the steady state allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace weir {

/// Free lists of one thread. Frames may be freed on another thread than they were made on.
class FramePool {
 public:
  static FramePool& of_this_thread() {
    thread_local FramePool pool;
    return pool;
  }

  void* allocate(std::size_t bytes) {
    const std::size_t bin = (bytes + granule - 1) / granule;
    if (bin < free_.size() && free_[bin] != nullptr) {
      Node* node = free_[bin];
      free_[bin] = node->next;
      return node;
    }
    // How many frames of a size are alive at once depends on timing: a few more now are none later.
    for (int spare = 0; spare < 3 && bin < free_.size(); ++spare) release(::operator new(bin* granule), bytes);
    return ::operator new(bin* granule);
  }

  void release(void* memory, std::size_t bytes) noexcept {
    const std::size_t bin = (bytes + granule - 1) / granule;
    if (bin >= free_.size()) return ::operator delete(memory);
    free_[bin] = new (memory) Node{free_[bin]};
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
  static constexpr std::size_t granule = 64;
  std::array<Node*, 128> free_{};
};

}  // namespace weir
