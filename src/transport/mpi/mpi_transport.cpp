#include "transport/mpi/mpi_transport.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/at_end.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/forks.hpp"
#include "base/give_way.hpp"
#include "base/keep.hpp"
#include "base/lost_rank.hpp"
#include "transport/mpi/cuda_support.hpp"
#include "transport/mpi/mpi_library.hpp"
#include "transport/registry.hpp"

namespace weir {
namespace {

// Large messages travel in pieces, a few of them in flight: an urgent message started later waits for these pieces, not for the
// whole large message.
constexpr std::int64_t message_piece = std::int64_t{1} << 20;
static_assert(Transport::longest_open_message <= message_piece, "what has no agreed size is one piece");
// Over TCP, Open MPI asks the receiver before it sends longer messages. Between ranks that send to each other, the answer waits
// behind the data that goes the same way, and meanwhile nothing goes the other way.
constexpr std::int64_t message_piece_over_tcp = std::int64_t{60} << 10;
// MPI counts are ints. This size also avoids the corner cases of implementations at 2 GiB.
constexpr std::int64_t allreduce_piece = std::int64_t{1} << 30;
constexpr std::int64_t fewest_in_flight = 4, most_in_flight = 16, in_flight_over_tcp = 64;
// A piece that is sent at once may arrive before its receive is posted. MPI keeps it in its own memory until then. To bound that,
// one piece in so many waits for its receiver.
constexpr std::int64_t pieces_to_waiting_one = in_flight_over_tcp / 2;

void check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(WEIR_ERR_TRANSPORT, "{} failed: {}", what, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

/// True from when Weir listens for MPI_Finalize until that begins: asking MPI is a good part of what a small run takes.
std::atomic<bool> known_to_run = false;

bool mpi_is_running() {
  if (forked()) return false;  // MPI, and messages under way, belong to the parent
  if (known_to_run.load(std::memory_order_acquire)) return true;
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

/// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, while all of MPI still works.
int on_finalize(MPI_Comm /*self*/, int /*key*/, void* /*value*/, void* /*state*/) {
  known_to_run = false;
  before_end(End::messages);
  return MPI_SUCCESS;
}
void announce_finalize() {
  static std::once_flag once;
  std::call_once(once, [] {
    int key = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr), "MPI_Comm_create_keyval");
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
    MPI_Comm_free_keyval(&key);  // takes effect once the attribute is gone
    known_to_run = true;
  });
}

/// What all ranks make together.
struct Making {
  MPI_Comm copy = MPI_COMM_NULL;
  std::array<int, 2> told{};  // by rank 0
  char sent = 0;
  std::vector<char> received{};
  std::vector<MPI_Request> requests{MPI_REQUEST_NULL};

