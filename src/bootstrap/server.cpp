#include "bootstrap/server.hpp"

#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/blocked_signals.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace weir::bootstrap {
namespace {

constexpr std::string_view greeting = "weir-start-1";
constexpr double first_report = 10;    // seconds without all ranks
constexpr double silent_seconds = 60;  // after which a connection from outside the job is closed

/// Takes the next word off the line.
std::string_view word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view first = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return first;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::shared_ptr<const std::string> shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

/// Returns "3", "2 and 3" or "2, 3, 5 and 9 others".
std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  if (ranks.size() == 1) return std::to_string(ranks[0]);
  if (ranks.size() <= most) return fmt::format("{} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
  return fmt::format("{} and {} others", fmt::join(ranks.begin(), ranks.begin() + most, ", "), ranks.size() - most);
}

}  // namespace

struct Server::Client {
  Descriptor descriptor;
  Hello hello;
  Lines lines{};
  std::deque<std::shared_ptr<const std::string>> queue{};  // to be sent
  std::size_t sent = 0;                                    // of the first
  Clock::time_point made = Clock::now();
  bool started = false;
  bool counted = false;  // it is in ranks_
  bool in_barrier = false;
  bool done = false;  // no more is taken from it; the process closes the connection
};

std::string Hello::line() const {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}\n", greeting, job, rank, size, version, process, host, node,
                     fast ? "fast" : "tcp", problem);
}

bool Hello::read(std::string_view line, Hello& hello) {
  if (word(line) != greeting) return false;
  hello.job = word(line);
  if (!read_number(word(line), hello.rank) || !read_number(word(line), hello.size)) return false;
  hello.version = word(line);
  if (!read_number(word(line), hello.process)) return false;
  hello.host = word(line);
  hello.node = word(line);
  hello.fast = word(line) == "fast";
  hello.problem = line;
  return !hello.node.empty() && hello.rank >= 0 && hello.rank < hello.size;
}

std::string process_mapping(const std::vector<std::string>& nodes) {
  struct Block {
    int first, nodes, ranks;  // each of `nodes` nodes from `first` has `ranks` consecutive ranks
  };
  std::map<std::string_view, int> numbers;
  std::vector<Block> blocks;
  int last = -1;
  for (const std::string& node : nodes) {
    const int number = numbers.try_emplace(node, static_cast<int>(numbers.size())).first->second;
    if (number == last)
      ++blocks.back().ranks;
    else
      blocks.push_back({number, 1, 1});
    last = number;
  }
  std::string text = "(vector";
  for (std::size_t i = 0; i < blocks.size();) {
    Block block = blocks[i++];
    for (; i < blocks.size() && blocks[i].first == block.first + block.nodes && blocks[i].ranks == block.ranks; ++i) ++block.nodes;
    text += fmt::format(",({},{},{})", block.first, block.nodes, block.ranks);
  }
  return text + ")";
}

Server::Server(Listener listener, Hello own, double timeout_seconds)
    : listener_(std::move(listener)),
      own_(std::move(own)),
      timeout_seconds_(timeout_seconds),
      report_(std::min(first_report, timeout_seconds)),
      ranks_(static_cast<std::size_t>(own_.size)) {
  events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!events_) fail(WEIR_ERR_TRANSPORT, "rank 0 cannot wait for the other ranks: there are no descriptors left");
  std::tie(wake_read_, wake_write_) = connected_pair();
  watch(*wake_read_, EPOLLIN, false);
  for (const Descriptor& listening : listener_.sockets) watch(*listening, EPOLLIN, false);
  auto [theirs, ours] = connected_pair();
  own_end_ = std::move(theirs);
  const int number = *ours;
  clients_.emplace(number, new Client{std::move(ours), {}});
  watch(number, EPOLLIN, false);
  const BlockedSignals blocked;  // the program's own threads handle signals
  thread_ = std::thread([this] { loop(); });
}

Server::~Server() {
  send_all(*wake_write_, "\n");
  thread_.join();
}

void Server::close_in_child() noexcept {
  for (const Descriptor& listening : listener_.sockets) close(*listening);
  for (const auto& [number, client] : clients_) close(number);
  for (const Descriptor* one : {&events_, &wake_read_, &wake_write_}) close(**one);
  busy_.unlock();
}

