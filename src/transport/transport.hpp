// transport.hpp: nonblocking send and receive between ranks. Algorithms know nothing else of a network.
//
// Messages match by (peer, tag), in the order posted. Sizes are agreed beforehand: a message of another size is an error. Only what
// send_open() sends and receive_up_to() receives may be shorter; it must contain its own size.
// No function here blocks. Once every slot has been used once, no function allocates. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "transport/capabilities.hpp"
#include "transport/device_path.hpp"

namespace weir {

/// A posted send or receive; valid until test() has returned true for it. Slot -1: nothing was posted.
struct Request {
  int slot = -1;
};

/// The tag of what all ranks do together before plans and tables get tags of their own. A few slots are reserved for it, so that
/// its sends and receives allocate nothing.
inline constexpr int setup_tag = 0;

/// What a rank sends to the others about a run of its own that broke: they would wait for it in vain. Plain bytes.
struct Notice {
  std::int32_t tag = 0;
  std::int32_t status = 0;
  std::int64_t number = 0;  ///< of the run, among those with its tag
  std::array<char, 496> text{};

  void set_text(std::string_view content) noexcept { content.copy(text.data(), text.size() - 1); }
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// The rank and size among all processes of the job. This transport may connect only some of them.
  [[nodiscard]] virtual int job_rank() const { return rank_; }
  [[nodiscard]] virtual int job_size() const { return size_; }

  /// send() and receive() take messages of any size. The caller leaves `data` alone until the request is done.
  Request send(const void* data, std::int64_t bytes, int to, int tag);
  Request receive(void* data, std::int64_t bytes, int from, int tag);
  /// Sends a message of at most longest_open_message to a rank that knows only a bound of its size, and calls receive_up_to().
  Request send_open(const void* data, std::int64_t bytes, int to, int tag);
  /// Receives what send_open() sends: at most `bytes`, which is at most longest_open_message.
  Request receive_up_to(void* data, std::int64_t bytes, int from, int tag);
  static constexpr std::int64_t longest_open_message = std::int64_t{1} << 20;
  /// Posts native_allreduce(): `data` becomes the sum over all ranks. One at a time on a lane.
  Request allreduce(void* data, std::int64_t count, DataType type, int lane, int tag);
  /// Returns true once: when the request is done and its slot is free again. Throws Error(WEIR_ERR_TRANSPORT).
  bool test(Request request);
  /// Gives the core to other threads, for a caller with nothing to do. Returns when something may have arrived, or after about half
  /// a millisecond. Takes longer if others keep the core.
  virtual void idle() noexcept;
  /// Says on which node each rank runs. It may change how later messages travel: all ranks call it alike, and between the same
  /// messages.
  virtual void set_nodes(std::span<const int> /*node_of_rank*/) {}
  /// Advances all large messages under `tag`, not only the one that is tested.
  virtual void push(int /*tag*/) {}
  /// Returns the number of messages and pieces of large messages done so far. It grows while anything moves.
  [[nodiscard]] std::int64_t pieces_done() const noexcept { return pieces_done_; }
  /// Abandons everything posted under `tag`. The network may use its memory until the process ends: sends under way read it, and
  /// receives that have found their message write into it.
  void abandon(int tag) noexcept;
  /// Sends `notice` to every other rank, without waiting, as far as possible.
  virtual void notify(const Notice& notice) noexcept = 0;
  /// Returns true once for each notice that has arrived, and sets `notice` to it.
  [[nodiscard]] virtual bool receive_notice(Notice& notice) = 0;

  // Capabilities. Null if it lacks one.
  [[nodiscard]] virtual SharedSegments* shared_segments() noexcept { return nullptr; }
  [[nodiscard]] virtual NativeAllreduce* native_allreduce() noexcept { return nullptr; }
  /// Returns the bytes that ranks of this node can still share; 0 for none.
  [[nodiscard]] std::int64_t shared_memory_room() { return shared_segments() != nullptr ? shared_segments()->room() : 0; }
  [[nodiscard]] virtual LibraryLife& library() noexcept;
  /// Returns how messages of CUDA memory travel as far as this rank knows. What all ranks do is CommunicatorState::device_path.
  [[nodiscard]] virtual DevicePath device_path(GpuPointers setting) const = 0;

  /// Returns the other end; -1 for all ranks.
  [[nodiscard]] int peer(Request request) const { return slot(request.slot).peer; }
  /// Returns, for example, "receive of 400 bytes from rank 3, tag 7".
  [[nodiscard]] std::string describe(Request request) const;
  /// Returns the name of what carries the messages, with its version.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the largest tag. Messages may use all tags from 0 to this one.
  [[nodiscard]] virtual int max_tag() const = 0;
  /// Returns the tag of messages between ranks that make a subgroup. No others use it.
  [[nodiscard]] int meeting_tag() const { return max_tag() + 1; }
  /// Returns a transport between some of the ranks: ranks[i] is rank i there. Collective over these ranks alone, which have agreed
  /// that all of them call it with the same `ranks`: each exists and is named once, this one among them. May block until all
  /// have called it. Either transport may be destroyed first.
  [[nodiscard]] virtual std::unique_ptr<Transport> subgroup(std::span<const int> ranks) = 0;

 protected:
  enum class Kind : std::uint8_t { free, send, receive, allreduce };
  struct Slot {
    Kind kind = Kind::free;
    int peer = -1;
    int tag = -1;
    std::int64_t bytes = 0;
    bool open = false;  ///< the receiver knows only a bound of the size: its `bytes`

    [[nodiscard]] bool takes(std::int64_t arrived) const { return arrived == bytes || (open && arrived < bytes); }
  };
  Transport(int rank, int size) : rank_(rank), size_(size) {}
  [[nodiscard]] const Slot& slot(int index) const { return slots_[static_cast<std::size_t>(index)]; }

  virtual void post_send(int slot, const void* data) = 0;
  virtual void post_receive(int slot, void* data) = 0;
  virtual bool test_slot(int slot) = 0;
  virtual void abandon_slot(int slot) noexcept = 0;
  void piece_done() noexcept { ++pieces_done_; }
  /// Makes room for `slots` slots, before a new one is used. Throws std::bad_alloc.
  virtual void grow(int slots) = 0;

 private:
  static constexpr std::size_t setup_slots = 4;
  Request acquire(const Slot& content);

  int rank_, size_;
  std::int64_t pieces_done_ = 0;
  std::vector<Slot> slots_;
  std::vector<int> free_;
};

}  // namespace weir
