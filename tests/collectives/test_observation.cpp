// Observation of a communicator: traces, dumps of the flight recorder, metrics, stragglers.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <weir/fusion.hpp>
#include <weir/observer.hpp>

#include "async/stage_scope.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t count = 3000;

/// A new folder, removed with the object.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("weir-test-" + std::to_string(::getpid()) + "-" + std::to_string(made_++))) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }
  /// Returns the text of the one file whose name ends in `end`.
  [[nodiscard]] std::string text_of(const std::string& end) const {
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (!entry.path().string().ends_with(end)) continue;
      std::ifstream file(entry.path());
      return {std::istreambuf_iterator<char>(file), {}};
    }
    return {};
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  static inline int made_ = 0;
  fs::path path_;
};

std::string of_rank(int rank) { return ".rank" + std::to_string(rank) + ".json"; }

/// Returns the text of the error that `call` throws.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void train(const Communicator& comm, AllreducePlan& plan, int iterations) {
  for (int t = 0; t < iterations; ++t) {
    std::vector<float> g = make_input<float>(Input::heavy_tailed, plan.config().count, comm.rank(), comm.size(), t);
    plan.run(g);
  }
}

Settings with(const std::function<void(Settings&)>& change) {
  Settings settings{.timeout_seconds = 20};
  change(settings);
  return settings;
}

struct Span {
  double begin, end;
};
Span span_of(const Json& event) { return {event["ts"].get<double>(), event["ts"].get<double>() + event["dur"].get<double>()}; }

/// The tolerance: each time is rounded to nanoseconds.
constexpr double rounding = 0.0021;

/// Returns whether one interval lies in the other, or they do not overlap.
bool nest(Span a, Span b) {
  const auto within = [](Span inner, Span outer) {
    return inner.begin >= outer.begin - rounding && inner.end <= outer.end + rounding;
  };
  return within(a, b) || within(b, a) || a.end <= b.begin + rounding || b.end <= a.begin + rounding;
}

}  // namespace

TEST_CASE("a trace has a row for each plan, with its runs, nested stages, messages and waits") {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.host_memory) continue;
    const Folder folder;
    constexpr int ranks = 4, iterations = 5;
    run_ranks(ranks,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = count, .algorithm = std::string(algorithm.name), .name = "a \"quoted\" name"});
                train(comm, plan, iterations);
              },
              {.machine = "node:2 rank:2", .settings = with([&](Settings& s) { s.trace = folder.path(); })});
    INFO(algorithm.name);
    REQUIRE(folder.files() == ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const Json events = Json::parse(folder.text_of(of_rank(rank)));
      int row = -1, runs = 0, waits = 0;
      std::vector<Span> spans;
      std::set<std::string> stages;
      std::map<std::int64_t, int> messages;  // begun and ended
      for (const Json& event : events) {
        REQUIRE(event["pid"] == rank + 1);
        if (event["name"] == "thread_name" && event["args"]["name"] == "a \"quoted\" name") row = event["tid"];
        if (event["name"] == "weir_clock") REQUIRE(event["args"]["rounds_ns"].size() == 16);
        if (event["ph"] == "X" && event["tid"] == row) spans.push_back(span_of(event));
        if (event.value("cat", "") == "run" && event["tid"] == row) REQUIRE(event["args"]["run"] == ++runs);
        if (event.value("cat", "") == "stage" && event["tid"] == row) stages.insert(event["name"]);
        if (event.value("cat", "") == "wait") waits += event["args"]["for"] == "a \"quoted\" name" ? 1 : 0;
        if (event["ph"] == "b") ++messages[event["id"]];
        if (event["ph"] == "e") --messages[event["id"]];
      }
      REQUIRE(runs == iterations);
      REQUIRE(waits == iterations);
      for (const std::string stage : {"communicate", "exchange"}) REQUIRE(stages.contains(stage));
      REQUIRE(stages.contains("select") == (algorithm.sparse || algorithm.packed));
      for (const auto& [id, open] : messages) REQUIRE(open == 0);
      for (std::size_t i = 0; i < spans.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (!nest(spans[i], spans[j])) FAIL("events " << j << " and " << i << " of rank " << rank << " overlap");
        }
      }
    }
  }
}

