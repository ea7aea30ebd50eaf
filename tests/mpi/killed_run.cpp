// killed_run.cpp: a run for test_killed_runs.sh that is killed repeatedly and continues from its checkpoints.
//
//   killed_run record FILE STEPS        writes a hash of every rank's state after each undisturbed step
//   killed_run train FOLDER FILE        continues from the newest checkpoint, compares the restored state with FILE, and trains
//   until it
//                                       is killed; exit status 3: the restored state is wrong, or too old
//
// FOLDER/started holds the step of the last save that was started. Its file, or the file of the save before it, must exist.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>

namespace {

constexpr std::int64_t count = 12000, interval = 5;

std::uint64_t hash(std::uint64_t h, const void* data, std::size_t bytes) {
  const auto* const p = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

struct Training {
  explicit Training(const weir::Communicator& comm)
      : rank(comm.rank()), plan(comm, {.count = count, .k = 200, .threshold = "reuse"}), gradient(count), weights(count) {}

  void step(std::int64_t number) {
    std::uint64_t random = static_cast<std::uint64_t>(number * 977 + rank + 1);
    for (float& x : gradient) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(static_cast<std::int64_t>(random >> 40) - (1 << 23)) * 1e-6F;
    }
    plan.run(gradient);
    for (std::int64_t i = 0; i < count; ++i) weights[static_cast<std::size_t>(i)] += gradient[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::uint64_t state() const {
    const auto residual = plan.residual<float>();
    return hash(hash(0xcbf29ce484222325u, residual.data(), residual.size_bytes()), weights.data(), weights.size() * sizeof(float));
  }

  int rank;
  weir::AllreducePlan plan;
  std::vector<float> gradient, weights;
};

void record(const weir::Communicator& comm, const std::string& path, std::int64_t steps) {
  Training training(comm);
  std::vector<std::uint64_t> mine, all;
  for (std::int64_t step = 0; step <= steps; ++step) {
    mine.push_back(step % interval == 0 ? training.state() : 0);
    if (step < steps) training.step(step);
  }
  all.resize(mine.size() * static_cast<std::size_t>(comm.size()));
  MPI_Gather(mine.data(), static_cast<int>(mine.size()), MPI_UINT64_T, all.data(), static_cast<int>(mine.size()), MPI_UINT64_T, 0,
             MPI_COMM_WORLD);
  if (comm.rank() == 0)
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size() * 8));
}

[[noreturn]] void wrong(const std::string& text) {
  std::fprintf(stderr, "killed_run: %s\n", text.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

void train(const weir::Communicator& comm, const std::string& folder, const std::string& path) {
  std::vector<std::uint64_t> all(std::filesystem::file_size(path) / 8);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size() * 8));
  const std::size_t per_rank = all.size() / static_cast<std::size_t>(comm.size());
  const auto expected = [&](std::int64_t step) {
    return all[static_cast<std::size_t>(comm.rank()) * per_rank + static_cast<std::size_t>(step)];
  };
  Training training(comm);
  weir::Checkpoint checkpoint(comm, {.folder = folder + "/files"});
  checkpoint.add("gradient", training.plan);
  checkpoint.add_replicated("weights", std::span(training.weights));
  std::int64_t started = 0;
  std::ifstream(folder + "/started") >> started;
  const std::int64_t step = checkpoint.restore().value_or(0);
  if (step > 0 && training.state() != expected(step))
    wrong("rank " + std::to_string(comm.rank()) + " has another state at step " + std::to_string(step));
  if (step < started - interval)
    wrong("the newest file is of step " + std::to_string(step) + ", and step " + std::to_string(started) + " was being saved");
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/files")) {
    if (entry.path().filename().string().starts_with(".")) wrong("a save that was interrupted has left " + entry.path().string());
  }
  if (checkpoint.steps().size() > 3) wrong("old files stay");  // two, and the one that took its place as the run was killed
  if (comm.rank() == 0) {
    std::printf("%lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
  const int note = ::open((folder + "/started").c_str(), O_WRONLY | O_CREAT, 0666);
  for (std::int64_t s = step; static_cast<std::size_t>(s) < per_rank; ++s) {
    if (s % interval == 0 && s > step) {
      checkpoint.save(s);
      char text[32];
      const int length = std::snprintf(text, sizeof text, "%-20lld\n", static_cast<long long>(s));
      if (comm.rank() == 0 && ::pwrite(note, text, static_cast<std::size_t>(length), 0) != length) wrong("cannot write");
    }
    training.step(s);
    ::usleep(3000);  // on no machine so fast that the steps come to an end
  }
  wrong("it was never killed");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const weir::Communicator comm(MPI_COMM_WORLD);
    if (argc == 4 && std::strcmp(argv[1], "record") == 0)
      record(comm, argv[2], std::atoll(argv[3]));
    else if (argc == 4 && std::strcmp(argv[1], "train") == 0)
      train(comm, argv[2], argv[3]);
    else
      wrong("usage: killed_run record FILE STEPS | train FOLDER FILE");
  } catch (const std::exception& error) {
    wrong(error.what());
  }
  MPI_Finalize();
}
