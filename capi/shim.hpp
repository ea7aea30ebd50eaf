// shim.hpp: what the shims of the C ABI share: no exception crosses, and structs may be those of an older header.
#pragma once

#include <weir/mpi.h>
#include <weir/weir.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

struct weir_comm {
  weir::Communicator communicator;
  std::string error;
  int plans = 0;  ///< and tables that were made from it and not destroyed
};

namespace weir::capi {

inline thread_local std::string thread_error;

/// Runs `body`; what it throws becomes a status, its text the last error of the thread and of `comm`.
template <class Body>
weir_status guard(weir_comm* comm, Body body) noexcept {
  weir_status status = WEIR_ERR_INTERNAL;
  try {
    try {
      body();
      return WEIR_OK;
    } catch (const Error& error) {
      status = error.status();
      thread_error = error.what();
    } catch (const std::bad_alloc&) {
      status = WEIR_ERR_MEMORY;
      thread_error = "out of memory";
    } catch (const std::exception& error) {
      thread_error = error.what();
    }
    if (comm != nullptr) comm->error = thread_error;
  } catch (...) {  // no memory for the text
  }
  return status;
}

inline void need(bool condition, const char* text) {
  if (!condition) throw Error(WEIR_ERR_ARGUMENT, text);
}

/// Copies as much of `full` as the caller's struct has room for.
template <class Struct>
void fill_struct(Struct* out, Struct full) {
  need(out != nullptr, "the struct to fill is NULL");
  const std::size_t size = out->struct_size;
  need(size >= sizeof(std::size_t), "struct_size is not set: set it to sizeof of the struct");
  full.struct_size = size;
  std::memcpy(static_cast<void*>(out), &full, std::min(size, sizeof full));
}

/// The caller's config; `initial` in the fields that it does not have.
template <class Struct>
Struct read_struct(const Struct* given, Struct initial, const char* text_for_bad_size) {
  need(given != nullptr, "the config is NULL");
  need(given->struct_size >= sizeof(std::size_t) && given->struct_size <= 4096, text_for_bad_size);
  std::memcpy(static_cast<void*>(&initial), given, std::min(given->struct_size, sizeof initial));
  return initial;
}

}  // namespace weir::capi