void Server::wait_until_left(double seconds) const {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (left_ < own_.size && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Server::watch(int descriptor, std::uint32_t events, bool known) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(*events_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, &event);
}

int Server::wait_milliseconds() const {
  if (stage_ == Stage::gathering) return 100;
  const bool all_known = std::all_of(clients_.begin(), clients_.end(), [](const auto& entry) { return entry.second->counted; });
  return (stage_ == Stage::running && started_ < own_.size) || !all_known ? 1000 : -1;
}

void Server::loop() {
  std::array<epoll_event, 64> ready{};
  while (true) {
    const int count = epoll_wait(*events_, ready.data(), static_cast<int>(ready.size()), wait_milliseconds());
    {
      const std::scoped_lock working(busy_);
      for (int i = 0; i < count; ++i) {
        const int number = ready[static_cast<std::size_t>(i)].data.fd;
        if (number == *wake_read_) return;
        const auto listening = std::find_if(listener_.sockets.begin(), listener_.sockets.end(),
                                            [number](const Descriptor& one) { return *one == number; });
        if (listening != listener_.sockets.end()) {
          accept_all(*listening);
          continue;
        }
        const auto client = clients_.find(number);
        if (client == clients_.end()) continue;
        if (ready[static_cast<std::size_t>(i)].events & EPOLLOUT) flush(*client->second);
        if (ready[static_cast<std::size_t>(i)].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read(*client->second);
      }
      sweep();
      if (stage_ == Stage::gathering && come_ == own_.size) start();  // after the ends of connections have been seen
      watch_time();
    }
    for (const std::string& text : std::exchange(log_, {})) log(LogLevel::warn, LogLevel::warn, "{}", text);
  }
}

/// Removes connections that have ended, and closes those that have never been the job's, or are no more.
void Server::sweep() {
  const Clock::time_point oldest =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(silent_seconds));
  std::erase_if(clients_, [oldest](const auto& entry) {
    return !entry.second->descriptor || (!entry.second->counted && entry.second->queue.empty() && entry.second->made < oldest);
  });
}

/// Looks for ranks that are late.
void Server::watch_time() {
  const double waited = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (stage_ == Stage::running && started_ < own_.size && waited >= timeout_seconds_) {
    std::vector<int> late;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank] != nullptr && !ranks_[rank]->started) late.push_back(static_cast<int>(rank));
    }
    send_to_all(fmt::format("abort 1 after {:.0f} s, MPI_Init has not returned on rank{} {}\n", waited, late.size() == 1 ? "" : "s",
                            list_of(late)));
    begin_ = Clock::now();
  }
  if (stage_ != Stage::gathering || waited < report_) return;
  const std::string text =
      fmt::format("after {:.0f} s, {} to rank 0, which listens at {}", waited, missing_ranks(), listener_.where);
  if (report_ >= timeout_seconds_)
    refuse(text + ": see that they were started, with the same MASTER_ADDR and MASTER_PORT, and that no firewall closes the port");
  else
    log_.push_back(text + "; still waiting");
  report_ = std::min(2 * report_, timeout_seconds_);
}

void Server::accept_all(const Descriptor& listening) {
  while (true) {
    Descriptor made = accept_from(listening);
    if (!made) {
      // Without descriptors the connection stays in the queue, and the next wait would end at once.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return;
    }
    if (clients_.size() > 2 * ranks_.size() + 64) continue;  // strangers: this one is closed
    const int number = *made;
    clients_.insert_or_assign(number, std::unique_ptr<Client>(new Client{std::move(made), {}}));
    watch(number, EPOLLIN, false);
  }
}

void Server::read(Client& client) {
  const bool open = client.lines.receive(*client.descriptor);
  while (const std::optional<std::string_view> line = client.lines.next()) take(client, *line);
  if (!open) lose(client);
}

void Server::take(Client& client, std::string_view line) {
  if (!client.counted) {
    if (!client.done) greet(client, line);
    return;
  }
  std::string_view rest = line;
  const std::string_view what = word(rest);
  if (what == "started") {
    if (!std::exchange(client.started, true)) ++started_;
  } else if (what == "put") {
    keys_ += fmt::format("key {}\n", rest);
  } else if (what == "barrier") {
    if (!std::exchange(client.in_barrier, true) && ++in_barrier_ == own_.size) finish_barrier();
  } else if (what == "finalize") {
    ++left_;
    ranks_[static_cast<std::size_t>(client.hello.rank)] = nullptr;
    client.counted = false;
    client.done = true;
  } else if (what == "abort") {
    send_to_all(fmt::format("{}\n", line), &client);
  }
}

