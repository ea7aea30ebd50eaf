// shim.hpp: shared by the shims of the C ABI. Exceptions do not cross the ABI, handles are checked, and structs may come from
// another version of the header.
#pragma once

#include <weir/mpi.h>
#include <weir/weir.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "handles.hpp"

struct weir_comm {
  weir::Communicator communicator;
  std::string topology{};
  std::string error{};
  int users = 0;                               ///< handles made from it and not yet destroyed
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;  ///< set during a call
};

namespace weir::capi {

inline thread_local std::string thread_error;

/// Runs `body`. An exception becomes a status. Its text becomes this thread's last error and, unless that is nullptr, `error`.
template <class Body>
weir_status guard(std::string* error, Body&& body) noexcept {
  weir_status status = WEIR_ERR_INTERNAL;
  try {
    try {
      body();
      return WEIR_OK;
    } catch (const Error& caught) {
      status = caught.status();
      thread_error = caught.what();
    } catch (const std::bad_alloc&) {
      status = WEIR_ERR_MEMORY;
      thread_error = "out of memory";
    } catch (const std::exception& caught) {
      thread_error = caught.what();
    }
    if (error != nullptr) *error = thread_error;
  } catch (...) {  // there is no memory for the text
  }
  return status;
}

inline void need(bool condition, const char* text) {
  if (!condition) throw Error(WEIR_ERR_ARGUMENT, text);
}

/// Returns the text of a refusal.
inline std::string_view reason(const char* why) { return why != nullptr ? why : "no reason is given"; }

/// Throws unless `handle` has been made and not destroyed.
template <class Handle>
void need_alive(const Handle* handle) {
  constexpr HandleKind kind = handle_kind<Handle>;
  if (handle == nullptr) throw Error(WEIR_ERR_ARGUMENT, "the " + std::string(name_of(kind)) + " is NULL");
  if (!is_alive(handle, kind))
    throw Error(WEIR_ERR_ARGUMENT,
                "the " + std::string(name_of(kind)) +
                    " does not exist: it was destroyed before, or never made; give a handle that a create call has returned");
}

/// Reserves the communicator for one call of one thread.
class Use {
 public:
  explicit Use(weir_comm* comm) : comm_(comm) {
    if (comm_->in_use.test_and_set(std::memory_order_acquire)) {
      comm_ = nullptr;
      throw Error(WEIR_ERR_BUSY,
                  "another call on this communicator is under way, in another thread or around this one (in a log function, or in "
                  "the body of an operator): a "
                  "communicator and what was made from it belong to one thread at a time");
    }
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (comm_ != nullptr) comm_->in_use.clear(std::memory_order_release);
  }
  /// Forgets the communicator, which no longer exists.
  void forget() { comm_ = nullptr; }

