// transport.hpp: nonblocking send and receive between ranks. All that the algorithms know of a network.
//
// Matching is by (peer, tag), in the order posted. Sizes are agreed beforehand: a message of another size is an error.
// Nothing here blocks and, once every slot has been used once, nothing allocates. One thread per transport.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "transport/device_path.hpp"

namespace weir {

/// A posted send or receive; valid until test() returned true for it. Slot -1: nothing was posted.
struct Request {
  int slot = -1;
};

/// Memory that every rank of a group on one node gives to all of them.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  /// What member `member` writes and all may read.
  [[nodiscard]] std::byte* of(int member) const { return of_[static_cast<std::size_t>(member)]; }
  /// To be called after writing, before others are told; and after being told, before reading.
  virtual void sync() const = 0;

 protected:
  explicit SharedMemory(std::vector<std::byte*> of) : of_(std::move(of)) {}

 private:
  std::vector<std::byte*> of_;
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// `data` stays untouched by the caller until the request is done. Messages of any size.
  Request send(const void* data, std::int64_t bytes, int to, int tag);
  Request receive(void* data, std::int64_t bytes, int from, int tag);
  /// Collective, blocking: a lane for allreduce(), one per plan, since the library's own collectives match by order of calls.
  /// Only where has_allreduce().
  virtual int open_lane();
  /// The library's own nonblocking allreduce: `data` becomes the sum over all ranks. One at a time on a lane.
  Request allreduce(void* data, std::int64_t count, DataType type, int lane, int tag);
  /// Whether the library has one.
  [[nodiscard]] virtual bool has_allreduce() const { return false; }
  /// Collective and blocking among `members`, ranks of one node, ascending, this one among them: `bytes` of memory from each.
  /// nullptr on all of them where that cannot be had.
  virtual std::unique_ptr<SharedMemory> share(std::span<const int> members, std::int64_t bytes);
  /// True once: the request is done and its slot free again. Throws Error(WEIR_ERR_TRANSPORT).
  bool test(Request request);
  /// Gets on with all large messages under `tag`, not only with the one that is tested.
  virtual void push(int /*tag*/) {}
  /// Messages and pieces of large messages done so far: it grows while anything moves.
  [[nodiscard]] std::int64_t pieces_done() const noexcept { return pieces_done_; }
  /// Gives up everything posted under `tag`. Buffers of sends that are under way must stay alive.
  void abandon(int tag);

  /// "receive of 400 bytes from rank 3, tag 7"
  [[nodiscard]] std::string describe(Request request) const;
  /// How messages of CUDA memory travel as far as this rank can tell. What all ranks do is CommunicatorState::device_path.
  [[nodiscard]] virtual DevicePath device_path(CudaAwareMpi setting) const = 0;
  /// For people: what carries the messages, with its version.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Tags run from 0 to here.
  [[nodiscard]] virtual int max_tag() const = 0;

 protected:
  enum class Kind : std::uint8_t { free, send, receive, allreduce };
  struct Slot {
    Kind kind = Kind::free;
    int peer = -1;
    int tag = -1;
    std::int64_t bytes = 0;
  };
  Transport(int rank, int size) : rank_(rank), size_(size) {}
  [[nodiscard]] const Slot& slot(int index) const { return slots_[static_cast<std::size_t>(index)]; }

  virtual void post_send(int slot, const void* data) = 0;
  virtual void post_receive(int slot, void* data) = 0;
  virtual void post_allreduce(int slot, void* data, DataType type, int lane);
  virtual bool test_slot(int slot) = 0;
  virtual void abandon_slot(int slot) = 0;
  void piece_done() noexcept { ++pieces_done_; }
  /// Called with the new number of slots before a new one is used.
  virtual void grow(int slots) = 0;

 private:
  Request acquire(Kind kind, std::int64_t bytes, int peer, int tag);

  int rank_, size_;
  std::int64_t pieces_done_ = 0;
  std::vector<Slot> slots_;
  std::vector<int> free_;
};

}  // namespace weir
