#include "base/keep.hpp"

#include <atomic>
#include <new>
#include <utility>

namespace weir {
namespace {

struct Kept {
  std::shared_ptr<void> owner;
  Kept* next = nullptr;
};
std::atomic<Kept*> kept = nullptr;  // a list, so that leak checkers find them

}  // namespace

void keep_forever(std::shared_ptr<void> owner) noexcept {
  void* const memory = ::operator new(sizeof(Kept), std::nothrow);
  if (memory == nullptr) {
    // No memory even for an entry: lose a reference instead, which keeps the owner as well.
    alignas(Kept) thread_local std::byte place[sizeof(Kept)];
    new (place) Kept{std::move(owner)};
    return;
  }
  auto* const entry = new (memory) Kept{std::move(owner), kept.load()};
  while (!kept.compare_exchange_weak(entry->next, entry)) {
  }
}

}  // namespace weir
