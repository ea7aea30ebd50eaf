#include "communicator/communicator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/keep.hpp"
#include "base/log.hpp"
#include "collectives/control.hpp"
#include "cuda/runtime.hpp"
#include "kernels/read_ahead.hpp"
#include "model/calibrate.hpp"
#include "topology/gpus.hpp"

namespace weir {
namespace detail {
namespace {

/// What every rank sends to every other when a communicator is made.
struct Introduction {
  Outcome outcome;
  std::int32_t measure = 0;        ///< measure the machine now: WEIR_CALIBRATE; rank 0's counts
  std::int32_t shared_memory = 0;  ///< WEIR_SHARED_MEMORY
  std::int32_t traced = 0;         ///< WEIR_TRACE is set
  std::int32_t number = 0;         ///< of a communicator whose rank 0 this is: unique in the job
  std::uint64_t run = 0;           ///< random
  std::array<char, 40> job{};      ///< the scheduler's id
  std::int32_t direct = 0;         ///< DevicePath::direct
  std::array<char, 252> why{};     ///< DevicePath::why
  Location location;
};

/// Returns the id that SLURM, PBS or LSF has given the job, up to the first character that is not safe in a file name; empty
/// without a scheduler.
std::string job_name() {
  const auto environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string name = environment("SLURM_JOB_ID");
  if (const std::string array = environment("SLURM_ARRAY_JOB_ID"), task = environment("SLURM_ARRAY_TASK_ID");
      !array.empty() && !task.empty())
    name = array + "_" + task;
  if (name.empty()) name = environment("PBS_JOBID");
  if (name.empty()) name = environment("LSB_JOBID");
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return {name.begin(), std::find_if_not(name.begin(), name.end(), plain)};
}

/// A machine's figures as plain bytes.
struct FiguresCard {
  Outcome outcome;
  std::int32_t measure = 0;  ///< WEIR_CALIBRATE
  std::int32_t ranks = 0, nodes = 0;
  std::array<bool, level_count> has{};
  std::array<Link, level_count> links{};
  Rates rates;
  double mpi_allreduce_factor = 1;

