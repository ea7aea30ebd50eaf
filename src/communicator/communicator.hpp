// communicator.hpp: what ranks share: transport, engine, topology, settings; and how they agree.
//
// Whatever all ranks do together and one of them may fail at alone is done in this way: every rank tries its part, keeping what
// goes wrong to itself; all tell each other how it went; all go on, or all throw the same. Telling allocates nothing.
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

  /// A thread that calls the functions below, or touches the engine, the transport or what runs have, is inside: a progress thread
  /// then leaves all of it alone. These functions and those of AsynchronousCall come in by themselves; what must be as it is from
  /// one of them to the next needs a scope around both. No more than a branch where there is no such thread. The communicator must
  /// outlive what is returned.
  [[nodiscard]] ProgressThread::Inside enter() const { return ProgressThread::Inside(progress_.get()); }

  static constexpr std::size_t largest_card = 1536;
  /// Collective, blocking. Every rank's card in rank order, which stay until the next call. `what` is a string literal for dumps.
  /// Throws where a rank does not come in time, and when the transport fails; allocates nothing.
  template <class Card>
  std::span<const Card> share(const char* what, const Card& mine) {
    static_assert(std::is_trivially_copyable_v<Card> && sizeof(Card) <= largest_card && alignof(Card) <= 64);
    exchange(what, reinterpret_cast<const std::byte*>(&mine), sizeof(Card));
    return {reinterpret_cast<const Card*>(cards_.data()), static_cast<std::size_t>(transport->size())};
  }
  /// Collective, blocking. Calls attempt(), which is local, and throws on all ranks alike what it threw on the lowest rank where it
  /// did: the error of `thing`, "plan" say, called `name`, if it has one.
  template <class Attempt>
  void agree(const char* what, std::string_view thing, std::string_view name, Attempt&& attempt) {
    const Outcome mine = outcome_of(attempt);
    throw_first(thing, name, share(what, mine));
  }
  /// Throws what agree() throws, for outcomes that have been shared.
  void throw_first(std::string_view thing, std::string_view name, std::span<const Outcome> ranks) const;
  /// Collective, blocking. `text` becomes rank 0's.
  void broadcast(const char* what, std::string& text);

  /// Runs a control task, which body() makes, to its end. Collective when the task is. The memory of its messages must outlive a
  /// failure: what breaks off may still be written to.
  template <class Body>
  void run_blocking(const char* name, int tag, const Body& body) {
    run_body(name, tag, std::cref(body));  // which allocates nothing
  }
  /// See Communicator.
  void broadcast(std::byte* data, std::int64_t bytes, int root);
  void allgather(const std::byte* mine, std::int64_t bytes, std::byte* all, std::int64_t room);
  /// Collective when called first: what cost functions take this machine for. The same on every rank.
  const FoundMachine& agreed_machine();
  /// Calls make() for a caller, inside, who gets Errors only: where there is no memory even for an error's text, one made in time.
  template <class Make>
  auto guarded(Make&& make) const {
    const auto inside = enter();
    try {
      return make();
    } catch (const std::bad_alloc&) {
      throw_out_of_memory();
    }
  }
  /// Files about this communicator: traces, dumps and metrics, as the settings say. `rounds`: collective, how ranks come to one
  /// clock. A folder that cannot be written is a warning.
  void observe(const Identity& identity, bool rounds);
  /// Starts the progress thread, if the settings ask for one and there is a core for it. Where not, the log says why.
  void start_progress_thread();
  [[nodiscard]] bool has_progress_thread() const { return progress_ != nullptr; }
  /// See Communicator.
  void add_observer(std::shared_ptr<Observer> observer);
  void remove_observer(const std::shared_ptr<Observer>& observer);
  void tell_update(const UpdateInfo& update) const noexcept {
    for (Observer* const observer : engine.detail_observers()) observer->update(update);
  }
  /// Writes the flight recorder's dump. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  void dump(const std::string& path, std::string_view why);
  /// See Communicator::stragglers.
  [[nodiscard]] std::vector<double> stragglers(int runs);
  /// Throws Error where the transport's library has ended.
  void require_running() const;
  /// Throws Error where nothing can be made, or agreed on, any more.
  void require_whole() const;

  Settings settings;  ///< those that change who talks to whom are the same on every rank
  std::unique_ptr<Transport> transport;
  Engine engine;
  Topology topology;
  DevicePath device_path;  ///< agreed: the same on every rank
  Leases leases;
  const std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
  std::optional<FoundMachine> machine;
  std::shared_ptr<NcclGroups> nccl;  ///< once a plan has asked for it, see nccl/groups.hpp
  /// A plan hands GPU memory to the transport, or did: NCCL must not come beside it. The same on every rank.
  bool gpu_memory_goes_to_transport = false;
  /// Returns whether plans made now hand it to the transport: see cuda/nccl.hpp.
  [[nodiscard]] bool hands_over_gpu_memory() const { return device_path.direct && nccl == nullptr; }
  FlightRecorder recorder;
  std::unique_ptr<Tracer> tracer;  ///< null: not traced
  /// Threads of this rank for a plan that asks for `wanted`; 0: as the settings and the cores have it. More than it has cores are a
  /// warning, once.
  [[nodiscard]] Threads threads_for(int wanted);
  bool warned_of_messages = false;  ///< in place of shared memory: once is enough

 private:
  void exchange(const char* what, const std::byte* mine, std::int64_t bytes);
  void run_body(const char* name, int tag, const std::function<task<void>(Channel)>& body);
  /// What a rank gives to broadcast() or allgather().
  struct SmallCall {
    const char* what;
    std::int64_t bytes;
    int root;
    bool has_memory;
    std::int64_t parts = 1;  ///< that the result has
    std::int64_t room;       ///< for the result
    std::int64_t scratch;    ///< bytes of small_
  };
  void agree_on_small(const SmallCall& call);
  void drive_setup(Run& run);
  [[noreturn]] void throw_out_of_memory() const;

  Threads threads_;  // unless a plan says its own
  bool warned_of_threads_ = false;
  std::exception_ptr out_of_memory_;                  // made in time
  std::unique_ptr<Observer> metrics_;                 // null: none are kept
  std::vector<std::shared_ptr<Observer>> observers_;  // the user's
  FramePool setup_frames_;                            // nobody else's: there is always a frame for the next exchange
  std::int64_t setup_runs_ = 0;
  bool broken_ = false;  // a setup run broke off: messages of it may still be on their way
  Buffer<std::byte> mine_, cards_, scratch_;
  Buffer<std::byte> small_;                   // of broadcast() and allgather(), as long as they run
  std::unique_ptr<ProgressThread> progress_;  // it ends before what it polls; null: none
  std::optional<AtEnd> at_end_;               // last; none: the transport's library has no end of its own
};

/// Collective. Places default to this process's own (`locate`). A rank whose settings make no sense, or that is told to refuse, is
/// reported by all ranks.
[[nodiscard]] std::shared_ptr<CommunicatorState> make_communicator(std::unique_ptr<Transport> transport,
                                                                   std::optional<Location> location = {},
                                                                   std::optional<Settings> settings = {},
                                                                   const char* refusal = nullptr);

}  // namespace weir::detail