  bool done() {
    int all = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    return all != 0;
  }
};

/// What not all ranks have joined in time: MPI may still write to it. Never destroyed.
struct Unfinished {
  std::mutex mutex;
  std::vector<std::shared_ptr<Making>> list;
};
Unfinished& unfinished() {
  static Unfinished& only = *new Unfinished;
  return only;
}

/// Waits until all ranks have joined. Throws Error(WEIR_ERR_TIMEOUT) if one does not in time.
void finish(std::shared_ptr<Making> making, MPI_Comm comm, double timeout_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    if (making->done()) return;
    if (lost_rank() != nullptr || std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > timeout_seconds)
      break;
    give_way();
  }
  {
    const std::lock_guard lock(unfinished().mutex);
    unfinished().list.push_back(std::move(making));
  }
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (const char* const lost = lost_rank()) fail(WEIR_ERR_TRANSPORT, "rank {} cannot make a communicator, because {}", rank, lost);
  fail(WEIR_ERR_TIMEOUT, "rank {} waited {:.1f} s to make a communicator: not all ranks of the MPI communicator make one", rank,
       timeout_seconds);
}

/// Returns a copy of `comm`.
MPI_Comm copy_of(MPI_Comm comm, [[maybe_unused]] double timeout_seconds) {
#ifdef SMPI_H  // SimGrid has no MPI_Comm_idup, and no ranks that stay away
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
#else
  const auto making = std::make_shared<Making>();
  check(MPI_Comm_idup(comm, &making->copy, making->requests.data()), "MPI_Comm_idup");
  finish(making, comm, timeout_seconds);
  MPI_Comm copy = making->copy;
#endif
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

/// How messages travel, alike on all ranks.
struct Travel {
  int connections = 1;
  bool short_pieces = false;  ///< between nodes
};

/// Returns what rank 0 gives.
Travel of_rank_0(const Travel& mine, MPI_Comm comm, double timeout_seconds) {
#ifdef SMPI_H  // one connection is as fast as several, and none takes simulated time
  return {};
#endif
  const auto making = std::make_shared<Making>();
  making->told = {mine.connections, mine.short_pieces ? 1 : 0};
  check(MPI_Ibcast(making->told.data(), 2, MPI_INT, 0, comm, making->requests.data()), "MPI_Ibcast");
  finish(making, comm, timeout_seconds);
  return {making->told[0], making->told[1] != 0};
}

/// Sends a byte from every rank to every other. MPICH opens a connection in the first MPI_Isend, which then waits for the peer. If
/// that peer is in an MPI_Isend over another communicator, and so on around a circle of ranks, all wait for ever.
void open_connections(MPI_Comm path, int rank, int size, double timeout_seconds) {
  const auto making = std::make_shared<Making>();
  making->received.resize(static_cast<std::size_t>(size));
  making->requests.assign(2 * static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  MPI_Request* request = making->requests.data();
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    char& byte = making->received[static_cast<std::size_t>(peer)];
    check(MPI_Irecv(&byte, 1, MPI_BYTE, peer, setup_tag, path, request++), "MPI_Irecv");
  }
  for (int i = 1; i < size; ++i)
    check(MPI_Isend(&making->sent, 1, MPI_BYTE, (rank + i) % size, setup_tag, path, request++), "MPI_Isend");
  finish(making, path, timeout_seconds);
}

/// Returns `first` and duplicates of it, as many communicators as there are to be connections.
std::vector<MPI_Comm> paths_over(MPI_Comm first, int connections, double timeout_seconds) {
  int rank = 0, size = 0;
  MPI_Comm_rank(first, &rank);
  MPI_Comm_size(first, &size);
  std::vector<MPI_Comm> paths = {first};
  while (std::ssize(paths) < connections) paths.push_back(copy_of(first, timeout_seconds));
  for (std::size_t i = 0; paths.size() > 1 && i < paths.size(); ++i) open_connections(paths[i], rank, size, timeout_seconds);
  return paths;
}

class MpiTransport final : public Transport, private SharedSegments, private NativeAllreduce, private LibraryLife {
 public:
  /// `paths`: communicators of the same ranks, which the pieces of a message take in turn. MPICH gives each connections of its own.
  MpiTransport(std::vector<MPI_Comm> paths, bool short_pieces, int rank, int size)
      : Transport(rank, size), comm_(paths.front()), paths_(std::move(paths)), short_pieces_(short_pieces) {
    in_flight_ = std::clamp<std::int64_t>(2 * std::ssize(paths_), fewest_in_flight, most_in_flight);
    watch_forks();
    int found = 0;
    int* upper_bound = nullptr;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &upper_bound, &found);
    notice_tag_ = found ? *upper_bound : 32767;
    outbox_ = std::make_shared<Outbox>(size);
  }

  [[nodiscard]] int job_rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  [[nodiscard]] int job_size() const override {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }

  ~MpiTransport() override {
    // After MPI_Finalize nothing may be called. After abandoned messages MPI_Comm_free may wait for peers that are gone; while an
    // exception unwinds, for peers that do not know of it.
    if (!mpi_is_running() || abandoned_ || std::uncaught_exceptions() > exceptions_) return;
    for (MPI_Comm& lane : lanes_) MPI_Comm_free(&lane);
    for (MPI_Comm& path : paths_) MPI_Comm_free(&path);
  }

  [[nodiscard]] std::string name() const override { return fmt::format("mpi ({})", mpi_library_name(mpi_library_version())); }
  [[nodiscard]] SharedSegments* shared_segments() noexcept override { return this; }
  [[nodiscard]] NativeAllreduce* native_allreduce() noexcept override { return this; }
  [[nodiscard]] LibraryLife& library() noexcept override { return *this; }
  [[nodiscard]] DevicePath device_path(GpuPointers setting) const override {
    const std::string library = mpi_library_version();
    return choose_device_path(mpi_library_name(library), ask_cuda_support(library), setting);
  }
  // The tags above meeting_tag() are for making subgroups.
  [[nodiscard]] int max_tag() const override { return notice_tag_ / 2; }
  [[nodiscard]] std::unique_ptr<Transport> subgroup(std::span<const int> ranks) override {
    Fingerprint list;
    for (const int member : ranks) list.add(static_cast<std::uint64_t>(member));
    const auto tags = static_cast<std::uint64_t>(notice_tag_ - 1 - meeting_tag());
    const int tag = meeting_tag() + 1 + static_cast<int>(list.value() % tags);
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    if (code == MPI_SUCCESS) code = MPI_Comm_create_group(comm_, some, tag, &made);
    if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
    MPI_Group_free(&all);
    check(code, "MPI_Comm_create_group");
    return over(paths_over(made, static_cast<int>(paths_.size()), std::numeric_limits<double>::infinity()), short_pieces_);
  }
  void set_nodes(std::span<const int> node_of_rank) override { node_of_.assign(node_of_rank.begin(), node_of_rank.end()); }
  /// Makes the transport over `paths`, which it owns from now on.
  static std::unique_ptr<Transport> over(std::vector<MPI_Comm> paths, bool short_pieces) {
    for (const MPI_Comm path : paths) MPI_Comm_set_errhandler(path, MPI_ERRORS_RETURN);
    int rank = 0, size = 0;
    MPI_Comm_rank(paths.front(), &rank);
    MPI_Comm_size(paths.front(), &size);
    return std::make_unique<MpiTransport>(std::move(paths), short_pieces, rank, size);
  }
  void push(int tag) override {
    for (std::size_t i = 0; i < backlog_.size();) {
      const int index = backlog_[i];
      if (slot(index).tag == tag) advance(index);
      if (i < backlog_.size() && backlog_[i] == index) ++i;  // otherwise another message is at this index now
    }
  }
  void notify(const Notice& notice) noexcept override {
    if (!outbox_ || !mpi_is_running()) return;
    abandoned_ = true;
    outbox_->notice = notice;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank())
        MPI_Isend(&outbox_->notice, sizeof(Notice), MPI_BYTE, peer, notice_tag_, comm_,
                  &outbox_->requests[static_cast<std::size_t>(peer)]);
    }
    keep_forever(std::move(outbox_));  // MPI still reads it
    try {
      outbox_ = std::make_shared<Outbox>(size());
    } catch (const std::bad_alloc&) {  // this rank can send no more notices
    }
  }
  [[nodiscard]] bool receive_notice(Notice& notice) override {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, notice_tag_, comm_, &there, &status), "MPI_Iprobe");
    if (!there) return false;
    check(MPI_Recv(&notice, sizeof(Notice), MPI_BYTE, status.MPI_SOURCE, notice_tag_, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    return true;
  }

 private:
  /// A notice that is being sent.
  struct Outbox {
    explicit Outbox(int ranks) : requests(static_cast<std::size_t>(ranks), MPI_REQUEST_NULL) {}
    Notice notice;
    std::vector<MPI_Request> requests;
  };
  /// The progress of a slot's message. Its pieces are posted and finish in order.
  struct Message {
    char* data = nullptr;
    int lane = 0;     // of an allreduce
    DataType type{};  // of an allreduce
    std::int64_t piece_bytes = 1, in_flight = 1;
    std::int64_t pieces = 0, posted = 0, done = 0;
    std::array<MPI_Request, in_flight_over_tcp> requests{};
  };

  [[nodiscard]] std::string why_not_running() const override {
    if (mpi_is_running()) return {};
    return "MPI is not running: Weir was called after MPI_Finalize, or in a child of fork(). "
           "Destroy plans, tables and communicators before MPI_Finalize";
  }
  [[nodiscard]] std::string why_one_thread() const override {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_MULTIPLE) return {};
    const std::string_view name = level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
                                  : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                                 : "MPI_THREAD_SERIALIZED";
    return fmt::format("MPI was started with {}: call MPI_Init_thread with MPI_THREAD_MULTIPLE in place of MPI_Init", name);
  }
  End announce_end() override {
#ifdef SMPI_H  // in SimGrid, a rank that has called MPI_Finalize does not make others wait
    return End::process;
#endif
    announce_finalize();
    return End::messages;
  }
  [[nodiscard]] std::int64_t room() const override { return posix_segment_room(); }
  [[nodiscard]] std::unique_ptr<SharedSegment> make_segment(std::int64_t bytes, SegmentName& name) override {
    return make_posix_segment(bytes, name);
  }
  [[nodiscard]] std::unique_ptr<SharedSegment> open_segment(std::string_view name, std::int64_t bytes) override {
    return open_posix_segment(name, bytes);
  }
  int open_lane() override {
    MPI_Comm lane = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm_, &lane), "MPI_Comm_dup");
    lanes_.push_back(lane);
    return static_cast<int>(lanes_.size()) - 1;
  }
  void post_send(int index, const void* data) override { begin(index, const_cast<void*>(data), piece_of(slot(index))); }
  void post_receive(int index, void* data) override { begin(index, data, piece_of(slot(index))); }
  void post_allreduce(int index, void* data, DataType type, int lane) override {
    message(index).lane = lane;
    message(index).type = type;
    begin(index, data, allreduce_piece);
  }

  [[nodiscard]] std::int64_t piece_of(const Slot& s) const {
    const bool far = !node_of_.empty() && node_of_[static_cast<std::size_t>(s.peer)] != node_of_[static_cast<std::size_t>(rank())];
    return short_pieces_ && far && !s.open ? message_piece_over_tcp : message_piece;
  }

  void begin(int index, void* data, std::int64_t piece_bytes) {
    if (!mpi_is_running()) fail(WEIR_ERR_STATE, "{}", why_not_running());
    Message& m = message(index);
    m.data = static_cast<char*>(data);
    m.piece_bytes = piece_bytes;
    m.in_flight = piece_bytes < message_piece ? in_flight_over_tcp : in_flight_;
    m.pieces = std::max<std::int64_t>(1, (slot(index).bytes + piece_bytes - 1) / piece_bytes);
    m.posted = m.done = 0;
    const bool first = first_in_backlog(index) < 0;
    backlog_.push_back(index);
    if (first) post_more(index);
  }

  /// Posts the pieces that may be in flight. MPI matches in the order of posting, so a message starts only when all pieces of
  /// earlier messages with the same peer and tag have been posted.
  void post_more(int index) {
    while (index >= 0) {
      Message& m = message(index);
      while (m.posted < m.pieces && m.posted - m.done < m.in_flight) post_piece(index, m);
      if (m.posted < m.pieces) return;
      std::erase(backlog_, index);
      index = first_in_backlog(index);
    }
  }

  void post_piece(int index, Message& m) {
    const Slot& s = slot(index);
    char* const data = m.data + m.posted * m.piece_bytes;
    const int bytes = static_cast<int>(std::min(m.piece_bytes, s.bytes - m.posted * m.piece_bytes));
    MPI_Request* const request = &m.requests[static_cast<std::size_t>(m.posted % in_flight_over_tcp)];
    const MPI_Comm path = paths_[static_cast<std::size_t>(m.posted) % paths_.size()];
    if (s.kind == Kind::send && m.piece_bytes < message_piece && (m.posted + 1) % pieces_to_waiting_one == 0) {
      check(MPI_Issend(data, bytes, MPI_BYTE, s.peer, s.tag, path, request), "MPI_Issend");
    } else if (s.kind == Kind::send) {
      check(MPI_Isend(data, bytes, MPI_BYTE, s.peer, s.tag, path, request), "MPI_Isend");
    } else if (s.kind == Kind::receive) {
      check(MPI_Irecv(data, bytes, MPI_BYTE, s.peer, s.tag, path, request), "MPI_Irecv");
    } else {
      const bool single = m.type == DataType::float32;
      check(MPI_Iallreduce(MPI_IN_PLACE, data, bytes / (single ? 4 : 8), single ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM,
                           lanes_[static_cast<std::size_t>(m.lane)], request),
            "MPI_Iallreduce");
    }
    ++m.posted;
  }

  /// Returns the earliest message with unposted pieces among those of the same kind, peer and tag as `index`; -1 if there are no
  /// such messages.
  [[nodiscard]] int first_in_backlog(int index) const {
    const Slot& s = slot(index);
    for (const int other : backlog_) {
      const Slot& o = slot(other);
      if (o.kind == s.kind && o.peer == s.peer && o.tag == s.tag) return other;
    }
    return -1;
  }

  bool test_slot(int index) override {
    if (message(index).posted == 0) {
      advance(first_in_backlog(index));
      if (message(index).posted == 0) return false;
    }
    advance(index);
    return message(index).done == message(index).pieces;
  }

  void advance(int index) {
    Message& m = message(index);
    while (m.done < m.posted) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&m.requests[static_cast<std::size_t>(m.done % in_flight_over_tcp)], &done, &status), "MPI_Test");
      if (!done) return;
      const Slot& s = slot(index);
      if (s.kind == Kind::receive) check_size(status, std::min(m.piece_bytes, s.bytes - m.done * m.piece_bytes), s);
      ++m.done;
      piece_done();
      if (m.posted < m.pieces) post_more(index);
    }
  }

  static void check_size(const MPI_Status& status, std::int64_t expected, const Slot& s) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != expected && !s.takes(bytes))
      fail(WEIR_ERR_TRANSPORT, "rank {} sent {} bytes under tag {} where {} were agreed", s.peer, bytes, s.tag, expected);
  }

  void abandon_slot(int index) noexcept override {
    abandoned_ = true;
    std::erase(backlog_, index);
    if (!mpi_is_running()) return;
    if (slot(index).kind == Kind::allreduce) return;  // MPI can neither cancel nor free these
    Message& m = message(index);
    for (std::int64_t piece = m.done; piece < m.posted; ++piece) {
      MPI_Request& request = m.requests[static_cast<std::size_t>(piece % in_flight_over_tcp)];
      if (request == MPI_REQUEST_NULL) continue;
      if (slot(index).kind == Kind::receive) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  void grow(int slots) override {
    messages_.resize(static_cast<std::size_t>(slots));
    backlog_.reserve(static_cast<std::size_t>(slots));
  }

  [[nodiscard]] Message& message(int index) { return messages_[static_cast<std::size_t>(index)]; }

  MPI_Comm comm_;
  std::vector<MPI_Comm> paths_;                // comm_, and its duplicates if there are to be several connections
  bool short_pieces_;                          // between nodes
  std::vector<int> node_of_;                   // by rank; empty as long as nodes are unknown
  std::int64_t in_flight_ = fewest_in_flight;  // pieces of a message, unless they are short
  int notice_tag_ = 0;                         // larger than all tags of messages
  bool abandoned_ = false;
  int exceptions_ = std::uncaught_exceptions();  // the number when this was constructed
  std::vector<MPI_Comm> lanes_;
  std::shared_ptr<Outbox> outbox_;  // of the next notice, allocated beforehand
  std::deque<Message> messages_;    // by slot; a deque, so that growing does not move them
  std::vector<int> backlog_;        // slots whose message has unposted pieces, in order of starting
};

}  // namespace