  void set(const Machine& machine) {
    ranks = machine.provenance.ranks;
    nodes = machine.provenance.nodes;
    for (std::size_t level = 0; level < level_count; ++level) {
      has[level] = machine.links[level].has_value();
      links[level] = machine.links[level].value_or(Link{});
    }
    rates = machine.rates;
    mpi_allreduce_factor = machine.mpi_allreduce_factor;
  }
  void get(Machine& machine) const {
    machine.provenance.ranks = ranks;
    machine.provenance.nodes = nodes;
    for (std::size_t level = 0; level < level_count; ++level)
      machine.links[level] = has[level] ? std::optional(links[level]) : std::nullopt;
    machine.rates = rates;
    machine.mpi_allreduce_factor = mpi_allreduce_factor;
  }
};

/// What a machine has besides figures, in one text.
constexpr char end_of_text = '\0';
std::array<std::string*, 6> texts_of(FoundMachine& found) {
  Provenance& p = found.machine.provenance;
  return {&found.origin, &p.host, &p.date, &p.mpi, &p.weir, &p.command};
}
std::string join_texts(FoundMachine& found) {
  std::string all;
  for (const std::string* text : texts_of(found)) all += *text + end_of_text;
  return all;
}
void split_texts(std::string_view all, FoundMachine& found) {
  for (std::string* text : texts_of(found)) {
    const std::size_t end = all.find(end_of_text);
    *text = all.substr(0, end);
    all.remove_prefix(std::min(all.size(), end + 1));
  }
}

std::atomic<int> communicators_made{0};

constexpr double quick_seconds = 1.5;

task<void> gather_answers(Channel channel, const std::byte* mine, std::int64_t bytes, std::byte* all, std::byte* scratch) {
  const StageScope stage = channel.stage(Stage::gather_answers);
  co_await allgather_control(channel, mine, bytes, all, scratch);
}

task<void> await_cards(Channel channel, Completion& cards) {
  const StageScope stage = channel.stage(Stage::gather_answers);
  co_await channel.done(cards);
}

task<void> measure(Channel channel, Machine& machine) { machine = co_await calibrate(channel, quick_seconds, nullptr); }

}  // namespace

CommunicatorState::CommunicatorState(std::unique_ptr<Transport> transport_of_this_rank, Settings settings_in_force)
    : settings(std::move(settings_in_force)),
      transport(std::move(transport_of_this_rank)),
      engine(*transport, settings.timeout_seconds),
      topology(std::vector<Location>(static_cast<std::size_t>(transport->size())), transport->rank()),
      leases(transport->size()),
      out_of_memory_(
          std::make_exception_ptr(AgreedError(WEIR_ERR_MEMORY, fmt::format("rank {}: out of memory", transport->rank())))),
      mine_(largest_card),
      cards_(transport->size() * static_cast<std::int64_t>(largest_card)),
      scratch_(cards_.size()) {
  engine.add_observer(recorder);
  if (transport->library().announce_end() != End::messages) return;
  at_end_.emplace(End::messages, nullptr, [this](End end) {
    if (end != End::messages) return false;
    const auto inside = enter();
    return engine.drive_all_on();
  });
}

void CommunicatorState::require_whole() const {
  require_running();
  if (broken_)
    fail(WEIR_ERR_STATE,
         "rank {}: this communicator can make nothing any more: ranks broke off while they made something together. Make a new one",
         transport->rank());
}

void CommunicatorState::exchange(const char* what, const std::byte* mine, std::int64_t bytes) {
  const auto inside = enter();
  require_whole();
  std::memmove(mine_.data(), mine, static_cast<std::size_t>(bytes));
  const auto body = [&](Channel channel) { return gather_answers(channel, mine_.data(), bytes, cards_.data(), scratch_.data()); };
  run_body(what, setup_tag, setup_frames_, std::cref(body));
}

/// Takes memory for cards, if all ranks are on one node and have it. Collective.
void CommunicatorState::open_node_cards() {
  node_cards_opened_ = true;
  if (topology.node_count() > 1 || transport->size() == 1 || !settings.shared_memory) return;
  constexpr auto card = static_cast<std::int64_t>(largest_card);
  agree("making room for shared memory", "communicator", "", [&] { leases.prepare(transport->max_tag(), 0); });
  const SharedMemory memory = leases.take_memory(*this, NodeCards::memory_for(card));
  if (!memory) return;
  agree("making room for a wait", "communicator", "", [&] {
    Run run;
    TrafficCount traffic;
    NodeCards cards(memory, card, topology);
    cards.clear();
    const FramePool::Scope scope(setup_frames_);
    static_cast<void>(await_cards(Channel(engine, topology, run, traffic), cards));  // later waits take the same frame
  });
  node_cards_.emplace(memory, card, topology);
}

/// Returns where this rank writes its next card for exchange_in_place().
std::byte* CommunicatorState::next_card() {
  require_whole();
  if (!node_cards_opened_) open_node_cards();
  return node_cards_ ? node_cards_->mine() : mine_.data();
}

CommunicatorState::CardMemory CommunicatorState::exchange_in_place(const char* what, std::int64_t bytes) {
  if (transport->size() == 1) return {mine_.data(), bytes};
  if (!node_cards_) {
    exchange(what, mine_.data(), bytes);
    return {cards_.data(), bytes};
  }
  node_cards_->publish();
  if (node_cards_->reached_soon())
    ++setup_runs_;
  else
    run_body(what, setup_tag, setup_frames_, [this](Channel channel) { return await_cards(channel, *node_cards_); });
  return {node_cards_->first(), node_cards_->stride()};
}

void CommunicatorState::run_body(const char* name, int tag, FramePool& frames, const std::function<task<void>(Channel)>& body) {
  const auto inside = enter();
  require_whole();
  Run run;
  TrafficCount traffic;
  run.name = name;
  run.tag = tag;
  if (tag == setup_tag) run.number = setup_runs_++;
  try {
    const FramePool::Scope scope(frames);
    run.root = body(Channel(engine, topology, run, traffic));
  } catch (...) {
    engine.refuse(run, std::current_exception());
  }
  drive_setup(run);
}

/// Starts `run`, unless it was refused, and throws the error that it ends with.
void CommunicatorState::drive_setup(Run& run) {
  if (!run.error) engine.start(run);
  engine.drive(run);
  if (!run.error) return;
  if (run.broken) {
    broken_ = broken_ || run.tag == setup_tag;  // later agreements would match messages of this run
    keep_forever(shared_from_this());           // the network may still use what has been posted
  }
  std::rethrow_exception(run.error);
}

void CommunicatorState::require_running() const {
  const std::string why = transport->library().why_not_running();
  if (!why.empty()) fail(WEIR_ERR_STATE, "{}", why);
}

void CommunicatorState::throw_first(std::string_view thing, std::string_view name, std::span<const Outcome> ranks) const {
  const auto failed = std::find_if(ranks.begin(), ranks.end(), [](const Outcome& outcome) { return outcome.failed(); });
  if (failed == ranks.end()) return;
  try {
    const std::string whose = name.empty() ? fmt::format("{}: ", thing) : fmt::format("{} '{}': ", thing, name);
    if (failed->status == WEIR_ERR_MEMORY)
      fail_alike(WEIR_ERR_MEMORY, "{}rank {} has not enough memory for it: {}", whose, failed - ranks.begin(), failed->text.data());
    fail_alike(static_cast<weir_status>(failed->status), "{}rank {}: {}", whose, failed - ranks.begin(), failed->text.data());
  } catch (const std::bad_alloc&) {
    throw_out_of_memory();
  }
}

/// Agrees on a call that moves a few bytes, and allocates the memory for it. Throws the same error on all ranks.
void CommunicatorState::agree_on_small(const SmallCall& call) {
  require_whole();  // messages of a run that broke off may still be written to small_
  agree(call.what, call.what, "", [&] {
    require(call.bytes >= 0 && call.bytes <= Communicator::most_small_bytes,
            "there are {} bytes: it takes 0 to {}; larger arrays are for plans", call.bytes, Communicator::most_small_bytes);
    require(call.root >= 0 && call.root < transport->size(), "root is {}: it must be a rank, 0 to {}", call.root,
            transport->size() - 1);
    require(call.has_memory || call.bytes == 0, "the data is a null pointer");
    require(call.room == call.bytes * call.parts, "there is room for {} bytes: {} ranks give {} each", call.room, call.parts,
            call.bytes);
    if (small_.size() < call.scratch) small_ = Buffer<std::byte>(call.scratch);
  });
  struct Card {
    std::int64_t bytes, root;
  };
  const std::span<const Card> cards = share(call.what, Card{call.bytes, call.root});
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].bytes != cards[0].bytes)
      fail_alike(WEIR_ERR_ARGUMENT, "{}: rank 0 gives {} bytes, and rank {} gives {}: all ranks must give the same number",
                 call.what, cards[0].bytes, rank, cards[rank].bytes);
    if (cards[rank].root != cards[0].root)
      fail_alike(WEIR_ERR_ARGUMENT, "{}: root is {} on rank 0, and {} on rank {}: all ranks name the same", call.what,
                 cards[0].root, cards[rank].root, rank);
  }
}

