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
std::atomic<Kept*> kept = nullptr;  // so that leak checkers find them

}  // namespace

void keep_forever(std::shared_ptr<void> owner) noexcept {
  void* const memory = ::operator new(sizeof(Kept), std::nothrow);
  if (memory == nullptr) {
    // Not even that little memory: a reference is lost instead, which keeps it as well.
    alignas(Kept) thread_local std::byte place[sizeof(Kept)];
    new (place) Kept{std::move(owner)};
    return;
  }
  auto* const entry = new (memory) Kept{std::move(owner), kept.load()};
  while (!kept.compare_exchange_weak(entry->next, entry)) {
  }
}

}  // namespace weir
