// communicator.hpp: what ranks share (transport, engine, topology and settings) and how they agree.
//
// If all ranks do something together and one of them may fail alone, they do it in three steps. Every rank tries its part and keeps
// its error. All ranks exchange how their parts went. All go on, or all throw the same error. The exchange allocates nothing.
#pragma once

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "async/channel.hpp"
#include "async/engine.hpp"
#include "base/buffer.hpp"
#include "base/scratch.hpp"
#include "base/settings.hpp"
#include "base/threads.hpp"
#include "collectives/node_cards.hpp"
#include "communicator/leases.hpp"
#include "communicator/outcome.hpp"
#include "communicator/progress_thread.hpp"
#include "model/lookup.hpp"
#include "observe/flight_recorder.hpp"
#include "observe/tracer.hpp"
#include "topology/topology.hpp"
#include "transport/transport.hpp"

namespace weir::detail {

class NcclGroups;

struct CommunicatorState : std::enable_shared_from_this<CommunicatorState> {
  CommunicatorState(std::unique_ptr<Transport> transport_of_this_rank, Settings settings_in_force);

  /// Enters the communicator until the result is destroyed. Meanwhile a progress thread touches nothing of it. A thread must be
  /// inside to call the functions below, or to touch the engine, the transport or the state of runs. These functions and those of
  /// AsynchronousCall enter by themselves; if the state must not change between two of them, keep a scope around both. Without a
  /// progress thread this costs a branch. The communicator must outlive the result.
  [[nodiscard]] ProgressThread::Inside enter() const { return ProgressThread::Inside(progress_.get()); }

  static constexpr std::size_t largest_card = 1536;
  /// Returns every rank's card in rank order, valid until the next call. Collective, blocking. `what` is a string literal for
  /// dumps. Throws if a rank does not call it in time or the transport fails. Allocates nothing.
  template <class Card>
  std::span<const Card> share(const char* what, const Card& mine) {
    static_assert(std::is_trivially_copyable_v<Card> && sizeof(Card) <= largest_card && alignof(Card) <= 64);
    exchange(what, reinterpret_cast<const std::byte*>(&mine), sizeof(Card));
    return {reinterpret_cast<const Card*>(cards_.data()), static_cast<std::size_t>(transport->size())};
  }
  /// Where the cards of all ranks are.
  struct CardMemory {
    const std::byte* first;
    std::int64_t stride;
  };
  /// The cards of all ranks, valid until the next call.
  template <class Card>
  class Cards {
   public:
    Cards(CardMemory memory, int ranks) : memory_(memory), ranks_(ranks) {}
    [[nodiscard]] int ranks() const { return ranks_; }
    [[nodiscard]] const Card& of(int rank) const { return *reinterpret_cast<const Card*>(memory_.first + rank * memory_.stride); }

   private:
    CardMemory memory_;
    int ranks_;
  };
  /// Does the same as share() with less latency: if all ranks are on one node, they exchange cards in shared memory. `fill` writes
  /// this rank's card in place; what it leaves alone has any value. The first call also takes that memory.
  template <class Card, class Fill>
  Cards<Card> share_in_place(const char* what, Fill&& fill) {
    static_assert(std::is_trivially_copyable_v<Card> && sizeof(Card) <= largest_card && alignof(Card) <= NodeCards::alignment);
    fill(*reinterpret_cast<Card*>(next_card()));
    return {exchange_in_place(what, sizeof(Card)), transport->size()};
  }
  /// Calls attempt(), which is local. If it threw on any rank, throws on every rank what it threw on the lowest of these ranks, as
  /// the error of `thing` (such as "plan") called `name`, if it has a name. Collective, blocking.
  template <class Attempt>
  void agree(const char* what, std::string_view thing, std::string_view name, Attempt&& attempt) {
    const Outcome mine = outcome_of(attempt);
    throw_first(thing, name, share(what, mine));
  }
  /// Throws what agree() throws, for outcomes that have been shared.
  void throw_first(std::string_view thing, std::string_view name, std::span<const Outcome> ranks) const;
  /// Sets `text` to rank 0's. Collective, blocking.
  void broadcast(const char* what, std::string& text);

