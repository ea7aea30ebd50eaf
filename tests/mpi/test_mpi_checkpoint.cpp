// test_mpi_checkpoint.cpp: checkpoints of real processes: saved and restored, unreadable on one process, too large on one process,
// and a stop request to one of them.
#include <fcntl.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <csignal>
#include <filesystem>
#include <vector>
#include <weir/checkpoint.hpp>

#include "support/catch.hpp"
#include "support/shared_folder.hpp"

namespace weir::test {
namespace {

struct Model {
  explicit Model(const Communicator& comm) : plan(comm, {.count = 50000, .k = 300}) {}
  void train(const Communicator& comm, int t) {
    std::vector<float> gradient(50000);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(t * 7 + comm.rank())) % 1009);
    plan.run(gradient);
    for (std::size_t i = 0; i < gradient.size(); ++i) weights[i] += gradient[i];
  }
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("gradient", plan);
    checkpoint.add_replicated("weights", std::span(weights));
  }
  [[nodiscard]] std::vector<float> residual() const {
    const auto kept = plan.residual<float>();
    return {kept.begin(), kept.end()};
  }
  AllreducePlan plan;
  std::vector<float> weights = std::vector<float>(50000);
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns rank 0's text on every rank. Checks that all ranks have the same.
std::string agreed(const std::string& text) {
  std::string first = text;
  first.resize(600);
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  first = first.c_str();
  CHECK(first == text);
  return first;
}

}  // namespace

TEST_CASE("a run goes on from a file", "[checkpoint]") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  std::vector<float> weights, residual;
  {
    Model model(comm);
    Checkpoint checkpoint(comm, {.folder = folder.path()});
    model.add_to(checkpoint);
    for (int t = 0; t < 6; ++t) {
      if (t == 3) checkpoint.save(t);  // written behind what follows
      model.train(comm, t);
    }
    weights = model.weights;
    residual = model.residual();
  }
  Model model(comm);
  Checkpoint checkpoint(comm, {.folder = folder.path()});
  model.add_to(checkpoint);
  REQUIRE(checkpoint.restore() == 3);
  for (int t = 3; t < 6; ++t) model.train(comm, t);
  CHECK(model.weights == weights);
  CHECK(model.residual() == residual);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("a file that one rank cannot read is refused by all", "[checkpoint]") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  Model model(comm);
  Checkpoint checkpoint(comm, {.folder = folder.path()});
  model.add_to(checkpoint);
  checkpoint.save(1).wait();
  model.train(comm, 1);
  const std::vector<float> before = model.weights;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit enough = files;
  if (comm.rank() == folder.last() && comm.size() > 1) {
    const int next = ::open("/dev/null", O_RDONLY);
    ::close(next);
    files.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  const std::string text = agreed(error_of([&] { checkpoint.restore(); }));
  setrlimit(RLIMIT_NOFILE, &enough);
  if (comm.size() > 1) {
    CHECK_THAT(text, Catch::Contains("rank " + std::to_string(folder.last())) && Catch::Contains("cannot open " + folder.path()));
    CHECK(model.weights == before);
  }
  CHECK(checkpoint.restore() == 1);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("a save that one rank cannot write fails on all, and the run goes on", "[checkpoint]") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  Model model(comm);
  Checkpoint checkpoint(comm, {.folder = folder.path()});
  model.add_to(checkpoint);
  checkpoint.save(1).wait();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit size{};
  getrlimit(RLIMIT_FSIZE, &size);
  const rlimit enough = size;
  size.rlim_cur = 100000;
  if (comm.rank() == folder.last()) setrlimit(RLIMIT_FSIZE, &size);
  Operation save = checkpoint.save(2);
  model.train(comm, 1);
  const std::string text = agreed(error_of([&] { save.wait(); }));
  setrlimit(RLIMIT_FSIZE, &enough);
  CHECK_THAT(text, Catch::Contains(folder.path()));
  CHECK(checkpoint.steps() == std::vector<std::int64_t>{1});
  model.train(comm, 2);
  checkpoint.save(3).wait();
  CHECK(checkpoint.restore() == 3);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    CHECK(!entry.path().filename().string().starts_with("."));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("a signal of one rank asks all to stop", "[checkpoint]") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  Checkpoint checkpoint(comm, {.folder = folder.path()});
  Checkpoint::catch_signal(SIGUSR1);
  CHECK(!checkpoint.stop_requested());
  if (comm.rank() == folder.last()) std::raise(SIGUSR1);
  CHECK(checkpoint.stop_requested());
  CHECK_THROWS_WITH(Checkpoint::catch_signal(SIGKILL), Catch::Contains("cannot be caught"));
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace weir::test
