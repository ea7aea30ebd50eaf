#include "observe/tracer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/origin.hpp"

namespace weir {
namespace {

constexpr std::chrono::milliseconds writing_interval{20};
constexpr std::string_view event_begin = ",\n";

std::int64_t nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

std::string json_text(std::string_view text) { return JsonValue(text).text(-1); }

/// Nanoseconds as microseconds, the unit of the format.
struct Microseconds {
  std::int64_t whole, rest;
  explicit Microseconds(std::int64_t ns) : whole(ns / 1000), rest(ns % 1000) {}
};

}  // namespace
}  // namespace weir

template <>
struct fmt::formatter<weir::Microseconds> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const weir::Microseconds& time, Context& context) const {
    return fmt::format_to(context.out(), "{}.{:03}", time.whole, time.rest);
  }
};

namespace weir {
namespace {

/// The tracers that have not been destroyed. Never destroyed itself, because it is needed when the process ends.
struct Living {
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::set<Tracer*> tracers;
};
Living& living() {
  static Living& only = *new Living;
  return only;
}

void finish_the_living() {
  if (living().process != ::getpid()) return;  // a child of fork() has no writers
  const std::scoped_lock lock(living().mutex);
  for (Tracer* const tracer : living().tracers) tracer->finish();
}

}  // namespace

Tracer::Tracer(const std::string& folder, const Identity& identity)
    : path_(identity.file(folder, "weir-trace", "json")),
      pid_(identity.rank + 1),
      start_(std::chrono::steady_clock::now()),
      ring_(capacity) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail(WEIR_ERR_ARGUMENT, "{} cannot be written: {}", path_, std::strerror(errno));
  posted_.reserve(1024);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  buffer_ = fmt::format(
      "[\n{{\"name\":\"weir_trace\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"version\":\"{}\",\"run\":\"{:016x}\","
      "\"communicator\":{},\"rank\":{},\"ranks\":{},\"host\":{},\"start_ns\":{},\"unix_ns\":{}}}}},\n"
      "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":{}}}}},\n"
      "{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}}",
      pid_, version_text(), identity.run, identity.communicator, identity.rank, identity.ranks, json_text(identity.host),
      nanoseconds(start_.time_since_epoch()), std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count(), pid_,
      json_text(fmt::format("rank {} on {}", identity.rank, identity.host)), pid_, identity.rank);
  name_row(caller_row, "caller");
  name_row(setup_row, "setup");
  {
    const std::scoped_lock lock(living().mutex);
    [[maybe_unused]] static const int registered = std::atexit(finish_the_living);
    living().tracers.insert(this);
  }
  writer_ = std::thread([this] { write_out(); });
}

Tracer::~Tracer() {
  {
    const std::scoped_lock lock(living().mutex);
    living().tracers.erase(this);
  }
  finish();
}

void Tracer::finish() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (ends_) return;
    ends_ = true;
  }
  wake_.notify_one();
  writer_.join();
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void Tracer::set_clock_rounds(const std::vector<ClockRound>& rounds) {
  std::string text;
  for (const ClockRound& round : rounds) text += fmt::format("{}[{},{}]", text.empty() ? "" : ",", round.entered, round.left);
  const std::scoped_lock lock(mutex_);
  lines_.push_back(fmt::format("{{\"name\":\"weir_clock\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"rounds_ns\":[{}]}}}}", pid_, text));
}

void Tracer::name_row(int row, std::string_view name) {
  const auto at = static_cast<std::size_t>(row);
  if (named_.size() <= at) named_.resize(at + 1);
  const std::scoped_lock lock(mutex_);
  if (rows_.size() <= at) rows_.resize(at + 1, json_text(""));
  std::string text = json_text(name);
  lines_.push_back(
      fmt::format("{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", pid_, row, text));
  rows_[at] = std::move(text);
  named_[at] = true;
}