bool detail::all_copies_made() {
  const std::lock_guard lock(unfinished().mutex);
  std::erase_if(unfinished().list, [](const std::shared_ptr<Making>& making) {
    int done = 0;
    MPI_Testall(static_cast<int>(making->requests.size()), making->requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done == 0) return false;
    if (making->copy != MPI_COMM_NULL) MPI_Comm_free(&making->copy);
    return true;
  });
  return unfinished().list.empty();
}

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, double timeout_seconds, int connections) {
  check_mpi_library();
  int finalized = 0;
  MPI_Finalized(&finalized);
  require(finalized == 0, "MPI_Finalize has been called: make communicators before it, for MPI cannot be started again");
  require(mpi_is_running(), "MPI is not running: call MPI_Init or weir_init before making a communicator");
  require(comm != MPI_COMM_NULL, "the MPI communicator is MPI_COMM_NULL: only ranks that are in it may make a Weir communicator");
  int inter = 0;
  MPI_Comm_test_inter(comm, &inter);
  require(!inter, "the MPI communicator is an intercommunicator: give an intracommunicator");
  if (comm != MPI_COMM_SELF) refuse_other_launcher();
  const MPI_Comm copy = copy_of(comm, timeout_seconds);
  int size = 0;
  MPI_Comm_size(copy, &size);
  Travel travel;
  if (size > 1) travel = of_rank_0({connections, sends_at_once_over_tcp(message_piece_over_tcp)}, copy, timeout_seconds);
  return MpiTransport::over(paths_over(copy, travel.connections, timeout_seconds), travel.short_pieces);
}

const TransportRow transport_mpi{.name = "mpi",
                                 .description = "messages of MPI, between processes",
                                 .shared_segments = true,
                                 .native_allreduce = true,
                                 .gpu_memory = true};

}  // namespace weir