/// Takes the first line of a connection.
void Server::greet(Client& client, std::string_view line) {
  Hello hello;
  client.done = true;
  if (!Hello::read(line, hello) || hello.job != own_.job) {
    send(client, shared("other\n"));
    return;
  }
  if (stage_ == Stage::gathering && hello.version != own_.version) {
    refuse(fmt::format("rank {} on {} has Weir {}, and rank 0 on {} has {}: install one version on all nodes", hello.rank,
                       hello.host, hello.version, own_.host, own_.version));
  } else if (stage_ != Stage::refusing && hello.size != own_.size) {
    const std::string why = fmt::format(
        "WORLD_SIZE is {} at rank {} on {}, and {} at rank 0 on {}: give all processes of a job the same, and each job "
        "another MASTER_PORT",
        hello.size, hello.rank, hello.host, own_.size, own_.host);
    if (stage_ == Stage::running) {  // it concerns the one that has come alone, whose rank may not exist here
      send(client, shared(fmt::format("refused {}\n", why)));
      return;
    }
    refuse(why);
  }
  if (stage_ == Stage::gathering && !hello.problem.empty())
    refuse(fmt::format("rank {} on {}: {}", hello.rank, hello.host, hello.problem));
  if (stage_ == Stage::refusing) {
    ++left_;
    send(client, shared(fmt::format("refused {}\n", refusal_)));
    return;
  }
  Client*& place = ranks_[static_cast<std::size_t>(hello.rank)];
  if (stage_ == Stage::gathering && place != nullptr && place->hello.process == hello.process && place->hello.node == hello.node)
    lose(*place);  // it has given up that connection
  if (stage_ == Stage::running || place != nullptr) {
    const std::string holder = place != nullptr ? fmt::format(": process {} on {}", place->hello.process, place->hello.host) : "";
    send(client, shared(fmt::format("refused rank {} of this job has come already{}; give each process a RANK of its own, and each "
                                    "job another MASTER_PORT\n",
                                    hello.rank, holder)));
    return;
  }
  client.done = false;
  client.hello = std::move(hello);
  client.counted = true;
  place = &client;
  send(client, shared("wait\n"));
  ++come_;
}

void Server::start() {
  stage_ = Stage::running;
  begin_ = Clock::now();
  std::vector<std::string> nodes;
  bool fast = false;
  for (const Client* client : ranks_) {
    nodes.push_back(client->hello.node);
    fast = fast || client->hello.fast;
  }
  // MPI names files in memory after it, so that two jobs must not have the same.
  const auto time = std::chrono::system_clock::now().time_since_epoch().count();
  send_to_all(fmt::format("go weir_{}_{:x} {} {} rank 0 (process {} on {})\n", own_.process, time, process_mapping(nodes),
                          fast ? "fast" : "tcp", own_.process, own_.host));
}

void Server::refuse(const std::string& why) {
  stage_ = Stage::refusing;
  refusal_ = why;
  left_ += come_;
  send_to_all(fmt::format("refused {}\n", why));
}

std::string Server::missing_ranks() const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank] == nullptr) missing.push_back(static_cast<int>(rank));
  }
  return fmt::format("{} {} of {} {} not come", missing.size() == 1 ? "rank" : "ranks", list_of(missing), own_.size,
                     missing.size() == 1 ? "has" : "have");
}

/// The connection has ended.
void Server::lose(Client& client) {
  client.descriptor = Descriptor();
  if (!client.counted) return;
  client.counted = false;
  ranks_[static_cast<std::size_t>(client.hello.rank)] = nullptr;
  if (stage_ == Stage::gathering) {
    --come_;
    log_.push_back(fmt::format("rank {} (process {} on {}) has come, and has ended before all had come", client.hello.rank,
                               client.hello.process, client.hello.host));
    return;
  }
  if (stage_ == Stage::refusing) return;
  ++left_;
  send_to_all(fmt::format("lost {} rank {} (process {} on {}) has ended without finalising MPI\n", client.hello.rank,
                          client.hello.rank, client.hello.process, client.hello.host));
}

void Server::finish_barrier() {
  in_barrier_ = 0;
  for (Client* const client : ranks_) {
    if (client != nullptr) client->in_barrier = false;
  }
  send_to_all(std::exchange(keys_, {}) + "out\n");
}

void Server::send_to_all(const std::string& text, const Client* except) {
  const std::shared_ptr<const std::string> one = shared(text);
  // Rank 0 comes last: its process, and this server with it, may end at once.
  for (auto client = ranks_.rbegin(); client != ranks_.rend(); ++client) {
    if (*client != nullptr && *client != except) send(**client, one);
  }
}

void Server::send(Client& client, std::shared_ptr<const std::string> text) {
  client.queue.push_back(std::move(text));
  flush(client);
}

/// Sends what the connection takes now.
void Server::flush(Client& client) {
  if (!client.descriptor) return;
  const int number = *client.descriptor;
  while (!client.queue.empty()) {
    const std::string& text = *client.queue.front();
    const ssize_t sent = ::send(number, text.data() + client.sent, text.size() - client.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return;  // reading finds the end, too
    client.sent += static_cast<std::size_t>(sent);
    if (client.sent < text.size()) continue;
    client.sent = 0;
    client.queue.pop_front();
  }
  watch(number, client.queue.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT, true);
}

}  // namespace weir::bootstrap
