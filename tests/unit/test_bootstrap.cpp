// Starting without a launcher of MPI: the environment, rank 0's server, the answers to MPI.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/error.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/network.hpp"
#include "bootstrap/pmi.hpp"
#include "bootstrap/server.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using namespace bootstrap;

/// Sets environment variables for a test, and restores the environment.
class Environment {
 public:
  explicit Environment(std::initializer_list<std::pair<const char*, const char*>> set) {
    for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                             "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                             "MASTER_PORT", "WEIR_PORTS", "MPIR_CVAR_CH4_NETMOD", "UCX_TLS", "UCX_NET_DEVICES"}) {
      if (const char* value = std::getenv(name)) before_.emplace_back(name, value);
      unsetenv(name);
    }
    for (const auto& [name, value] : set) {
      names_.push_back(name);
      setenv(name, value, 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const char* name : names_) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<const char*> names_;
  std::vector<std::pair<std::string, std::string>> before_;
};

Hello hello_of(int rank, int size, std::string node = "a") {
  return {
      .job = "job", .rank = rank, .size = size, .version = "0.1.0", .process = 100 + rank, .host = "host", .node = std::move(node)};
}

/// A process of the job, as the server sees it.
class Process {
 public:
  explicit Process(int port) {
    std::string problem;
    for (const Address& address : resolve("127.0.0.1", port, problem)) end_ = connect_to(address, 5, problem);
    INFO(problem);
    REQUIRE(bool(end_));
  }
  explicit Process(Descriptor end) : end_(std::move(end)) {}

  void say(const std::string& text) { REQUIRE(send_all(*end_, text)); }
  /// Returns the next line; "(closed)" at the end of the connection, "(nothing)" if no line comes in time.
  std::string hear(int milliseconds = 5000) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
    bool open = true;
    while (true) {
      if (const auto line = lines_.next()) return std::string(*line);
      if (!open) return "(closed)";
      if (!wait_to_read(*end_, deadline)) return "(nothing)";
      open = lines_.receive(*end_);
    }
  }

 private:
  Descriptor end_;
  Lines lines_;
};

int port_of(const Listener& listener) { return std::stoi(listener.where.substr(listener.where.rfind(':') + 1)); }

/// A server for `size` processes, and rank 0.
struct Job {
  explicit Job(int size, double timeout = 60) : Job(listen_for("127.0.0.1", 34100, 34900, false), size, timeout) {}
  Job(Listener listener, int size, double timeout)
      : port(port_of(listener)), server(std::move(listener), hello_of(0, size), timeout), root(server.own_connection()) {
    root.say(hello_of(0, size).line());
    REQUIRE(root.hear() == "wait");
  }
  Process join(const Hello& hello) {
    Process made(port);
    made.say(hello.line());
    return made;
  }

  int port;
  Server server;
  Process root;
};

}  // namespace

TEST_CASE("the environment says who started a process") {
  {
    const Environment none({});
    REQUIRE(read_launch().starter == Starter::alone);
  }
  {
    const Environment one({{"WORLD_SIZE", "1"}, {"RANK", "0"}});
    REQUIRE(read_launch().starter == Starter::alone);
  }
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    const Environment mpirun({{variable, "1"}, {"RANK", "1"}, {"WORLD_SIZE", "4"}});
    REQUIRE(read_launch().starter == Starter::launcher);
    REQUIRE(read_launch().found == variable);
  }
  const Environment torchrun({{"PMI_RANK", "0"},
                              {"TORCHELASTIC_RUN_ID", "run 7"},
                              {"TORCHELASTIC_RESTART_COUNT", "2"},
                              {"RANK", "1"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "node0"},
                              {"MASTER_PORT", "29500"}});
  const Launch launch = read_launch();
  REQUIRE(launch.starter == Starter::variables);
  REQUIRE(launch.rank == 1);
  REQUIRE(launch.size == 4);
  REQUIRE(launch.one_node);
  REQUIRE(launch.job == "run_7.29500");
  REQUIRE(launch.first_port == 29501);
  REQUIRE(launch.last_port == 29516);
  REQUIRE_THAT(describe(launch), ContainsSubstring("rank 1 of 4"));
  setenv("WEIR_PORTS", "30000-30003", 1);
  REQUIRE(read_launch().first_port == 30000);
  REQUIRE(read_launch().last_port == 30003);
  unsetenv("WEIR_PORTS");
}