  /// Runs the control task that body() makes until it ends. Collective if the task is. The memory of its messages must outlive a
  /// failure: the network may still write to it.
  template <class Body>
  void run_blocking(const char* name, int tag, const Body& body) {
    run_body(name, tag, engine.frames(), std::cref(body));  // which allocates nothing
  }
  /// See Communicator.
  void broadcast(std::byte* data, std::int64_t bytes, int root);
  void allgather(const std::byte* mine, std::int64_t bytes, std::byte* all, std::int64_t room);
  /// Returns the figures of this machine for cost functions, the same on every rank. The first call is collective.
  const FoundMachine& agreed_machine();
  /// Calls make() inside the communicator. Turns std::bad_alloc into an Error, whose text was allocated when the communicator was
  /// made.
  template <class Make>
  auto guarded(Make&& make) const {
    const auto inside = enter();
    try {
      return make();
    } catch (const std::bad_alloc&) {
      throw_out_of_memory();
    }
  }
  /// Opens the files about this communicator: traces, dumps and metrics, as the settings say. With `rounds`, which is collective,
  /// ranks also measure how to put traces on one clock. A folder that cannot be written is a warning.
  void observe(const Identity& identity, bool rounds);
  /// Starts the progress thread, if the settings ask for one and there is a core for it. Otherwise logs why not.
  void start_progress_thread();
  [[nodiscard]] bool has_progress_thread() const { return progress_ != nullptr; }
  /// See Communicator.
  void add_observer(std::shared_ptr<Observer> observer);
  void remove_observer(const std::shared_ptr<Observer>& observer);
  void notify_update(const UpdateInfo& update) const noexcept {
    for (Observer* const observer : engine.detail_observers()) observer->update(update);
  }
  /// Writes the flight recorder's dump. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  void dump(const std::string& path, std::string_view why);
  /// See Communicator::stragglers.
  [[nodiscard]] std::vector<double> stragglers(int runs);
  /// Throws Error if the transport's library has ended.
  void require_running() const;
  /// Throws Error if nothing can be made or agreed on any more.
  void require_whole() const;

  Settings settings;  ///< those that decide which ranks exchange messages are the same on every rank
  std::unique_ptr<Transport> transport;
  Engine engine;
  Topology topology;
  DevicePath device_path;  ///< agreed: the same on every rank
  Leases leases;
  const std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
  std::optional<FoundMachine> machine;
  std::shared_ptr<NcclGroups> nccl;  ///< set when a plan first asks for it, see nccl/groups.hpp
  /// True if a plan hands, or has handed, GPU memory to the transport: NCCL must not be used beside it. The same on every rank.
  bool gpu_memory_goes_to_transport = false;
  /// Returns whether plans made now hand GPU memory to the transport: see cuda/nccl.hpp.
  [[nodiscard]] bool hands_over_gpu_memory() const { return device_path.direct && nccl == nullptr; }
  FlightRecorder recorder;
  std::unique_ptr<Tracer> tracer;  ///< null: not traced
  /// Returns the threads of this rank for a plan that asks for `wanted`; 0: as the settings and the cores have it. Warns once if
  /// there are more threads than cores.
  [[nodiscard]] Threads threads_for(int wanted);
  bool warned_of_messages = false;  ///< that messages replace shared memory: one warning is enough
  bool subgroups_broken = false;    ///< ranks broke off while they made one: messages of it may still be on their way

 private:
  void exchange(const char* what, const std::byte* mine, std::int64_t bytes);
  [[nodiscard]] std::byte* next_card();
  [[nodiscard]] CardMemory exchange_in_place(const char* what, std::int64_t bytes);
  void open_node_cards();
  void run_body(const char* name, int tag, FramePool& frames, const std::function<task<void>(Channel)>& body);
  /// What a rank gives to broadcast() or allgather().
  struct SmallCall {
    const char* what;
    std::int64_t bytes;
    int root;
    bool has_memory;
    std::int64_t parts = 1;  ///< number of parts in the result
    std::int64_t room;       ///< bytes available for the result
    std::int64_t scratch;    ///< bytes of small_
  };
  void agree_on_small(const SmallCall& call);
  void drive_setup(Run& run);
  [[noreturn]] void throw_out_of_memory() const;

  Threads threads_;  // unless a plan sets its own
  bool warned_of_threads_ = false;
  std::exception_ptr out_of_memory_;                  // made when the communicator was
  std::unique_ptr<Observer> metrics_;                 // null: no metrics are kept
  std::vector<std::shared_ptr<Observer>> observers_;  // added by the user
  FramePool setup_frames_;                            // of setup runs only: there is always a frame for the next exchange
  std::int64_t setup_runs_ = 0;
  bool broken_ = false;  // a setup run broke off: its messages may still be on their way
  Buffer<std::byte> mine_, cards_, scratch_;
  std::optional<NodeCards> node_cards_;       // empty: cards are sent
  bool node_cards_opened_ = false;            // has been tried
  Buffer<std::byte> small_;                   // used by broadcast() and allgather() while they run
  std::unique_ptr<ProgressThread> progress_;  // destroyed before what it polls; null: there is no thread
  std::optional<AtEnd> at_end_;               // destroyed first; empty: the transport's library has no end of its own
};

/// Makes a communicator. Collective. `location` defaults to this process's own (locate()). If a rank's settings are invalid or it
/// is given a `refusal`, all ranks throw its error.
[[nodiscard]] std::shared_ptr<CommunicatorState> make_communicator(std::unique_ptr<Transport> transport,
                                                                   std::optional<Location> location = {},
                                                                   std::optional<Settings> settings = {},
                                                                   const char* refusal = nullptr);

}  // namespace weir::detail