void CommunicatorState::broadcast(std::byte* data, std::int64_t bytes, int root) {
  const auto inside = enter();
  agree_on_small(
      {.what = "broadcast", .bytes = bytes, .root = root, .has_memory = data != nullptr, .room = bytes, .scratch = bytes});
  if (bytes == 0) return;
  std::memcpy(small_.data(), data, static_cast<std::size_t>(bytes));
  run_blocking("broadcast", setup_tag, [&](Channel channel) { return broadcast_control(channel, small_.data(), bytes, root); });
  std::memcpy(data, small_.data(), static_cast<std::size_t>(bytes));
  small_ = {};
}

void CommunicatorState::allgather(const std::byte* mine, std::int64_t bytes, std::byte* all, std::int64_t room) {
  const auto inside = enter();
  const std::int64_t ranks = transport->size(), together = ranks * bytes;
  agree_on_small({.what = "allgather",
                  .bytes = bytes,
                  .root = 0,
                  .has_memory = mine != nullptr && all != nullptr,
                  .parts = ranks,
                  .room = room,
                  .scratch = 2 * together});
  if (bytes == 0) return;
  std::byte* const gathered = small_.data();
  run_blocking("allgather", setup_tag,
               [&](Channel channel) { return allgather_control(channel, mine, bytes, gathered, gathered + together); });
  std::memcpy(all, gathered, static_cast<std::size_t>(together));
  small_ = {};
}

void CommunicatorState::broadcast(const char* what, std::string& text) {
  struct Piece {
    std::uint64_t size = 0;  // of the whole text
    std::array<char, 1000> text{};
  };
  Piece mine{text.size(), {}};
  const std::uint64_t size = share(what, mine)[0].size;
  agree(what, what, "", [&] { text.resize(size); });
  for (std::uint64_t done = 0; done < size; done += mine.text.size()) {
    const std::uint64_t length = std::min<std::uint64_t>(mine.text.size(), size - done);
    text.copy(mine.text.data(), length, done);
    const std::span<const Piece> pieces = share(what, mine);
    std::copy_n(pieces[0].text.data(), length, text.data() + done);
  }
}