TEST_CASE("missing and senseless variables are named") {
  const auto problem = [] {
    try {
      (void)read_launch();
    } catch (const Error& error) {
      REQUIRE(error.status() == WEIR_ERR_SETTING);
      return std::string(error.what());
    }
    return std::string();
  };
  const Environment some({{"WORLD_SIZE", "many"}});
  REQUIRE(problem() == "WORLD_SIZE is 'many': it must be a number from 1 to 1048576");
  setenv("WORLD_SIZE", "4", 1);
  REQUIRE_THAT(problem(), ContainsSubstring("one of 4 processes, and RANK is not set"));
  setenv("RANK", "4", 1);
  REQUIRE(problem() == "RANK is '4': it must be a number from 0 to 3");
  setenv("RANK", "3", 1);
  REQUIRE_THAT(problem(), ContainsSubstring("rank 3 of 4, and MASTER_ADDR is not set"));
  setenv("MASTER_ADDR", "node0", 1);
  REQUIRE_THAT(problem(), ContainsSubstring("MASTER_PORT is not set"));
  setenv("MASTER_PORT", "0", 1);
  REQUIRE(problem() == "MASTER_PORT is '0': it must be a number from 1 to 65535");
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

TEST_CASE("the mapping has blocks of nodes with as many ranks each") {
  REQUIRE(process_mapping({"a"}) == "(vector,(0,1,1))");
  REQUIRE(process_mapping({"a", "a", "a", "a"}) == "(vector,(0,1,4))");
  REQUIRE(process_mapping({"a", "a", "b", "b"}) == "(vector,(0,2,2))");
  REQUIRE(process_mapping({"a", "a", "b"}) == "(vector,(0,1,2),(1,1,1))");
  REQUIRE(process_mapping({"a", "b", "a", "b"}) == "(vector,(0,2,1),(0,2,1))");
  REQUIRE(process_mapping({"a", "b", "b", "a"}) == "(vector,(0,1,1),(1,1,2),(0,1,1))");
}

TEST_CASE("MPI takes the fastest way over TCP that it has") {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const auto device = [](const std::string& version, const std::string& networks) {
    return "MPICH Version:      " + version + "\nMPICH Device:       ch4:" + networks + "\nMPICH configure:    --with-device=ofi\n";
  };
  const Environment none({});
  const Variables tcp = {{"FI_PROVIDER", "tcp"}};
  const Variables libfabric = {{"FI_PROVIDER", "tcp"}, {"MPIR_CVAR_CH4_NETMOD", "ofi"}};
  const Variables several = {{"FI_PROVIDER", "tcp"}, {"MPIR_CVAR_CH4_NETMOD", "ofi"}, {"MPIR_CVAR_CH4_NUM_VCIS", "4"}};
  CHECK(variables_for_tcp(device("5.0.2", "ucx ofi"), 1) == libfabric);
  CHECK(variables_for_tcp(device("5.0.2", "ucx ofi"), 4) == several);
  CHECK(variables_for_tcp(device("4.1", "ofi"), 4) == several);
  CHECK(variables_for_tcp(device("4.0.2", "ofi"), 4) == libfabric);
  CHECK(variables_for_tcp(device("5.0.2", "ucx"), 4) == tcp);
  CHECK(variables_for_tcp("Intel(R) MPI Library 2021.15 for Linux* OS\n", 4) == tcp);
  for (const auto& [name, value] : {std::pair{"MPIR_CVAR_CH4_NETMOD", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "eth1"}}) {
    const Environment chosen({{name, value}});
    INFO(name);
    CHECK(variables_for_tcp(device("5.0.2", "ucx ofi"), 4) == tcp);
  }
}

TEST_CASE("a fast network at one process is a fast network of the job") {
  for (const bool fast : {false, true}) {
    Job job(2);
    Hello other = hello_of(1, 2, "b");
    other.fast = fast;
    Process joined = job.join(other);
    REQUIRE(joined.hear() == "wait");
    const std::string text = std::string(" (vector,(0,2,1)) ") + (fast ? "fast" : "tcp") + " rank 0 (process 100 on host)";
    REQUIRE(joined.hear().ends_with(text));
    REQUIRE(job.root.hear().ends_with(text));
  }
}

TEST_CASE("all processes get all keys at the end of a barrier") {
  for (const int size : {1, 2, 3, 7, 33}) {
    Job job(size);
    std::vector<Process> others;
    for (int rank = 1; rank < size; ++rank) others.push_back(job.join(hello_of(rank, size, rank % 2 ? "b" : "a")));
    for (Process& one : others) REQUIRE(one.hear() == "wait");
    others.insert(others.begin(), std::move(job.root));
    const std::string go = others[0].hear();
    REQUIRE(go.starts_with("go weir_100_"));
    for (std::size_t i = 1; i < others.size(); ++i) REQUIRE(others[i].hear() == go);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < others.size(); ++i) {
        others[i].say("put key" + std::to_string(i) + " value " + std::to_string(round) + "\n");
        others[i].say("barrier\n");
      }
      for (Process& one : others) {
        std::vector<std::string> keys;
        std::string line = one.hear();
        for (; line.starts_with("key "); line = one.hear()) keys.push_back(line);
        REQUIRE(line == "out");
        REQUIRE(keys.size() == others.size());
        REQUIRE(std::find(keys.begin(), keys.end(), "key key0 value " + std::to_string(round)) != keys.end());
      }
    }
    for (Process& one : others) one.say("finalize\n");
    job.server.wait_until_left(60);
  }
}