 private:
  weir_comm* comm_;
};

inline weir_comm* comm_of(weir_comm* comm) { return comm; }
/// Returns the communicator that `handle` was made from.
template <class Handle>
weir_comm* comm_of(Handle* handle) {
  return handle->comm;
}

/// Runs `body` if the handle is alive and no other call uses its communicator.
template <class Handle, class Body>
weir_status guard_handle(const Handle* handle, Body&& body) noexcept {
  return guard(nullptr, [&] {
    need_alive(handle);
    weir_comm* const comm = comm_of(const_cast<Handle*>(handle));
    Use use(comm);
    try {
      body();
    } catch (const std::exception& caught) {
      comm->error = caught.what();
      throw;
    }
  });
}

/// Makes a handle from `comm` and gives it to the caller. `make` returns a unique_ptr.
template <class Handle, class Make>
weir_status make_handle(weir_comm* comm, Handle** handle, Make&& make) noexcept {
  if (handle != nullptr) *handle = nullptr;
  return guard_handle(comm, [&] {
    std::unique_ptr<Handle> made = make();
    add_handle(made.get(), handle_kind<Handle>);
    ++comm->users;
    *handle = made.release();
  });
}

/// Makes a handle of a new communicator, for the caller to own.
inline weir_comm* communicator_handle(Communicator communicator) {
  std::unique_ptr<weir_comm> made(new weir_comm{std::move(communicator)});
  made->topology = made->communicator.topology();
  add_handle(made.get(), HandleKind::communicator);
  return made.release();
}

template <class Handle>
weir_status destroy_handle(Handle* handle) noexcept {
  if (handle == nullptr) return WEIR_OK;
  return guard_handle(handle, [&] {
    weir_comm* const comm = handle->comm;
    remove_handle(handle);
    delete handle;
    --comm->users;
  });
}

/// Returns `count` bytes, or an empty span if the number is negative.
template <class Void>
auto bytes_at(Void* data, std::int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return std::span<Byte>(static_cast<Byte*>(data), static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
}

/// Returns element `index` of `list`. Throws if there is no such element.
template <class Info>
const Info& element(const std::vector<Info>& list, int index, const char* what) {
  if (index < 0 || index >= static_cast<int>(list.size()))
    throw Error(WEIR_ERR_ARGUMENT,
                "there is no " + std::string(what) + " " + std::to_string(index) + ": there are " + std::to_string(list.size()));
  return list[static_cast<std::size_t>(index)];
}

inline constexpr std::size_t largest_struct = 4096;

/// Copies as much of `full` as the caller's struct has room for. Sets fields that this library does not know to zero.
template <class Struct>
void fill_struct(Struct* out, Struct full) {
  need(out != nullptr, "the struct to fill is NULL");
  const std::size_t size = out->struct_size;
  need(size >= sizeof(std::size_t) && size <= largest_struct, "struct_size is not set: set it to sizeof of the struct");
  full.struct_size = size;
  std::memcpy(static_cast<void*>(out), &full, std::min(size, sizeof full));
  if (size > sizeof full) std::memset(reinterpret_cast<char*>(out) + sizeof full, 0, size - sizeof full);
}

/// Reads the caller's struct; `what` names it in errors. Fields that it lacks keep their values from `initial`.
template <class Struct>
Struct read_struct(const Struct* given, Struct initial, const char* initializer, const std::string& what = "the config") {
  if (given == nullptr) throw Error(WEIR_ERR_ARGUMENT, what + " is NULL");
  const std::size_t size = given->struct_size;
  // The size of every version is a multiple of the alignment. Any other size would cut a field.
  if (size < sizeof(std::size_t) || size > largest_struct || size % alignof(Struct) != 0)
    throw Error(WEIR_ERR_ARGUMENT, "struct_size of " + what + " is " + std::to_string(size) + ": start from " + initializer);
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof initial && std::any_of(bytes + sizeof initial, bytes + size, [](char byte) { return byte != 0; }))
    throw Error(WEIR_ERR_ARGUMENT, what + " is of a newer header, and sets fields that this library (" +
                                       std::to_string(WEIR_VERSION_MAJOR) + "." + std::to_string(WEIR_VERSION_MINOR) + "." +
                                       std::to_string(WEIR_VERSION_PATCH) +
                                       ") does not know: leave them zero, or use a newer library");
  std::memcpy(static_cast<void*>(&initial), given, std::min(size, sizeof initial));
  return initial;
}

/// Calls take(struct) for `count` structs of the caller. Their distance is the struct_size of the first one. `what` names one in
/// errors ("tensor"), and `initializer` is the macro that starts one.
template <class Struct, class Take>
void read_structs(const Struct* given, int count, const Struct& initial, const char* initializer, const std::string& what,
                  Take&& take) {
  if (count < 0) throw Error(WEIR_ERR_ARGUMENT, "the number of " + what + "s is negative");
  if (given == nullptr && count > 0) throw Error(WEIR_ERR_ARGUMENT, "the " + what + "s are NULL");
  for (int i = 0; i < count; ++i) {
    const auto* const bytes = reinterpret_cast<const char*>(given) + static_cast<std::size_t>(i) * given->struct_size;
    const auto* const one = reinterpret_cast<const Struct*>(bytes);
    if (one->struct_size != given->struct_size)
      throw Error(WEIR_ERR_ARGUMENT, "struct_size of " + what + " " + std::to_string(i) + " is " +
                                         std::to_string(one->struct_size) + ", and of the first " +
                                         std::to_string(given->struct_size) + ": start each from " + initializer);
    take(read_struct<Struct>(one, initial, initializer, what + " " + std::to_string(i)));
  }
}

}  // namespace weir::capi