const FoundMachine& CommunicatorState::agreed_machine() {
  if (machine) return *machine;
  // Only rank 0 reads: other nodes need not have the machine file.
  FoundMachine found;
  std::string texts;
  FiguresCard mine;
  mine.outcome = outcome_of([&] {
    mine.measure = settings.calibrate ? 1 : 0;
    if (transport->rank() != 0 || settings.calibrate) return;
    found = find_machine(settings);
    mine.set(found.machine);
    texts = join_texts(found);
  });
  const FiguresCard first = share("looking for a machine file", mine)[0];
  throw_first("looking for a machine file", "", share("looking for a machine file", mine.outcome));
  if (first.measure != 0) {
    run_blocking("measuring the machine", setup_tag, [&](Channel channel) { return measure(channel, found.machine); });
    agree("measuring the machine", "measuring the machine", "", [&] { found.origin = "measured"; });
  } else {
    broadcast("telling a machine's origin", texts);
    agree("telling a machine's figures", "telling a machine's figures", "", [&] {
      first.get(found.machine);
      split_texts(texts, found);
      if (found.origin == builtin_origin) found.machine = with_shared_cores(found.machine, ranks_per_core(topology));
    });
  }
  static_assert(std::is_nothrow_move_constructible_v<FoundMachine>);
  machine = std::move(found);  // once all ranks have it
  return *machine;
}

void CommunicatorState::start_progress_thread() {
  if (settings.progress_thread == ProgressThreadSetting::off) return;
  const int rank = transport->rank();
  try {
    FreeCore place;
    if (settings.progress_thread == ProgressThreadSetting::on) {
      place = free_core(topology, rank);
      if (place.core < 0) {
        log(settings.log, place.first ? LogLevel::warn : LogLevel::debug,
            "rank {}: WEIR_PROGRESS_THREAD is on, but {}; not started. Give each rank two cores, or set it to anywhere", rank,
            place.why);
        return;
      }
    }
    progress_ = std::make_unique<ProgressThread>(engine, place.core, transport->library().announce_end());
    log(settings.log, LogLevel::info, "rank {}: a progress thread runs {}", rank,
        place.core < 0 ? "on any core" : fmt::format("on core {}", place.core));
  } catch (const std::exception& error) {
    log(settings.log, LogLevel::warn, "rank {}: no progress thread: {}", rank, error.what());
  }
}

Threads CommunicatorState::threads_for(int wanted) {
  const int rank = transport->rank();
  const int asked_for = wanted > 0 ? wanted : settings.threads;
  const int cores = topology.location(rank).cores.count();
  if (cores > 0 && asked_for > cores && !std::exchange(warned_of_threads_, true))
    log(settings.log, LogLevel::warn, "rank {}: {} threads are asked for, and it may use {} core{}: they take turns", rank,
        asked_for, cores, cores == 1 ? "" : "s");
  const int count = asked_for > 0 ? asked_for : own_cores(topology, rank, settings.progress_thread != ProgressThreadSetting::off);
  if (threads_.count() == count) return threads_;
  // If the rank has its cores to itself, and no progress thread is on one of them, each worker gets its own core.
  const bool alone = settings.progress_thread == ProgressThreadSetting::off && cores > 1 && count <= cores &&
                     own_cores(topology, rank, false) == cores;
  const Threads threads(count, alone ? processors_by_core() : std::vector<std::vector<int>>());
  if (wanted == 0) threads_ = threads;
  return threads;
}

void CommunicatorState::throw_out_of_memory() const { std::rethrow_exception(out_of_memory_); }

namespace {

/// Warns once in a process.
void warn_of_misspelt_settings(const Settings& settings) {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) return;
  for (const std::string& text : misspelt_settings()) log(settings.log, LogLevel::warn, "{}", text);
}

}  // namespace