TEST_CASE("processes of other jobs, sizes and versions are refused with a reason") {
  SECTION("another job") {
    Job job(2);
    Hello other = hello_of(1, 2);
    other.job = "else";
    REQUIRE(job.join(other).hear() == "other");
    Process stranger(job.port);
    stranger.say("GET / HTTP/1.1\r\n");
    REQUIRE(stranger.hear() == "other");
    REQUIRE(job.join(hello_of(1, 2)).hear() == "wait");  // ours goes on
    REQUIRE(job.root.hear().starts_with("go "));
  }
  SECTION("another size") {
    Job job(3);
    const std::string text =
        "refused WORLD_SIZE is 2 at rank 1 on host, and 3 at rank 0 on host: give all processes of a job the same, and each job "
        "another MASTER_PORT";
    REQUIRE(job.join(hello_of(1, 2)).hear() == text);
    REQUIRE(job.root.hear() == text);
    REQUIRE(job.join(hello_of(2, 3)).hear() == text);  // one that comes later hears the same
  }
  SECTION("another size, once all have come") {
    for (const int size : {1, 2, 3, 7}) {
      Job job(size);
      std::vector<Process> others;
      for (int rank = 1; rank < size; ++rank) others.push_back(job.join(hello_of(rank, size)));
      REQUIRE(job.root.hear().starts_with("go "));
      for (const int theirs : {1, 2, 3, 7, 1000}) {
        if (theirs == size) continue;
        const std::string answer = job.join(hello_of(theirs - 1, theirs)).hear();
        REQUIRE(answer.starts_with("refused WORLD_SIZE is " + std::to_string(theirs) + " at rank " + std::to_string(theirs - 1)));
      }
      for (Process& one : others) REQUIRE(one.hear() == "wait");  // the job goes on
      others.push_back(std::move(job.root));
      for (Process& one : others) one.say("barrier\n");
      for (Process& one : others) {
        std::string line = one.hear();
        if (line.starts_with("go ")) line = one.hear();
        REQUIRE(line == "out");
      }
    }
  }
  SECTION("another version") {
    Job job(2);
    Hello other = hello_of(1, 2);
    other.version = "0.2.0";
    const std::string text =
        "refused rank 1 on host has Weir 0.2.0, and rank 0 on host has 0.1.0: install one version on all nodes";
    REQUIRE(job.join(other).hear() == text);
    REQUIRE(job.root.hear() == text);
  }
  SECTION("a problem of one process") {
    Job job(2);
    Hello other = hello_of(1, 2);
    other.problem = "WEIR_INTERFACE is 'eth9': this host has lo";
    const std::string text = "refused rank 1 on host: WEIR_INTERFACE is 'eth9': this host has lo";
    REQUIRE(job.join(other).hear() == text);
    REQUIRE(job.root.hear() == text);
  }
  SECTION("a rank twice") {
    Job job(3);
    Process first = job.join(hello_of(1, 3));
    REQUIRE(first.hear() == "wait");
    Hello other = hello_of(1, 3);
    other.process = 999;
    REQUIRE_THAT(job.join(other).hear(), ContainsSubstring("refused rank 1 of this job has come already: process 101 on host"));
    REQUIRE(job.join(hello_of(2, 3)).hear() == "wait");
    REQUIRE(first.hear().starts_with("go "));
  }
}

