// Programs that end in an unusual way: the caller's exception on one rank, a rank that makes no communicator, MPI_Finalize before
// Weir's objects are destroyed or while long messages are in flight, a peer that comes after the deadline, and programs with a
// progress thread, which may be active when they end. Each must end by itself, soon, and say what happened. The argument names the
// case.
#include <sys/wait.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "support/timeouts.hpp"

namespace {

using namespace weir;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Ends the job after the launcher has read the output: MPICH's launcher loses the last lines before an abort in 4 of 100 runs,
/// also of programs without Weir.
void abort_job(int status) {
  std::fflush(stdout);
  usleep(200'000);
  MPI_Abort(MPI_COMM_WORLD, status);
}

/// Follows docs/troubleshooting.md: an error on one rank alone is printed, and ends the job.
void exception() {
  try {
    const Communicator comm(MPI_COMM_WORLD);
    AllreducePlan dense(comm, {.count = 10000, .algorithm = "dense_torus2d"}),
        sparse(comm, {.count = 10000, .algorithm = "hi_oktopk"});
    std::vector<float> gradient(10000, 1);
    dense.run(gradient);
    sparse.run(gradient);
    if (comm.rank() == 1) throw std::runtime_error("the caller's own");
    dense.run(gradient);  // waits for rank 1
  } catch (const std::exception& error) {
    std::printf("rank %d ended: %s\n", world_rank(), error.what());
    abort_job(3);
  }
}

/// The caller's exception on one rank, with runs in flight whose gradients are destroyed before the plans.
void unwinding() {
  try {
    const Communicator comm(MPI_COMM_WORLD);
    AllreducePlan dense(comm, {.count = 1000000, .algorithm = "dense_ring"}), sparse(comm, {.count = 1000000});
    std::vector<float> first(1000000, 1), second(1000000, 1);
    Operation of_dense = dense.start(first), of_sparse = sparse.start(second);
    if (comm.rank() == 1) throw std::runtime_error("the caller's own");
    of_sparse.wait();
    of_dense.wait();
  } catch (const std::exception& error) {
    std::printf("rank %d ended: %s\n", world_rank(), error.what());
    if (world_rank() != 1) sleep(2);  // rank 1 is heard first
    abort_job(3);
  }
}

/// One rank makes no communicator.
void absent() {
  setenv("WEIR_TIMEOUT", "1", 1);
  if (world_rank() == 2) return void(sleep(20));
  try {
    const Communicator comm(MPI_COMM_WORLD);
  } catch (const Error& error) {
    std::printf("rank %d ended: %s\n", world_rank(), error.what());
    sleep(1);
    abort_job(3);
  }
}

/// MPICH's MPI_Finalize turns off its locks when it begins, and aborts if a thread is within MPI at that moment.
#ifdef MPICH_VERSION
constexpr bool finalize_bears_threads = false;
#else
constexpr bool finalize_bears_threads = true;
#endif

/// Leaves a run in flight, unless MPI_Finalize does not allow the thread that advances it. The schedule one_round has long
/// messages.
void after_finalize(const std::string& parameters, bool progress_thread) {
  auto comm = std::make_unique<Communicator>(MPI_COMM_WORLD);
  auto running = std::make_unique<AllreducePlan>(
      *comm, AllreduceConfig{.count = 1000000, .algorithm_parameters = parameters, .name = "running"});
  auto idle = std::make_unique<AllreducePlan>(*comm, AllreduceConfig{.count = 1000, .algorithm = "dense_torus2d"});
  std::vector<float> gradient(1000000, 1), small(1000, 1);
  idle->run(small);
  const bool in_flight = !progress_thread || finalize_bears_threads;
  Operation operation = running->start(gradient);
  if (!in_flight) operation.wait();
  MPI_Finalize();
  int refused = 0;
  const auto expect_refusal = [&](auto call, weir_status status = WEIR_ERR_STATE, std::string_view part = "after MPI_Finalize") {
    try {
      call();
    } catch (const Error& error) {
      refused += error.status() == status && std::string_view(error.what()).find(part) != std::string_view::npos;
    }
  };
  expect_refusal([&] { in_flight ? operation.wait() : running->run(gradient); });
  expect_refusal([&] { in_flight ? void(operation.test()) : void(running->start(gradient)); });
  expect_refusal([&] { idle->run(small); });
  expect_refusal([&] { AllreducePlan(*comm, {.count = 10}); });
  expect_refusal([&] { Communicator again(MPI_COMM_WORLD); }, WEIR_ERR_ARGUMENT, "MPI_Finalize has been called");
  running.reset();
  idle.reset();
  comm.reset();
  std::printf("after MPI_Finalize: %d of 5 refused\n", refused);
}

/// Leaves runs with long messages in flight. MPICH's MPI_Finalize waits for ever if a peer does not progress these. One rank calls
/// it late.
void in_flight(bool progress_thread) {
  if (progress_thread && !finalize_bears_threads) {
    std::printf("skipped: MPICH's MPI_Finalize aborts where a thread is within MPI while it begins: it turns its locks off\n");
    MPI_Finalize();
    return;
  }
  const int rank = world_rank();
  const Communicator comm(MPI_COMM_WORLD), other(MPI_COMM_WORLD);
  std::deque<AllreducePlan> plans;
  for (const char* const algorithm : {"dense_ring", "dense_mpi"}) {
    plans.emplace_back(comm, AllreduceConfig{.count = 3000000, .algorithm = algorithm});
    plans.emplace_back(other, AllreduceConfig{.count = 100000, .algorithm = algorithm});
  }
  const std::size_t dense = plans.size();
  for (const std::string parameters : {"schedule=direct", "schedule=phased", "schedule=one_round"}) {
    plans.emplace_back(comm, AllreduceConfig{.count = 3000000, .algorithm = "oktopk", .algorithm_parameters = parameters});
    plans.emplace_back(other, AllreduceConfig{.count = 1000000, .algorithm = "oktopk", .algorithm_parameters = parameters});
  }
  std::deque<std::vector<float>> gradients;
  std::vector<Operation> operations;
  for (AllreducePlan& plan : plans) {
    std::vector<float>& gradient = gradients.emplace_back(plan.config().count, 1.0F);
    operations.push_back(plan.start(gradient));
  }
  if (rank == 0) sleep(1);
  MPI_Finalize();
  int delivered = 0, refused = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    try {
      operations[i].wait();
      delivered += i < dense && gradients[i] == std::vector<float>(gradients[i].size(), 1);
    } catch (const Error& error) {
      refused += i >= dense && weir_status(error.status()) == WEIR_ERR_STATE;
    }
  }
  std::printf("rank %d, after MPI_Finalize: %d dense results, %d sparse ones refused\n", rank, delivered, refused);
}

void late_peer() {
  const bool late = world_rank() == 0;
  {
    Communicator comm(MPI_COMM_WORLD);
    AllreducePlan dense(comm, {.count = 100000, .algorithm = "dense_torus2d"}), sparse(comm, {.count = 100000});
    std::vector<float> gradient(100000, 1);
    dense.run(gradient);
    sparse.run(gradient);
    test::set_timeout(comm, 1);
    if (late) sleep(3);
    try {
      sparse.run(gradient);
      std::printf("rank %d: no error\n", comm.rank());
    } catch (const Error& error) {
      std::printf("rank %d: %s\n", comm.rank(), weir_status(error.status()) == WEIR_ERR_TIMEOUT ? "timeout" : error.what());
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (late) std::printf("all ranks have ended\n");
  MPI_Finalize();
}

/// With a progress thread, a rank inside an MPI call after start() does not delay the others.
void computes() {
  {
    const Communicator comm(MPI_COMM_WORLD);
    AllreducePlan dense(comm, {.count = 3000000, .algorithm = "dense_ring"}), sparse(comm, {.count = 1000000});
    std::vector<float> first(3000000, 1), second(1000000, 1);
    Operation of_dense = dense.start(first), of_sparse = sparse.start(second);
    if (comm.rank() == 0) {
      for (int peer = 1; peer < comm.size(); ++peer) MPI_Recv(nullptr, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    of_sparse.wait();
    of_dense.wait();
    if (comm.rank() != 0) MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    if (comm.rank() == 0) std::printf("nobody has waited for rank 0\n");
  }
  MPI_Finalize();
}

/// The same without threads in MPI is refused on all ranks.
void one_thread() {
  try {
    const Communicator comm(MPI_COMM_WORLD);
  } catch (const Error& error) {
    std::printf("refused: %s: %s\n", error.status() == WEIR_ERR_SETTING ? "WEIR_ERR_SETTING" : "another status", error.what());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// A child has its parent's plans, but neither its threads nor its MPI.
void forked() {
  {
    const Communicator comm(MPI_COMM_WORLD);
    AllreducePlan plan(comm, {.count = 1000});
    std::vector<float> gradient(1000, 1);
    plan.run(gradient);
    const pid_t child = fork();
    if (child == 0) {
      try {
        plan.run(gradient);
      } catch (const Error& error) {
        std::printf("child: %s: %s\n", error.status() == WEIR_ERR_STATE ? "WEIR_ERR_STATE" : "another status", error.what());
      }
      std::exit(0);  // with all that ends by itself
    }
    int status = -1;
    waitpid(child, &status, 0);
    plan.run(gradient);
    if (comm.rank() == 0) std::printf("its parent goes on, and it ended with %d\n", status);
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view end = argc > 1 ? argv[1] : "";
  const bool threads = end == "computes" || end == "after_finalize_threads" || end == "in_flight_threads";
  if (threads || end == "one_thread") setenv("WEIR_PROGRESS_THREAD", "anywhere", 1);
  int level = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  if (end == "exception") exception();
  if (end == "unwinding") unwinding();
  if (end == "absent") absent();
  if (end == "after_finalize" || end == "after_finalize_threads") after_finalize("", threads);
  if (end == "after_finalize_long") after_finalize("schedule=one_round", threads);
  if (end == "in_flight" || end == "in_flight_threads") in_flight(threads);
  if (end == "late_peer") late_peer();
  if (end == "computes") computes();
  if (end == "one_thread") one_thread();
  if (end == "forked") forked();
  return 0;
}