TEST_CASE("tracing allocates nothing while plans run") {
  const Folder folder;
  RankCheck check;
  run_ranks(3,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = count});
              std::vector<float> g = make_input<float>(Input::heavy_tailed, count, comm.rank(), comm.size(), 0);
              std::int64_t before = 0;
              for (int t = 0; t < 200; ++t) {
                if (t == 100) before = allocations_of_this_thread();
                plan.run_sparse(g);
              }
              check.at_most(allocations_of_this_thread() - before, std::int64_t{0}, "allocations");
            },
            {.settings = with([&](Settings& s) { s.trace = folder.path(); })});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a trace folder that cannot be written is no reason to stop") {
  RankCheck check;
  for (const std::string bad : {"/proc/no/such/folder", "/dev/null/x"}) {
    run_ranks(2,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = count});
                train(comm, plan, 2);
                check.that(plan.statistics().iteration == 2, "no two runs");
              },
              {.settings = with([&](Settings& s) {
                 s.log = LogLevel::error;
                 s.trace = s.metrics = bad;
               })});
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("where the disk is full, the trace ends with the last event that is whole, and the run goes on") {
  const Folder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100000;
  setrlimit(RLIMIT_FSIZE, &small);
  int runs = 0;
  run_ranks(2,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = count});
              for (int t = 0; t < 40; ++t) {  // time for the writer, too
                train(comm, plan, 10);
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
              }
              if (comm.rank() == 0) runs = static_cast<int>(plan.statistics().iteration);
            },
            {.settings = with([&](Settings& s) { s.trace = folder.path(); })});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  REQUIRE(runs == 400);
  const std::string text = folder.text_of(of_rank(0));
  REQUIRE(text.size() <= 100000);
  REQUIRE(text.size() > 1000);
  REQUIRE_NOTHROW(Json::parse(text + "]"));
}

TEST_CASE("a silent rank: the others' dumps name plan, run and stage, and whom they waited for") {
  const Folder folder;
  const auto run = [&](Communicator& comm) {
    AllreducePlan first(comm, {.count = count, .name = "first"}),
        second(comm, {.count = count, .algorithm_parameters = "schedule=direct", .name = "second"});
    train(comm, first, 3);
    set_timeout(comm, 0.5);
    (void)error_of([&] { train(comm, second, 1000); });
  };
  run_ranks(3, run, {.fault = {.rank = 2, .after = 200}, .settings = with([&](Settings& s) { s.dump = folder.path(); })});
  for (const int rank : {0, 1}) {
    const Json dump = Json::parse(folder.text_of(of_rank(rank)));
    REQUIRE(dump["weir"]["rank"] == rank);
    REQUIRE(dump["weir"]["ranks"] == 3);
    REQUIRE(dump["weir"]["why"].get<std::string>().find("without progress") != std::string::npos);
    const Json& last = dump["entries"].back();
    REQUIRE(last["process_group"][1] == "second");
    REQUIRE(last["state"] == "started");
    REQUIRE(last["weir"]["stage"] != "none");
    REQUIRE(last["weir"]["algorithm"] == "oktopk");
    REQUIRE(last["input_sizes"][0][0] == count);
    int completed = 0;
    for (const Json& entry : dump["entries"]) {
      if (entry["process_group"][1] != "first") continue;
      REQUIRE(entry["state"] == "completed");
      REQUIRE(entry["collective_seq_id"] == ++completed);
      REQUIRE(entry["time_created_ns"] <= entry["time_discovered_started_ns"]);
      REQUIRE(entry["time_discovered_started_ns"] <= entry["time_discovered_completed_ns"]);
    }
    REQUIRE(completed == 3);
  }
}

TEST_CASE("a dump on request, and by a signal; the oldest calls make room") {
  const Folder folder;
  RankCheck check;
  run_ranks(2,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = 10, .algorithm = "dense_ring", .name = "busy"});
              train(comm, plan, 2100);
              const std::string path = folder.path() + "/asked" + of_rank(comm.rank());
              comm.dump(path);
              const Json dump = Json::parse(folder.text_of("asked" + of_rank(comm.rank())));
              check.that(dump["entries"].size() == 2048, "2048 calls");
              check.that(dump["entries"].back()["collective_seq_id"] == 2100, "the last one");
              check.that(dump["entries"].front()["record_id"] == dump["weir"]["calls"].get<std::int64_t>() - 2048, "the first one");
              check.that(error_of([&] { comm.dump("/proc/no/such/file"); }).find("/proc/no/such/file cannot be written") == 0,
                         "says what cannot be written");
              if (comm.rank() == 0) std::raise(SIGUSR2);
              train(comm, plan, 2);
            },
            {.settings = with([&](Settings& s) {
               s.dump = folder.path();
               s.dump_signal = SIGUSR2;
             })});
  REQUIRE(check.failure() == "");
  REQUIRE(folder.files() == 4);  // both ranks are in this process
}