int Tracer::row_of(const RunInfo& run) noexcept {
  const int row = run.call == 0 ? setup_row : setup_row + run.call;
  const auto at = static_cast<std::size_t>(row);
  if (at < named_.size() && named_[at]) return row;
  try {
    name_row(row, run.name);
  } catch (const std::bad_alloc&) {  // the next event tries again
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return setup_row;
  }
  return row;
}

void Tracer::begin(const RunInfo& run) noexcept { static_cast<void>(row_of(run)); }
void Tracer::run(const RunInfo& run, Time end) noexcept {
  put({run.status == WEIR_OK ? Kind::run : Kind::failed_run, Level::self, row_of(run), -1, run.number, run.begun, end});
}
void Tracer::end(const RunInfo& run) noexcept {
  this->run(run, run.ended);
  if (run.call == 0 || run.traffic == nullptr) return;
  for (std::size_t level = 0; level < sent_.size(); ++level) {
    sent_[level] += run.traffic->bytes_sent[level];
    if (sent_[level] > 0) put({Kind::sent, static_cast<Level>(level), caller_row, -1, sent_[level], run.ended, run.ended});
  }
}
void Tracer::stage(const RunInfo& run, std::string_view name, Time begin, Time end) noexcept {
  put({Kind::stage, Level::self, row_of(run), -1, 0, begin, end, name});
}
void Tracer::wait(const RunInfo& run, Time begin, Time end) noexcept {
  put({Kind::wait, Level::self, row_of(run), -1, 0, begin, end});
}
void Tracer::tested(const RunInfo& run, double seconds) noexcept {
  const Time now = std::chrono::steady_clock::now();
  put({Kind::tested, Level::self, row_of(run), -1, static_cast<std::int64_t>(seconds * 1e9), now, now});
}

