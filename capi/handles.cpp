#include "handles.hpp"

#include <mutex>
#include <unordered_map>

namespace weir::capi {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_map<const void*, HandleKind> alive;
};
// Never destroyed, because destructors that run after main may still destroy handles.
Handles& handles() {
  static Handles& only = *new Handles;
  return only;
}

}  // namespace

std::string_view name_of(HandleKind kind) noexcept {
  constexpr std::string_view names[] = {"communicator", "plan",      "table",  "schedule", "checkpoint", "fused allreduce",
                                        "operator",     "optimizer", "source", "cache",    "loader",     "sparse Adam optimizer",
                                        "sum"};
  return names[static_cast<int>(kind)];
}

void add_handle(const void* handle, HandleKind kind) {
  const std::lock_guard lock(handles().mutex);
  handles().alive.emplace(handle, kind);
}

void remove_handle(const void* handle) noexcept {
  const std::lock_guard lock(handles().mutex);
  handles().alive.erase(handle);
}

bool is_alive(const void* handle, HandleKind kind) noexcept {
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().alive.find(handle);
  return found != handles().alive.end() && found->second == kind;
}

}  // namespace weir::capi