TEST_CASE("metrics count runs, bytes, seconds and errors") {
  const Folder folder;
  run_ranks(2,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = count, .algorithm_parameters = "schedule=direct", .name = "say \"hello\""});
              train(comm, plan, 3);
              std::vector<float> bad(static_cast<std::size_t>(count), std::numeric_limits<float>::infinity());
              (void)error_of([&] { plan.run(bad); });
            },
            {.settings = with([&](Settings& s) { s.metrics = folder.path(); })});
  const std::string text = folder.text_of(".rank1.prom");
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  REQUIRE(has("weir_runs_total{job="));
  REQUIRE(has("rank=\"1\",call=\"say \\\"hello\\\"\"} 4\n"));
  REQUIRE(has("weir_errors_total{"));
  REQUIRE(has("status=\"5\"} 1\n"));
  REQUIRE(has("direction=\"sent\"} "));
  REQUIRE(has("stage=\"select\"} "));
  REQUIRE(has("weir_compression_ratio{"));
  REQUIRE(has("weir_residual_norm{"));
  REQUIRE(has("weir_end_time_seconds{"));
}

TEST_CASE("metrics of fused tensors go by the object's name; what is no UTF-8 is replaced") {
  const Folder folder;
  run_ranks(
      2,
      [&](Communicator& comm) {
        const std::vector<FusedTensor> tensors = {{.name = "a.weight", .count = 5000}, {.name = "b", .count = 40, .dense = true}};
        FusedAllreduce fused(comm, {.scheme = FusionScheme::behind, .name = "model \xff"}, tensors);
        std::vector<float> a(5000, 1), b(40, 1);
        a[7] = 3;
        fused.ready(0, std::span(a));
        fused.ready(1, std::span(b));
        if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        fused.wait_all();
      },
      {.settings = with([&](Settings& s) { s.metrics = s.trace = folder.path(); })});
  const std::string text = folder.text_of(".rank1.prom");
  const auto value_of = [&](const std::string& metric) {
    const std::size_t line = text.find("\n" + metric + "{"), end = text.find('\n', line + 1);
    if (line == std::string::npos) return -1.0;
    return std::stod(text.substr(text.rfind(' ', end), end));
  };
  REQUIRE(text.find("call=\"model \xef\xbf\xbd\"") != std::string::npos);
  REQUIRE(text.find('\xff') == std::string::npos);
  REQUIRE(text.find("a.weight") == std::string::npos);
  REQUIRE(value_of("weir_waited_seconds_total") > 0.02);
  REQUIRE(folder.text_of(of_rank(1)).find("\"cat\":\"test\"") != std::string::npos);  // the trace has the wait
  REQUIRE(value_of("weir_compression_ratio") > 1);
  REQUIRE(value_of("weir_residual_norm") > 1);
  REQUIRE(value_of("weir_end_time_seconds") > 1.7e9);
}

TEST_CASE("two jobs that use one folder at once leave whole files of both, told apart by their names") {
  const Folder folder;
  const auto job = [&](int ranks) {
    run_ranks(ranks,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = count});
                train(comm, plan, 50);
              },
              {.settings = with([&](Settings& s) { s.trace = s.metrics = folder.path(); })});
  };
  std::thread other([&] { job(3); });
  job(2);
  other.join();
  std::map<std::string, int> files;  // by job
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}}, name = entry.path().filename().string();
    const std::size_t begin = name.find('.') + 1;
    const std::string of = name.substr(begin, name.find('.', begin) - begin);
    ++files[of];
    if (name.ends_with(".json"))
      REQUIRE(Json::accept(text));
    else
      REQUIRE(text.find("job=\"" + of + "\"") != std::string::npos);
  }
  REQUIRE(files.size() == 2);
  REQUIRE(files.begin()->second + files.rbegin()->second == 10);
}

