#include "bootstrap/pmi.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "base/blocked_signals.hpp"
#include "base/error.hpp"
#include "base/lost_rank.hpp"
#include "base/standard_error.hpp"

namespace weir::bootstrap {
namespace {

// Limits that MPICH's own process manager gives. Its mapping of ranks to nodes must fit, too.
constexpr std::size_t longest_value = 1024;

/// Returns the value of `key` in a line of words key=value. A value named "value" reaches to the end of the line.
std::string_view field(std::string_view line, std::string_view key) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t equals = line.find('=', at);
    if (equals == std::string_view::npos) break;
    const bool to_the_end = line.substr(at, equals - at) == "value";
    const std::size_t end = to_the_end ? line.size() : std::min(line.find(' ', equals), line.size());
    if (line.substr(at, equals - at) == key) return line.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return "";
}

/// Splits "WORD REST".
std::pair<std::string_view, std::string_view> split(std::string_view line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  return {line.substr(0, end), line.substr(std::min(end + 1, line.size()))};
}

int number_in(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Ends the process from this thread. The others may be anywhere, so that nothing but the output is brought to an end.
[[noreturn]] void exit_now(int code) noexcept {
  if (ftrylockfile(stdout) == 0) fflush_unlocked(stdout);
  std::_Exit(code);
}

}  // namespace

Relay::Relay(Descriptor server, Lines lines, std::string name, std::string mapping, std::string root, int rank, int size)
    : server_(std::move(server)),
      from_server_(std::move(lines)),
      name_(std::move(name)),
      root_(std::move(root)),
      rank_(rank),
      size_(size) {
  // Without a mapping, MPICH compares host names.
  if (mapping.size() <= longest_value) keys_["PMI_process_mapping"] = std::move(mapping);
  auto [theirs, ours] = connected_pair();
  here_ = std::move(ours);
  std::tie(wake_read_, wake_write_) = connected_pair();
  const BlockedSignals blocked;  // the program's own threads handle signals
  thread_ = std::thread([this] { loop(); });
  mpi_end_ = theirs.release();
}

Relay::~Relay() {
  send_all(*wake_write_, "q");
  thread_.join();
}

void Relay::note_start() noexcept {
  starting_ = false;
  send_all(*wake_write_, "s");
}

void Relay::drain() noexcept {
  const long before = drained_;
  if (!send_all(*wake_write_, "d")) return;
  for (int i = 0; i < 200 && drained_ == before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Relay::close_in_child() noexcept {
  for (const Descriptor* one : {&server_, &here_, &wake_read_, &wake_write_}) close(**one);
  if (!finalised_) close(mpi_end_);  // MPI_Finalize has closed it; it may be another file by now
}

void Relay::loop() {
  bool mpi_open = true, server_open = true;
  while (true) {
    // What had arrived with the line "go" comes first.
    while (const std::optional<std::string_view> line = from_server_.next()) hear(*line);
    std::array<pollfd, 3> ends = {pollfd{*wake_read_, POLLIN, 0}, pollfd{mpi_open ? *here_ : -1, POLLIN, 0},
                                  pollfd{server_open ? *server_ : -1, POLLIN, 0}};
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    if (ends[1].revents != 0 || ends[0].revents != 0) {
      mpi_open = mpi_open && from_mpi_.receive(*here_);
      while (const std::optional<std::string_view> line = from_mpi_.next()) answer(*line);
    }
    if (ends[2].revents != 0) {
      server_open = from_server_.receive(*server_);
      while (const std::optional<std::string_view> line = from_server_.next()) hear(*line);
      if (!server_open && !finalised_) lose(fmt::format("{} has ended without finalising MPI, or the connection to it has", root_));
    }
    if (ends[0].revents != 0) {
      char order = 'q';
      if (read(*wake_read_, &order, 1) != 1 || order == 'q') return;
      if (order == 's')
        send_all(*server_, "started\n");
      else
        ++drained_;
    }
  }
}

/// Answers a line of MPI's.
void Relay::answer(std::string_view line) {
  const std::string_view command = field(line, "cmd");
  if (command == "init") {
    reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  } else if (command == "get_maxes") {
    reply(fmt::format("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={}\n", longest_value));
  } else if (command == "get_appnum") {
    reply("cmd=appnum appnum=0\n");
  } else if (command == "get_universe_size") {
    reply(fmt::format("cmd=universe_size size={}\n", size_));
  } else if (command == "get_my_kvsname") {
    reply(fmt::format("cmd=my_kvsname kvsname={}\n", name_));
  } else if (command == "put") {
    send_all(*server_, fmt::format("put {} {}\n", field(line, "key"), field(line, "value")));
    reply("cmd=put_result rc=0 msg=success\n");
  } else if (command == "get") {
    const auto found = keys_.find(field(line, "key"));
    reply(found != keys_.end() ? fmt::format("cmd=get_result rc=0 msg=success value={}\n", found->second)
                               : "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  } else if (command == "barrier_in") {
    if (!lost_.empty()) end_process(lost_, 1);
    in_barrier_ = true;
    send_all(*server_, "barrier\n");
  } else if (command == "finalize") {
    finalised_ = true;
    send_all(*server_, "finalize\n");
    reply("cmd=finalize_ack\n");
  } else if (command == "abort") {
    // MPI waits for its process manager to end the process.
    const int code = number_in(field(line, "exitcode"), 1);
    send_all(*server_, fmt::format("abort {} rank {} has called MPI_Abort\n", code, rank_));
    exit_now(code);
  } else {
    reply(fmt::format("cmd={}_result rc=-1 msg=not_supported\n", command));
  }
}

/// Takes a line of the server's.
void Relay::hear(std::string_view line) {
  const auto [what, rest] = split(line);
  const auto [first, text] = split(rest);
  if (what == "key") {
    keys_.insert_or_assign(std::string(first), std::string(text));
  } else if (what == "out") {
    in_barrier_ = false;
    reply("cmd=barrier_out\n");
  } else if (what == "lost") {
    lose(text);
  } else if (what == "abort") {
    end_process(text, number_in(first, 1));
  }
}

void Relay::lose(std::string_view text) {
  const bool first = lost_.empty();
  if (first) lost_ = text;
  if (starting_ || in_barrier_) end_process(lost_, 1);
  set_lost_rank(lost_);
  if (first) print_error("weir: rank {}: {}\n", rank_, lost_);
}

void Relay::end_process(std::string_view text, int code) noexcept {
  print_error("weir: {}: {}, and rank {} of the same job ends, too\n", starting_ ? "MPI cannot start" : "the job has ended", text,
              rank_);
  exit_now(code == 0 ? 1 : code);
}

}  // namespace weir::bootstrap
