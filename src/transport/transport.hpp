// transport.hpp: nonblocking send and receive between ranks. All that the algorithms know of a network.
//
// Matching is by (peer, tag), in the order posted. Sizes are agreed beforehand: a message of another size is an error. Only where
// the receiver says so may a message be shorter, and must then say itself how long it is.
// Nothing here blocks and, once every slot has been used once, nothing allocates. One thread at a time.
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

/// A posted send or receive; valid until test() returned true for it. Slot -1: nothing was posted.
struct Request {
  int slot = -1;
};

/// The tag of what all ranks do together before anything else runs under a tag of its own. A few slots are kept for it: its sends
/// and receives allocate nothing.
inline constexpr int setup_tag = 0;

/// What a rank tells the others of a run of its own that broke: they would wait for it in vain. Plain bytes.
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

  /// Among all processes of the job, of which this transport may join a few.
  [[nodiscard]] virtual int job_rank() const { return rank_; }
  [[nodiscard]] virtual int job_size() const { return size_; }

  /// `data` stays untouched by the caller until the request is done. Messages of any size.
  Request send(const void* data, std::int64_t bytes, int to, int tag);
  Request receive(void* data, std::int64_t bytes, int from, int tag);
  /// A message of at most `bytes`, which are at most longest_open_message.
  Request receive_up_to(void* data, std::int64_t bytes, int from, int tag);
  static constexpr std::int64_t longest_open_message = std::int64_t{1} << 20;
  /// By native_allreduce(): `data` becomes the sum over all ranks. One at a time on a lane.
  Request allreduce(void* data, std::int64_t count, DataType type, int lane, int tag);
  /// True once: the request is done and its slot free again. Throws Error(WEIR_ERR_TRANSPORT).
  bool test(Request request);
  /// Gives the core to others, for a caller with nothing to do. Returns once something may have come, or after about half a
  /// millisecond. Takes longer if others keep the core.
  virtual void idle() noexcept;
  /// Gets on with all large messages under `tag`, not only with the one that is tested.
  virtual void push(int /*tag*/) {}
  /// Messages and pieces of large messages done so far: it grows while anything moves.
  [[nodiscard]] std::int64_t pieces_done() const noexcept { return pieces_done_; }
  /// Gives up everything posted under `tag`. The network may use its memory for as long as the process lives: sends under way read
  /// it, and receives that have found their message write into it.
  void abandon(int tag) noexcept;
  /// Tells every other rank, without waiting, as far as that can be done.
  virtual void notify(const Notice& notice) noexcept = 0;
  /// True once for each notice that has come, which is then in `notice`.
  [[nodiscard]] virtual bool receive_notice(Notice& notice) = 0;

  // Capabilities. Null: it has none.
  [[nodiscard]] virtual SharedSegments* shared_segments() noexcept { return nullptr; }
  [[nodiscard]] virtual NativeAllreduce* native_allreduce() noexcept { return nullptr; }
  /// Bytes that ranks of this node can still share. 0: none.
  [[nodiscard]] std::int64_t shared_memory_room() { return shared_segments() != nullptr ? shared_segments()->room() : 0; }
  [[nodiscard]] virtual LibraryLife& library() noexcept;
  /// How messages of CUDA memory travel as far as this rank can tell. What all ranks do is CommunicatorState::device_path.
  [[nodiscard]] virtual DevicePath device_path(GpuPointers setting) const = 0;

  /// The other end; -1: all ranks.
  [[nodiscard]] int peer(Request request) const { return slot(request.slot).peer; }
  /// "receive of 400 bytes from rank 3, tag 7"
  [[nodiscard]] std::string describe(Request request) const;
  /// Names what carries the messages, with its version.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Tags run from 0 to here, all of them for messages.
  [[nodiscard]] virtual int max_tag() const = 0;

 protected:
  enum class Kind : std::uint8_t { free, send, receive, allreduce };
  struct Slot {
    Kind kind = Kind::free;
    int peer = -1;
    int tag = -1;
    std::int64_t bytes = 0;
    bool up_to = false;  ///< of a receive: `bytes` are the most

    [[nodiscard]] bool takes(std::int64_t arrived) const { return arrived == bytes || (up_to && arrived < bytes); }
  };
  Transport(int rank, int size) : rank_(rank), size_(size) {}
  [[nodiscard]] const Slot& slot(int index) const { return slots_[static_cast<std::size_t>(index)]; }

  virtual void post_send(int slot, const void* data) = 0;
  virtual void post_receive(int slot, void* data) = 0;
  virtual bool test_slot(int slot) = 0;
  virtual void abandon_slot(int slot) noexcept = 0;
  void piece_done() noexcept { ++pieces_done_; }
  /// Called with the new number of slots before a new one is used. Throws std::bad_alloc.
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