TEST_CASE("a refused run is recorded with the stage in which it fails") {
  const auto stage_of = [](const AllreduceConfig& config, Stage stage) {
    CAPTURE(config.algorithm);
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      AllreducePlan plan(comm, config);
      std::vector<float> gradient(100, 1.0f);
      if (comm.rank() == 1) gradient[5] = std::numeric_limits<float>::quiet_NaN();
      check.that(error_of([&] { plan.run(gradient); }).find("NaN or infinity") != std::string::npos, "another error");
      const FlightRecorder& recorder = comm.state()->recorder;
      const CallRecord last = recorder.at(recorder.kept() - 1);
      check.that(last.state == CallState::failed && last.status == WEIR_ERR_NON_FINITE, "not failed");
      check.that(last.stage == stage_name(stage), std::string(last.stage));
    });
    REQUIRE(check.failure() == "");
  };
  stage_of({.count = 100, .density = 0.1, .algorithm = "oktopk"}, Stage::apply);
  stage_of({.count = 100, .algorithm = "dense_ring"}, Stage::exchange);
  stage_of({.count = 100, .algorithm = "packed_allgather"}, Stage::exchange);
}

/// Counts the calls of the observer, and records impossible ones.
struct Listener final : Observer {
  void begin(const RunInfo& run) noexcept override {
    if (run.call == 0) return;
    ++begun;
    open.insert(run.id);
    last = run.begun;
    wrong = wrong || run.object.empty() || run.status != WEIR_OK || run.begun == Time{} || run.ended != Time{};
  }
  void stage(const RunInfo& run, std::string_view name, Time begin, Time end) noexcept override {
    wrong = wrong || (run.call != 0 && !open.contains(run.id)) || end < begin || name.empty();
    if (run.call == 0) return;
    stages.insert(std::string(name));
    wrong = wrong || begin < run.begun || end < last;
    last = end;
  }
  void message(const RunInfo& run, const MessageInfo& message) noexcept override {
    if (run.call == 0) return;
    wrong = wrong || !open.contains(run.id) || !in_flight.insert(message.slot).second || message.peer < 0;
    if (message.sent) sent[static_cast<std::size_t>(message.level)] += message.bytes;
  }
  void message_done(const RunInfo& run, int slot) noexcept override {
    if (run.call != 0) wrong = wrong || in_flight.erase(slot) == 0;
  }
  void end(const RunInfo& run) noexcept override {
    if (run.call == 0) return;
    ++ended;
    failed += run.status != WEIR_OK ? 1 : 0;
    wrong = wrong || open.erase(run.id) == 0 || run.name != "watched" || run.algorithm != "oktopk" ||
            run.element_type != "float32" || run.count != count || run.number != ended || run.ended < last;
    if (run.status != WEIR_OK) failed_in = run.stage;
  }
  void wait(const RunInfo& /*run*/, Time begin, Time end) noexcept override {
    ++waits;
    wrong = wrong || end < begin;
  }
  void update(const UpdateInfo& update) noexcept override {
    ++updates;
    wrong = wrong || update.iteration != updates || update.residual_norm() <= 0;
    compression = update.compression;
  }
  void report(std::string_view why, std::string_view /*in_flight*/) noexcept override { reported = why; }

  int begun = 0, ended = 0, failed = 0, waits = 0, updates = 0;
  double compression = -1;
  bool wrong = false;
  Time last{};
  std::set<std::int64_t> open;
  std::set<int> in_flight;
  std::set<std::string> stages;
  std::array<std::int64_t, level_count> sent{};
  std::string failed_in, reported;
};