TEST_CASE("ranks that do not come, or end early, are named") {
  SECTION("never come") {
    Job job(4, 0.2);
    Process second = job.join(hello_of(2, 4));
    REQUIRE(second.hear() == "wait");
    const std::string text = second.hear();
    REQUIRE_THAT(text, ContainsSubstring(" s, ranks 1 and 3 of 4 have not come to rank 0, which listens at 127.0.0.1:"));
    REQUIRE(job.root.hear() == text);
  }
  SECTION("come, and end before the others come") {
    Job job(3);
    {
      Process first = job.join(hello_of(1, 3));
      REQUIRE(first.hear() == "wait");
    }
    Process again = job.join(hello_of(1, 3)), second = job.join(hello_of(2, 3));
    for (Process* one : {&again, &second}) REQUIRE(one->hear() == "wait");
    for (Process* one : {&again, &second}) REQUIRE(one->hear().starts_with("go "));
  }
  SECTION("come again after they have given up a connection") {
    Job job(3);  // so that the job cannot begin before rank 1 comes again
    Process first = job.join(hello_of(1, 3)), again = job.join(hello_of(1, 3));
    REQUIRE(again.hear() == "wait");
    Process second = job.join(hello_of(2, 3));
    REQUIRE(second.hear() == "wait");
    for (Process* one : {&again, &second}) REQUIRE(one->hear().starts_with("go "));
  }
  SECTION("do not return from MPI_Init") {
    Job job(3, 0.5);
    Process first = job.join(hello_of(1, 3)), second = job.join(hello_of(2, 3));
    for (Process* one : {&first, &second}) REQUIRE(one->hear() == "wait");
    for (Process* one : {&first, &second}) REQUIRE(one->hear().starts_with("go "));
    job.root.say("started\n");
    const std::string text = first.hear();
    REQUIRE(text.starts_with("abort 1 after "));
    REQUIRE(text.ends_with(" s, MPI_Init has not returned on ranks 1 and 2"));
    REQUIRE(second.hear() == text);
  }
  SECTION("end later") {
    Job job(3);
    Process second = job.join(hello_of(2, 3));
    {
      Process first = job.join(hello_of(1, 3));
      REQUIRE(first.hear() == "wait");
      REQUIRE(first.hear().starts_with("go "));
    }
    REQUIRE(job.root.hear().starts_with("go "));
    REQUIRE(job.root.hear() == "lost 1 rank 1 (process 101 on host) has ended without finalising MPI");
    REQUIRE(second.hear() == "wait");
    REQUIRE(second.hear().starts_with("go "));
    REQUIRE(second.hear().starts_with("lost 1 rank 1"));
    second.say("abort 3 rank 2 has called MPI_Abort\n");
    REQUIRE(job.root.hear() == "abort 3 rank 2 has called MPI_Abort");
  }
}

TEST_CASE("rank 0 takes the next port if one is taken, and says why if none is free") {
  const Listener first = listen_for("127.0.0.1", 34100, 34900, false);
  const int port = port_of(first);
  const Listener second = listen_for("127.0.0.1", port, 34900, false);
  REQUIRE(port_of(second) > port);
  REQUIRE_THROWS_WITH(listen_for("127.0.0.1", port, port, false),
                      ContainsSubstring("rank 0 cannot listen for the other ranks at 127.0.0.1, on no port from") &&
                          ContainsSubstring("Address already in use") && ContainsSubstring("WEIR_PORTS"));
  const Listener everywhere = listen_for("192.0.2.1", 34100, 34900, false);  // an address of another host
  REQUIRE_THAT(everywhere.where, ContainsSubstring("all addresses, port"));
}

TEST_CASE("MPI gets its answers") {
  auto [server, other] = connected_pair();
  Relay relay(std::move(server), {}, "weir_1_2", "(vector,(0,1,2))", "rank 0 (process 5 on h)", 1, 2);
  Process mpi{Descriptor(relay.descriptor_of_mpi())};
  Process server_side(std::move(other));
  const auto ask = [&mpi](const std::string& line) {
    mpi.say(line + "\n");
    return mpi.hear();
  };
  REQUIRE(ask("cmd=init pmi_version=1 pmi_subversion=1") == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  REQUIRE(ask("cmd=get_maxes") == "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
  REQUIRE(ask("cmd=get_appnum") == "cmd=appnum appnum=0");
  REQUIRE(ask("cmd=get_universe_size") == "cmd=universe_size size=2");
  REQUIRE(ask("cmd=get_my_kvsname") == "cmd=my_kvsname kvsname=weir_1_2");
  REQUIRE(ask("cmd=get kvsname=weir_1_2 key=PMI_process_mapping") == "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))");
  REQUIRE(ask("cmd=get kvsname=weir_1_2 key=absent") == "cmd=get_result rc=-1 msg=key_not_found value=unknown");
  REQUIRE(ask("cmd=put kvsname=weir_1_2 key=card value=a = b c") == "cmd=put_result rc=0 msg=success");
  REQUIRE(server_side.hear() == "put card a = b c");
  mpi.say("cmd=barrier_in\n");
  REQUIRE(server_side.hear() == "barrier");
  server_side.say("key card0 from rank 0\nout\n");
  REQUIRE(mpi.hear() == "cmd=barrier_out");
  REQUIRE(ask("cmd=get kvsname=weir_1_2 key=card0") == "cmd=get_result rc=0 msg=success value=from rank 0");
  REQUIRE(ask("cmd=spawn") == "cmd=spawn_result rc=-1 msg=not_supported");
  relay.note_start();
  REQUIRE(server_side.hear() == "started");
  REQUIRE_FALSE(relay.finalised());
  REQUIRE(ask("cmd=finalize") == "cmd=finalize_ack");
  REQUIRE(relay.finalised());
  REQUIRE(server_side.hear() == "finalize");
}

}  // namespace weir::test