std::shared_ptr<CommunicatorState> make_communicator(std::unique_ptr<Transport> transport, std::optional<Location> location,
                                                     std::optional<Settings> settings, const char* refusal) {
  Introduction mine;
  Settings in_force;
  mine.outcome = outcome_of([&] {
    if (refusal != nullptr) fail(WEIR_ERR_ARGUMENT, "{}", refusal);
    in_force = settings ? *settings : read_settings();
    const std::string one_thread = transport->library().why_one_thread();
    if (in_force.progress_thread != ProgressThreadSetting::off && !one_thread.empty())
      fail(WEIR_ERR_SETTING, "WEIR_PROGRESS_THREAD asks for a thread beside the program's own, but {}; or unset it", one_thread);
    mine.location = location ? *location : locate();
    mine.measure = in_force.calibrate ? 1 : 0;
    mine.shared_memory = in_force.shared_memory ? 1 : 0;
    mine.traced = in_force.trace.empty() ? 0 : 1;
    mine.number = communicators_made++ * transport->job_size() + transport->job_rank();
    job_name().copy(mine.job.data(), mine.job.size() - 1);
    mine.run = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
    const DevicePath path = transport->device_path(in_force.gpu_pointers);
    mine.direct = path.direct ? 1 : 0;
    path.why.copy(mine.why.data(), mine.why.size() - 1);
  });
  auto state = std::make_shared<CommunicatorState>(std::move(transport), in_force);
  const std::span<const Introduction> all = state->share("making a communicator", mine);
  const auto refused = std::find_if(all.begin(), all.end(), [](const Introduction& i) { return i.outcome.failed(); });
  if (refused != all.end()) {
    const AgreedError error(static_cast<weir_status>(refused->outcome.status),
                            fmt::format("rank {}: {}", refused - all.begin(), refused->outcome.text.data()));
    state.reset();  // before the throw, because the transport frees MPI's objects only if no exception unwinds
    throw error;
  }
  if (!settings && state->transport->rank() == 0) warn_of_misspelt_settings(in_force);
  if (in_force.read_ahead != ReadAheadSetting::automatic)
    kernels::host::set_read_ahead(in_force.read_ahead == ReadAheadSetting::on);
  const bool measure_now = all[0].measure != 0;
  state->settings.shared_memory = std::all_of(all.begin(), all.end(), [](const Introduction& i) { return i.shared_memory != 0; });
  std::vector<Location> locations;
  std::vector<DevicePath> paths;
  for (const Introduction& rank : all) {
    locations.push_back(rank.location);
    paths.push_back({rank.direct != 0, rank.why.data()});
  }
  state->topology = Topology(std::move(locations), state->transport->rank());
  state->transport->set_nodes(state->topology.nodes());
  state->device_path = agreed_device_path(paths);
  const bool traced = std::any_of(all.begin(), all.end(), [](const Introduction& i) { return i.traced != 0; });
  const Location& here = state->topology.location(state->topology.rank());
  state->observe({all[0].run, all[0].number, state->topology.rank(), state->topology.size(), std::string(stored_name(here.host)),
                  all[0].job.data()},
                 traced);
  if (measure_now) state->agreed_machine();
  state->start_progress_thread();
  return state;
}

}  // namespace detail

int Communicator::rank() const { return state_->topology.rank(); }
int Communicator::size() const { return state_->topology.size(); }
std::string Communicator::topology() const { return state_->topology.tree(); }
int Communicator::nearest_gpu() const {
  detail::CommunicatorState& comm = *state_;
  const auto inside = comm.enter();
  SeenGpus mine;
  mine.numa = comm.topology.location(rank()).numa;
  if (cuda::why_unusable().empty()) mine.count = std::min(cuda::device_count(), SeenGpus::most);
  for (int gpu = 0; gpu < mine.count; ++gpu) {
    SeenGpu& seen = mine.gpus[static_cast<std::size_t>(gpu)];
    const std::string bus_id = cuda::describe(gpu).bus_id;
    bus_id.copy(seen.bus_id.data(), seen.bus_id.size() - 1);
    seen.numa = numa_of_pci_device(bus_id.c_str());
  }
  const std::span<const SeenGpus> all = comm.share("looking for GPUs", mine);
  std::vector<SeenGpus> node;
  for (const int peer : comm.topology.node_peers()) node.push_back(all[static_cast<std::size_t>(peer)]);
  return assign_gpus(node)[static_cast<std::size_t>(comm.topology.local_rank(rank()))];
}
void Communicator::broadcast(std::span<std::byte> data, int root) const { broadcast_raw(data.data(), std::ssize(data), root); }
void Communicator::broadcast_raw(void* data, std::int64_t bytes, int root) const {
  state_->guarded([&] { state_->broadcast(static_cast<std::byte*>(data), bytes, root); });
}
void Communicator::allgather(std::span<const std::byte> mine, std::span<std::byte> all) const {
  state_->guarded([&] { state_->allgather(mine.data(), std::ssize(mine), all.data(), std::ssize(all)); });
}
void Communicator::allgather_raw(const void* mine, std::int64_t bytes, void* all) const {
  state_->guarded(
      [&] { state_->allgather(static_cast<const std::byte*>(mine), bytes, static_cast<std::byte*>(all), bytes * size()); });
}
Level Communicator::level(int peer) const {
  require(peer >= 0 && peer < size(), "rank {} does not exist: the communicator has ranks 0 to {}", peer, size() - 1);
  return state_->topology.level(rank(), peer);
}
std::vector<int> Communicator::group(Level level) const {
  require(level >= Level::self && level <= Level::system, "level is {}: it must be {}", static_cast<int>(level),
          choices_of<Level>());
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer) {
    if (state_->topology.level(rank(), peer) <= level) ranks.push_back(peer);
  }
  return ranks;
}

}  // namespace weir