TEST_CASE("a user's observer hears of runs, stages, messages and waits, until it is removed") {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      const auto listener = std::make_shared<Listener>();
      AllreducePlan plan(
          comm,
          {.count = count, .density = 0.01, .algorithm = "oktopk", .algorithm_parameters = "schedule=direct", .name = "watched"});
      comm.add_observer(listener);
      std::array<std::int64_t, level_count> sent{};
      for (int t = 0; t < 4; ++t) {
        train(comm, plan, 1);
        for (std::size_t level = 0; level < sent.size(); ++level) sent[level] += plan.statistics().bytes_sent[level];
      }
      check.that(listener->begun == 4 && listener->ended == 4 && listener->updates == 4, "not each run");
      check.that(listener->waits == (ranks == 1 ? 0 : 4), "not each wait");
      check.that(!listener->wrong && listener->open.empty() && listener->in_flight.empty(), "what cannot be");
      check.that(ranks == 1 ? listener->compression == 0 : listener->compression > 1, "compression");
      check.that(listener->sent == sent, "other bytes than statistics");
      check.that(listener->stages.contains("select") && listener->stages.contains("exchange"), "stages are missing");

      std::vector<float> bad(static_cast<std::size_t>(count), std::numeric_limits<float>::infinity());
      check.that(error_of([&] { plan.run(bad); }).find("NaN or infinity") != std::string::npos, "another error");
      check.that(listener->ended == 5 && listener->failed == 1 && listener->failed_in == "apply" && listener->updates == 4,
                 "the failure: " + listener->failed_in);

      check.that(error_of([&] { comm.add_observer(listener); }) == "the observer has been added before", "added twice");
      check.that(error_of([&] { comm.add_observer(nullptr); }) == "the observer is a null pointer", "null");
      comm.remove_observer(listener);
      train(comm, plan, 1);
      check.that(listener->begun == 5, "it still hears");
      check.that(error_of([&] { comm.remove_observer(listener); }) == "the observer was not added to this communicator",
                 "removed twice");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an observer hears who came last where ranks share memory, and a dump says so") {
  struct Awaiting final : Observer {
    void awaited(const RunInfo& run, int rank, Time begin, Time end) noexcept override {
      if (end - begin < std::chrono::milliseconds(25)) return;
      ranks.insert(rank);
      stages.insert(std::string(run.stage));
    }
    std::set<int> ranks;
    std::set<std::string> stages;
  };
  for (const std::string algorithm : {"oktopk", "dense_torus2d"}) {
    INFO(algorithm);
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      const auto listener = std::make_shared<Awaiting>();
      comm.add_observer(listener);
      AllreducePlan plan(comm, {.count = count, .algorithm = algorithm});
      train(comm, plan, 1);
      for (int t = 0; t < 3; ++t) {
        if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        train(comm, plan, 1);
      }
      if (algorithm == "oktopk" && comm.rank() != 2)
        check.that(listener->ranks.contains(2) && listener->stages.contains("announce"), "the late one");
      check.that(!listener->ranks.contains(comm.rank()), "itself");
      const std::vector<double> shares = comm.stragglers(3);
      check.that(std::max_element(shares.begin(), shares.end()) - shares.begin() == 2, "the late one has the largest share");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an observer hears why a run breaks off") {
  RankCheck check;
  const auto run = [&](Communicator& comm) {
    const auto listener = std::make_shared<Listener>();
    comm.add_observer(listener);
    AllreducePlan plan(
        comm,
        {.count = count, .density = 0.01, .algorithm = "oktopk", .algorithm_parameters = "schedule=direct", .name = "watched"});
    set_timeout(comm, 0.5);
    const std::string error = error_of([&] { train(comm, plan, 1000); });
    if (comm.rank() == 2) return;
    check.that(error.find("without progress") != std::string::npos, "another error: " + error);
    check.that(!listener->wrong && listener->failed == 1, "the failure is missing");
    check.that(listener->reported.find("without progress") != std::string::npos, "reported: " + listener->reported);
  };
  run_ranks(3, run, {.fault = {.rank = 2, .after = 200}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("stragglers: who lets the others wait") {
  for (const int late : {0, 2}) {
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      AllreducePlan plan(comm, {.count = count, .algorithm = "topk_allgather"});
      check.that(comm.stragglers() == std::vector<double>(4, 0.0), "before any run");
      for (int t = 0; t < 5; ++t) {
        if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        train(comm, plan, 1);
      }
      const std::vector<double> shares = comm.stragglers(5);
      check.that(shares.size() == 4, "one share for each rank");
      check.that(std::max_element(shares.begin(), shares.end()) - shares.begin() == late, "the late one has the largest share");
      check.that(error_of([&] { (void)comm.stragglers(0); }).find("0 runs: it must be 1 to 2048") != std::string::npos, "0 runs");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("seconds of a run: stages lie within it, and waiting is the caller's") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = count, .algorithm_parameters = "schedule=direct"});
    std::vector<float> g = make_input<float>(Input::heavy_tailed, count, comm.rank(), comm.size(), 0);
    Operation operation = plan.start(g);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the caller computes
    operation.wait();
    const Statistics& s = plan.statistics();
    check.that(s.seconds_select + s.seconds_in_node + s.seconds_exchange + s.seconds_apply <= s.seconds_total, "stages");
    check.that(s.seconds_waited > 0 && s.seconds_waited < s.seconds_total - 0.025, "the caller's computing is no waiting");
    check.that(s.seconds_exchange >= 0.03, "but part of the exchange");

    AllreducePlan quantised(comm, {.count = count, .algorithm = "packed_allgather", .compressor = "block_quantise"});
    quantised.run(g);
    check.that(quantised.statistics().seconds_apply > 0, "decoding is part of applying");
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
