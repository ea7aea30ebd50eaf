#include "base/keep.hpp"

#include <new>

namespace weir {

void keep_forever(std::shared_ptr<void> owner) noexcept {
  // One more reference that nobody drops. Where even that little memory is missing, the owner is not destroyed either.
  struct Kept {
    std::shared_ptr<void> owner;
  };
  alignas(Kept) static thread_local std::byte emergency[sizeof(Kept)];
  void* memory = ::operator new(sizeof(Kept), std::nothrow);
  new (memory != nullptr ? memory : emergency) Kept{std::move(owner)};
}

}  // namespace weir
