#include "base/lost_rank.hpp"

#include <atomic>

namespace weir {
namespace {

std::atomic<const std::string*> lost = nullptr;  // never freed: runs may read it until the process ends

}  // namespace

void set_lost_rank(const std::string& text) {
  const std::string* none = nullptr;
  const auto* const made = new std::string(text);
  if (!lost.compare_exchange_strong(none, made)) delete made;
}

const char* lost_rank() noexcept {
  const std::string* const text = lost.load(std::memory_order_acquire);
  return text != nullptr ? text->c_str() : nullptr;
}

}  // namespace weir
