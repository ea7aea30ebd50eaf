// capabilities.hpp: what a transport may have besides messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "base/at_end.hpp"
#include "transport/shared_segment.hpp"

namespace weir {

/// Memory that the ranks of a node share.
class SharedSegments {
 public:
  /// Returns the bytes that ranks of this node can still share; 0 for none.
  [[nodiscard]] virtual std::int64_t room() const = 0;
  /// Makes memory that other ranks of this node find by `name`, which it sets. Throws Error(WEIR_ERR_MEMORY).
  [[nodiscard]] virtual std::unique_ptr<SharedSegment> make_segment(std::int64_t bytes, SegmentName& name) = 0;
  [[nodiscard]] virtual std::unique_ptr<SharedSegment> open_segment(std::string_view name, std::int64_t bytes) = 0;

 protected:
  ~SharedSegments() = default;
};

/// A nonblocking allreduce of the library's own. Transport::allreduce() posts one.
class NativeAllreduce {
 public:
  /// Opens one more lane. Collective, blocking. Plans that may run at the same time need one each, because the library matches its
  /// own collectives by the order of calls.
  virtual int open_lane() = 0;
  /// Posts the allreduce in this slot of the transport.
  virtual void post_allreduce(int slot, void* data, DataType type, int lane) = 0;

 protected:
  ~NativeAllreduce() = default;
};

/// The life of the library that carries messages, and its threads. By default it ends with the process.
class LibraryLife {
 public:
  virtual ~LibraryLife() = default;
  /// Returns why it cannot be called any more, and what to do about it; empty if it can. MPI cannot after MPI_Finalize.
  [[nodiscard]] virtual std::string why_not_running() const { return {}; }
  [[nodiscard]] bool is_running() const { return why_not_running().empty(); }
  /// Returns what it lacks for a thread of Weir's beside the caller's, and how to get it; empty if nothing.
  [[nodiscard]] virtual std::string why_one_thread() const { return {}; }
  /// Makes sure that AtEnd is called before the library ends. Returns which end that is.
  virtual End announce_end() { return End::process; }
};

}  // namespace weir
