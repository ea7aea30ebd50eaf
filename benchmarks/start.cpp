// weir-benchmarks start: measures how long processes take to start MPI without mpirun, and rank 0's server alone with many clients.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "benchmarks/benchmarks.hpp"
#include "bootstrap/server.hpp"
#include "cli/mpi_start.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

using namespace bootstrap;

struct Options {
  std::vector<std::int64_t> processes = {4, 16, 64};
  int clients = 1024, rounds = 3;
  std::string mpiexec, json;
};

constexpr int barriers = 8;            // as MPICH 4 needs
constexpr std::size_t key_size = 600;  // bytes of its address of a process

double ms_since(Clock::time_point begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

/// Starts `count` processes of this program that start MPI, and waits for them. Returns the milliseconds.
double start_processes(int count, int port) {
  const Clock::time_point begin = Clock::now();
  for (int rank = 0; rank < count; ++rank) {
    if (fork() != 0) continue;
    setsid();  // as mpiexec does: Linux shares processors among sessions
    for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE"})
      unsetenv(name);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    execl("/proc/self/exe", "weir-benchmarks", "start", "--as-rank", nullptr);
    std::_Exit(127);
  }
  bool good = true;
  for (int rank = 0; rank < count; ++rank) {
    int status = 0;
    wait(&status);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!good) fail(WEIR_ERR_TRANSPORT, "not all of {} processes could start MPI: their own errors say why", count);
  return ms_since(begin);
}

/// Does the same by a launcher of MPI.
double start_by_launcher(const std::string& launcher, int count) {
  const Clock::time_point begin = Clock::now();
  const std::string line = fmt::format("{} -n {} /proc/{}/exe start --as-rank", launcher, count, getpid());
  if (std::system(line.c_str()) != 0) fail(WEIR_ERR_TRANSPORT, "'{}' has failed: give a launcher of this MPI", line);
  return ms_since(begin);
}

/// One rank of start_processes(): starts MPI and ends.
void be_rank() {
  start_mpi();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// One client of the server, without MPI.
struct Client {
  Descriptor end{};
  Lines lines{};

  void wait_for(std::string_view wanted) {
    while (true) {
      while (const auto line = lines.next()) {
        if (line->starts_with(wanted)) return;
      }
      if (!wait_to_read(*end, Clock::now() + std::chrono::seconds(60)) || !lines.receive(*end))
        fail(WEIR_ERR_TRANSPORT, "the server has not sent '{}'", wanted);
    }
  }
};

/// Lets `count` clients do what MPICH does, against the server alone. Returns the milliseconds from the first connection to the
/// end.
double serve(int count) {
  const auto hello = [count](int rank) {
    return Hello{.job = "benchmark", .rank = rank, .size = count, .version = "1", .process = 1, .host = "h", .node = "n"};
  };
  const Clock::time_point begin = Clock::now();
  Listener listener = listen_for("127.0.0.1", 36000, 36999, true);
  const int port = std::stoi(listener.where.substr(listener.where.rfind(':') + 1));
  Server server(std::move(listener), hello(0), 60);
  std::string problem;
  const std::vector<Address> addresses = resolve("127.0.0.1", port, problem);
  std::vector<Client> clients(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    Client& client = clients[static_cast<std::size_t>(rank)];
    client.end = rank == 0 ? server.own_connection() : connect_to(addresses.at(0), 60, problem);
    if (!client.end) fail(WEIR_ERR_TRANSPORT, "{}", problem);
    send_all(*client.end, hello(rank).line());
  }
  for (Client& client : clients) client.wait_for("go ");
  for (int barrier = 0; barrier < barriers; ++barrier) {
    for (int rank = 0; rank < count; ++rank) {
      const std::string key = barrier == 0 ? fmt::format("put card{} {}\n", rank, std::string(key_size, 'A')) : "";
      send_all(*clients[static_cast<std::size_t>(rank)].end, key + "barrier\n");
    }
    for (Client& client : clients) client.wait_for("out");
  }
  for (Client& client : clients) send_all(*client.end, "finalize\n");
  server.wait_until_left(60);
  return ms_since(begin);
}

/// Lets this process have as many descriptors as it may.
void raise_descriptors(int needed) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  require(limit.rlim_cur > static_cast<rlim_t>(needed), "{} clients need {} descriptors, and the system allows {}: see ulimit -n",
          needed / 2, needed, limit.rlim_cur);
}

/// Measures and prints one row. `other`, if not empty, does the same in another way.
JsonValue measure(const char* name, int ranks, int rounds, const std::function<double()>& ours,
                  const std::function<double()>& other) {
  std::vector<double> times, others;
  for (int round = 0; round < rounds; ++round) {
    times.push_back(ours());
    if (other) others.push_back(other());
  }
  const double ms = median(times), ratio = other ? ms / median(others) : 0;
  fmt::print("{:<10} {:>6} {:>10.1f} {:>10.1f} {:>12.3f} {:>10}\n", name, ranks, ms, minimum(times), ms / ranks,
             other ? fmt::format("{:.2f}", ratio) : "-");
  std::fflush(stdout);
  return result_row({{"benchmark", name},
                     {"ranks", ranks},
                     {"median_ms", ms},
                     {"min_ms", minimum(times)},
                     {"baseline", other ? "mpiexec" : ""},
                     {"baseline_ms", median(others)},
                     {"ratio", ratio}});
}

void run(const Options& options) {
  require_writable(options.json);
  Rows rows;
  int port = 36000 + static_cast<int>(getpid() % 500) * 40;
  fmt::print("{:<10} {:>6} {:>10} {:>10} {:>12} {:>10}\n", "what", "ranks", "median ms", "min ms", "ms per rank", "to mpiexec");
  raise_descriptors(2 * options.clients + 64);
  rows.push_back(measure("server", options.clients, options.rounds, [&] { return serve(options.clients); }, {}));
  if (std::string_view(weir_mpi_family()) != "MPICH") {
    fmt::print("processes: not measured, because {} can only be started by mpirun\n", weir_mpi_family());
  } else {
    for (const std::int64_t processes : options.processes) {
      const int count = static_cast<int>(processes);
      std::function<double()> other;
      if (!options.mpiexec.empty()) other = [&options, count] { return start_by_launcher(options.mpiexec, count); };
      rows.push_back(measure(
          "processes", count, options.rounds, [&] { return start_processes(count, port += 20); }, other));
    }
  }
  write_rows(rows, options.json);
}

}  // namespace

void add_start(Command& benchmarks) {
  auto options = std::make_shared<Options>();
  auto as_rank = std::make_shared<bool>(false);
  Command command = benchmarks.add("start", "Measure how long processes take to start MPI without mpirun");
  command.option("--processes", options->processes, "numbers of processes to start on this machine").positive();
  command.option("--clients", options->clients, "clients of rank 0's server, without MPI").between(1, 100000);
  command.option("--mpiexec", options->mpiexec, "launcher of this MPI, to start as many processes by turns");
  command.option("--rounds", options->rounds, "times that each is measured").positive();
  command.option("--json", options->json, "also write the rows to this file");
  command.flag("--as-rank", *as_rank, "what the benchmark starts: start MPI, and end");
  command.action([options, as_rank] { *as_rank ? be_rank() : run(*options); });
}

}  // namespace weir::cli