void Tracer::message(const RunInfo& run, const MessageInfo& message) noexcept {
  const auto at = static_cast<std::size_t>(message.slot);
  if (at >= posted_.size()) {
    try {
      posted_.resize(std::max(2 * posted_.size(), at + 1));
    } catch (const std::bad_alloc&) {
      left_out_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  const Time now = std::chrono::steady_clock::now();
  posted_[at] = {message.sent ? Kind::send : Kind::receive, message.level, row_of(run), message.peer, message.bytes, now, now};
}

void Tracer::message_done(const RunInfo& /*run*/, int slot) noexcept {
  const auto at = static_cast<std::size_t>(slot);
  if (at >= posted_.size()) return;
  Event& message = posted_[at];
  if (message.peer < 0) return;
  message.end = std::chrono::steady_clock::now();
  put(message);
  message.peer = -1;
}

void Tracer::awaited(const RunInfo& run, int rank, Time begin, Time end) noexcept {
  put({Kind::awaited, Level::node, row_of(run), rank, 0, begin, end});
}

void Tracer::put(const Event& event) noexcept {
  const std::size_t place = put_.load(std::memory_order_relaxed);
  const std::size_t waiting = place - taken_.load(std::memory_order_acquire);
  if (waiting == capacity) {
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring_[place % capacity] = event;
  put_.store(place + 1, std::memory_order_release);
  if (waiting == capacity / 2) wake_.notify_one();
}

/// Runs in the writer's thread.
void Tracer::write_out() {
  for (bool ends = false; !ends;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, writing_interval, [&] { return ends_ || put_.load() - taken_.load() >= capacity / 2; });
      ends = ends_;
    }
    write_pending();
    if (ends) buffer_ += "\n]\n";
    flush();
  }
}

void Tracer::write_pending() {
  const std::size_t end = put_.load(std::memory_order_acquire);
  {
    const std::scoped_lock lock(mutex_);
    for (const std::string& line : lines_) buffer_ += ",\n" + line;
    lines_.clear();
    for (std::size_t i = taken_.load(std::memory_order_relaxed); i != end; ++i) append(ring_[i % capacity]);
  }
  taken_.store(end, std::memory_order_release);
  const std::int64_t left_out = left_out_.exchange(0);
  if (left_out == 0) return;
  fmt::format_to(std::back_inserter(buffer_),
                 ",\n{{\"name\":\"{} events left out\",\"ph\":\"i\",\"s\":\"p\",\"pid\":{},\"tid\":0,\"ts\":{}}}", left_out, pid_,
                 Microseconds(nanoseconds(std::chrono::steady_clock::now() - start_)));
}

void Tracer::append(const Event& event) {
  const auto out = std::back_inserter(buffer_);
  const Microseconds begin(nanoseconds(event.begin - start_)), end(nanoseconds(event.end - start_)),
      length(nanoseconds(event.end - event.begin));
  const std::string_view row = rows_[static_cast<std::size_t>(event.row)];
  switch (event.kind) {
    case Kind::run:
    case Kind::failed_run:
      fmt::format_to(out,
                     ",\n{{\"name\":{},\"cat\":\"run\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},"
                     "\"args\":{{\"run\":{},\"failed\":{}}}}}",
                     row, pid_, event.row, begin, length, event.number, event.kind == Kind::failed_run);
      break;
    case Kind::stage:
      fmt::format_to(out, ",\n{{\"name\":\"{}\",\"cat\":\"stage\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}}",
                     event.stage, pid_, event.row, begin, length);
      break;
    case Kind::wait:
      fmt::format_to(out,
                     ",\n{{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},"
                     "\"args\":{{\"for\":{}}}}}",
                     pid_, caller_row, begin, length, row);
      break;
    case Kind::tested:
      fmt::format_to(out,
                     ",\n{{\"name\":\"tested\",\"cat\":\"test\",\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":{},\"ts\":{},"
                     "\"args\":{{\"for\":{},\"ns\":{}}}}}",
                     pid_, caller_row, begin, row, event.number);
      break;
    case Kind::send:
    case Kind::receive:
    case Kind::awaited: {
      const std::string_view way = event.kind == Kind::send ? "to" : event.kind == Kind::receive ? "from" : "shared memory of";
      ++messages_;
      fmt::format_to(
          out,
          ",\n{{\"name\":\"{0} rank {1}\",\"cat\":\"message\",\"ph\":\"b\",\"id\":{2},\"pid\":{3},\"tid\":{4},\"ts\":{5},"
          "\"args\":{{\"bytes\":{6},\"peer\":{1},\"level\":\"{7}\"}}}},\n"
          "{{\"name\":\"{0} rank {1}\",\"cat\":\"message\",\"ph\":\"e\",\"id\":{2},\"pid\":{3},\"tid\":{4},\"ts\":{8}}}",
          way, event.peer, messages_, pid_, event.row, begin, event.number, level_name(event.level), end);
      break;
    }
    case Kind::sent:
      fmt::format_to(out, ",\n{{\"name\":\"bytes sent, {0}\",\"ph\":\"C\",\"pid\":{1},\"ts\":{2},\"args\":{{\"bytes\":{3}}}}}",
                     level_name(event.level), pid_, begin, event.number);
      break;
  }
}

/// Writes the buffer. If the disk is full, the file ends with the last whole event, and so does tracing; the run goes on.
void Tracer::flush() {
  if (file_ < 0) {
    buffer_.clear();
    return;
  }
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = ::write(file_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  if (done < buffer_.size()) {
    deliver_message(LogLevel::warn, fmt::format("rank {}: {} ends here: {}", pid_ - 1, path_, std::strerror(errno)));
    const std::size_t whole = done == 0 ? std::string::npos : buffer_.rfind(event_begin, done - 1);
    if (::ftruncate(file_, written_ + static_cast<off_t>(whole == std::string::npos ? 0 : whole)) != 0)
      deliver_message(LogLevel::warn, fmt::format("{} may end in the middle of a line", path_));
    ::close(file_);
    file_ = -1;
  }
  written_ += static_cast<off_t>(done);
  buffer_.clear();
}

}  // namespace weir
