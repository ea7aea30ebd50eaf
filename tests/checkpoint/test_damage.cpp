// test_damage.cpp: damaged files, and files with other content, are refused with the same error on all ranks, and nothing changes.
// A full disk fails the save, but not the run.
#include <hdf5.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <weir/checkpoint.hpp>

#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/whole_file.hpp"
#include "embedding/table.hpp"
#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/saved_states.hpp"
#include "support/table_training.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 3;
constexpr std::int64_t count = 3001;

AllreduceConfig plan_config() { return {.count = count, .k = 60, .threshold = "reuse"}; }

/// The saved objects of one rank.
struct Model {
  explicit Model(Communicator& comm) : plan(comm, plan_config()), table(comm, make_table_config("columns", 40, 6, 16)) {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  }
  void train(const Communicator& comm, int steps) {
    for (int t = 0; t < steps; ++t) {
      std::vector<float> gradient = make_input<float>(Input::heavy_tailed, count, comm.rank(), comm.size(), t);
      plan.run(gradient);
      weights[0] += 1;
    }
  }
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("gradient", plan);
    checkpoint.add("words", table);
    checkpoint.add("blocks", schedule);
    checkpoint.add_replicated("weights", std::span(weights));
    checkpoint.add_local("seeds", std::span(seeds));
  }
  /// Returns the state of all objects as bytes.
  [[nodiscard]] std::string bytes() const {
    std::string all;
    const auto append = [&](const SavedState& state) {
      for (const StateField& field : state.fields)
        all.append(reinterpret_cast<const char*>(field.bytes.data()), static_cast<std::size_t>(field.bytes.size()));
    };
    append(save_state(*plan.state()));
    append(save_state(*table.state()));
    all.append(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float));
    return all.append(reinterpret_cast<const char*>(seeds.data()), seeds.size() * sizeof(std::int64_t));
  }

  AllreducePlan plan;
  EmbeddingTable table;
  StepSchedule schedule{{"encoder", "decoder"}};
  std::vector<float> weights = std::vector<float>(200000);
  std::vector<std::int64_t> seeds = {1, 2, 3};
};

void write_file(const std::string& folder, std::int64_t compression = 0) {
  run_ranks(ranks, [&](Communicator& comm) {
    Model model(comm);
    Checkpoint checkpoint(comm, {.folder = folder, .run = "first", .compression = compression});
    model.add_to(checkpoint);
    model.train(comm, 3);
    checkpoint.save(3).wait();
  });
}

/// Restores and compares the errors of all ranks. Fails if ranks differ, or if a refused file changes an object.
class Restoring {
 public:
  explicit Restoring(std::string folder) : folder_(std::move(folder)) {}

  /// Calls look(attempt) with a function that restores and returns the error's text. attempt(spoil) spoils the file before, on rank
  /// 0, and mend() mends it.
  void run(const std::function<void(const std::function<std::string()>& restore, int rank)>& body, int job_ranks = ranks) {
    run_ranks(job_ranks, [&](Communicator& comm) {
      Model model(comm);
      Checkpoint checkpoint(comm, {.folder = folder_});
      model.add_to(checkpoint);
      model.train(comm, 1);
      const std::string before = model.bytes();
      body(
          [&]() -> std::string {
            std::string text;
            weir_status status = WEIR_OK;
            try {
              checkpoint.restore();
            } catch (const Error& error) {
              text = error.what();
              status = error.status();
            }
            check_same(comm, text);
            if (text.empty()) {
              check.that(good_.empty() || model.bytes() == good_[static_cast<std::size_t>(comm.rank())], "restored something else");
              return "";
            }
            check.that(status == WEIR_ERR_FILE || status == WEIR_ERR_MISMATCH, "the status of: " + text);
            check.that(text.find(folder_) != std::string::npos, "no file is named in: " + text);
            check.that(model.bytes() == before || (!good_.empty() && model.bytes() == good_[static_cast<std::size_t>(comm.rank())]),
                       "a refused file has changed something: " + text);
            return text;
          },
          comm.rank());
    });
  }
  /// Records the state of every restored rank.
  void note_good() {
    good_.resize(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      Model model(comm);
      Checkpoint checkpoint(comm, {.folder = folder_});
      model.add_to(checkpoint);
      checkpoint.restore();
      good_[static_cast<std::size_t>(comm.rank())] = model.bytes();
    });
  }

  RankCheck check;

 private:
  void check_same(Communicator& comm, const std::string& text) {
    struct Card {
      std::array<char, 600> text{};
    } mine;
    text.copy(mine.text.data(), mine.text.size() - 1);
    for (const Card& other : comm.state()->share("comparing texts", mine))
      check.that(other.text == mine.text, "ranks throw different errors: " + text + " and " + other.text.data());
  }

  std::string folder_;
  std::vector<std::string> good_;
};

std::string file_in(const TemporaryFolder& folder) { return folder.path() + "/checkpoint-3.h5"; }

void flip(const std::string& path, std::int64_t byte, int bit) {
  const checkpoint::File file = checkpoint::File::open_to_write(path);
  std::byte x{};
  file.read_at(byte, {&x, 1});
  x ^= std::byte{1} << bit;
  file.write_at(byte, {&x, 1});
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void set_contents(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Returns the error of all ranks after rank 0 has called `spoil`. The file is then repaired.
std::string refusal(const TemporaryFolder& folder, const std::function<void()>& spoil) {
  const std::string whole = contents_of(file_in(folder));
  std::string text;
  Restoring restoring(folder.path());
  restoring.run([&](const auto& restore, int rank) {
    if (rank == 0) spoil();
    const std::string mine = restore();
    if (rank == 0) text = mine;
  });
  set_contents(file_in(folder), whole);
  REQUIRE(restoring.check.failure() == "");
  return text;
}

}  // namespace

TEST_CASE("any flipped bit is found, or was not needed", "[checkpoint]") {
  for (const std::int64_t compression : {0, 1}) {
    const TemporaryFolder folder;
    write_file(folder.path(), compression);
    const std::string path = file_in(folder);
    Restoring restoring(folder.path());
    restoring.note_good();
    const std::int64_t size = checkpoint::File::open_to_read(path).size();
    std::mt19937_64 random(7);
    int refused = 0;
    const int flips = 500 / static_cast<int>(test_every());
    restoring.run([&](const auto& restore, int rank) {
      std::mt19937_64 mine = random;
      for (int i = 0; i < flips; ++i) {
        const auto byte = static_cast<std::int64_t>(mine() % static_cast<std::uint64_t>(size));
        const int bit = static_cast<int>(mine() % 8);
        if (rank == 0) flip(path, byte, bit);
        const std::string text = restore();
        if (rank != 0) continue;
        flip(path, byte, bit);
        refused += text.empty() ? 0 : 1;
      }
    });
    CHECK(restoring.check.failure() == "");
    CHECK(refused > 0);

    // Damage every dataset, and every part of the structure.
    const checkpoint::Index index = checkpoint::read_whole(path);
    std::vector<std::pair<std::int64_t, std::string>> places;
    for (const checkpoint::Subject& subject : index.subjects) {
      for (const checkpoint::Dataset& dataset : subject.datasets) {
        for (const checkpoint::Chunk& chunk : dataset.chunks)
          places.emplace_back(chunk.address + chunk.bytes / 2, subject.path() + "/" + dataset.name);
      }
    }
    for (const checkpoint::Extent& extent : checkpoint::read_sealed(checkpoint::File::open_to_read(path)).extents) {
      for (int part = 0; part < 8; ++part) places.emplace_back(extent.begin + extent.bytes * part / 8, "");
    }
    Restoring named(folder.path());
    named.run([&](const auto& restore, int rank) {
      for (const auto& [byte, name] : places) {
        if (rank == 0) flip(path, byte, 3);
        const std::string text = restore();
        named.check.that(!text.empty(), "byte " + std::to_string(byte) + " of " + name + " was flipped, and nobody saw it");
        named.check.that(text.find(name) != std::string::npos, "'" + text + "' does not name " + name);
        if (rank == 0) flip(path, byte, 3);
      }
    });
    CHECK(named.check.failure() == "");
  }
}

TEST_CASE("truncated files and other files are refused", "[checkpoint]") {
  const TemporaryFolder folder;
  write_file(folder.path());
  const std::string path = file_in(folder), whole = contents_of(path);
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    const std::string text = refusal(folder, [&] { set_contents(path, whole.substr(0, length)); });
    CHECK_THAT(text, Catch::Contains(path));
    CHECK_THAT(text, Catch::Contains("damaged") || Catch::Contains("no HDF5 file"));
  }
  CHECK_THAT(refusal(folder, [&] { set_contents(path, "Dear reader, this is a letter, and no checkpoint at all.\n" + whole); }),
             Catch::Contains("is no HDF5 file"));
  CHECK_THAT(refusal(folder, [&] { set_contents(path, whole + "x"); }), Catch::Contains("changed by another program"));
  CHECK_THAT(refusal(folder, [&] { std::filesystem::remove(path); }), Catch::Contains(""));  // an empty folder is a fresh start
}

TEST_CASE("a newer schema is refused", "[checkpoint]") {
  const TemporaryFolder folder;
  write_file(folder.path());
  const std::string path = file_in(folder);
  const std::vector<checkpoint::Extent> extents = checkpoint::read_sealed(checkpoint::File::open_to_read(path)).extents;
  const std::string text = refusal(folder, [&] {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(file, "weir_checkpoint_schema", H5P_DEFAULT);
    const std::int64_t newer = 2;
    H5Awrite(attribute, H5T_NATIVE_INT64, &newer);
    H5Aclose(attribute);
    H5Fclose(file);
    const checkpoint::File again = checkpoint::File::open_to_write(path);
    checkpoint::Structure structure{.file_bytes = again.size(), .extents = extents};
    for (const checkpoint::Extent& extent : structure.extents) {
      const std::size_t before = structure.bytes.size();
      structure.bytes.resize(before + static_cast<std::size_t>(extent.bytes));
      again.read_at(extent.begin, std::span(structure.bytes).subspan(before));
    }
    checkpoint::write_sealed(again, structure);
  });
  CHECK_THAT(text, Catch::Contains("has schema 2: this library reads schema 1"));
}

TEST_CASE("a file of another model is refused", "[checkpoint]") {
  const TemporaryFolder folder;
  write_file(folder.path());
  const auto refusal_of = [&](const std::function<void(Communicator&, Checkpoint&)>& build, const std::string& run = "") {
    std::vector<std::string> texts(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      try {
        Checkpoint checkpoint(comm, {.folder = folder.path(), .run = run});
        build(comm, checkpoint);
      } catch (const Error& error) {
        texts[static_cast<std::size_t>(comm.rank())] = error.what();
      }
    });
    for (const std::string& text : texts) CHECK(text == texts[0]);
    return texts[0];
  };
  CHECK_THAT(refusal_of([](Communicator& comm, Checkpoint& checkpoint) {
               AllreducePlan plan(comm, plan_config());
               checkpoint.add("gradient", plan);
               checkpoint.restore();
             }),
             Catch::Contains("it has table 'words', which was not added here"));
  CHECK_THAT(refusal_of([](Communicator& comm, Checkpoint& checkpoint) {
               Model model(comm);
               model.add_to(checkpoint);
               AllreducePlan more(comm, plan_config());
               checkpoint.add("bias", more);
               checkpoint.restore();
             }),
             Catch::Contains("it has no plan 'bias', which was added here"));
  const auto with_plan = [&](const AllreduceConfig& config) {
    return refusal_of([&](Communicator& comm, Checkpoint& checkpoint) {
      Model model(comm);
      AllreducePlan other(comm, config);
      model.plan = std::move(other);
      model.add_to(checkpoint);
      checkpoint.restore();
    });
  };
  AllreduceConfig config = plan_config();
  config.count = count + 1;
  CHECK_THAT(with_plan(config), Catch::Contains("field 'count': it is 3001 in the state and 3002 here"));
  config = plan_config();
  config.type = DataType::float64;
  CHECK_THAT(with_plan(config), Catch::Contains("field 'element_bytes'"));
  config = plan_config();
  config.algorithm = "gtopk";
  CHECK_THAT(with_plan(config), Catch::Contains("'oktopk' in the state and 'gtopk' here"));
  config = plan_config();
  config.error_feedback = Feedback::none;
  CHECK_THAT(with_plan(config), Catch::Contains("residual"));
  CHECK_THAT(refusal_of([](Communicator& comm, Checkpoint& checkpoint) {
               Model model(comm);
               model.weights.resize(7);
               model.add_to(checkpoint);
               checkpoint.restore();
             }),
             Catch::Contains("weights") && Catch::Contains("200000"));
  CHECK_THAT(refusal_of([](Communicator&, Checkpoint&) {}, "second"),
             Catch::Contains("belongs to another run") && Catch::Contains("'first'"));
  CHECK_THAT(refusal_of([](Communicator&, Checkpoint& checkpoint) { checkpoint.restore_step(4); }),
             Catch::Contains("there is no file") && Catch::Contains("those of steps 3"));
}

TEST_CASE("wrong calls", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto text_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    const auto says = [&](const std::string& text, const std::string& part) {
      check.that(text.find(part) != std::string::npos, "'" + text + "' lacks '" + part + "'");
    };
    says(text_of([&] { Checkpoint(comm, {.folder = ""}); }), "folder is empty");
    says(text_of([&] { Checkpoint(comm, {.folder = folder.path() + "/a/b"}); }), "there is no folder");
    says(text_of([&] { Checkpoint(comm, {.folder = folder.path(), .keep = 0}); }), "keep is 0");
    says(text_of([&] { Checkpoint(comm, {.folder = folder.path() + (comm.rank() == 0 ? "" : "/x")}); }), "it must be the same");
    Checkpoint checkpoint(comm, {.folder = folder.path() + "/new"});
    std::vector<float> x(10);
    checkpoint.add_replicated("x", std::span(x));
    says(text_of([&] { checkpoint.add_replicated("x", std::span(x)); }), "names must differ");
    says(text_of([&] { checkpoint.add_replicated("a/b", std::span(x)); }), "letters, digits");
    says(text_of([&] { checkpoint.add_block("y", std::span(x), 5, 14); }), "not within 0 to total, 14");
    says(text_of([&] { checkpoint.save(-1).wait(); }), "step is -1");
    says(text_of([&] { checkpoint.save(comm.rank()).wait(); }), "ranks save different steps");
    says(text_of([&] { (void)checkpoint.integer("epoch"); }), "has no integer 'epoch'");
    if (comm.rank() == 0) checkpoint.add_local("only_here", std::span(x));
    says(text_of([&] { checkpoint.save(1).wait(); }), "rank 0 has array 'only_here', rank 1 has not");
    check.that(checkpoint.steps().empty(), "a refused save has left a file");

    Checkpoint other(comm, {.folder = folder.path() + "/other"});
    {
      AllreducePlan plan(comm, {.count = 100});
      other.add("plan", plan);
      Operation run = plan.start(std::span(x));
      says(text_of([&] { run.wait(); }), "gave a gradient of 10 elements");
      std::vector<float> gradient(100);
      run = plan.start(gradient);
      if (comm.rank() == 1) run.wait();
      const std::string text = text_of([&] { other.save(1).wait(); });
      check.that(text.empty() || text.find("is running") != std::string::npos, "a save in the middle of a run: " + text);
      run.wait();
      other.save(2).wait();
    }
    says(text_of([&] { other.save(3).wait(); }), "plan 'plan' was destroyed");
    check.that(!other.stop_requested(), "nobody has asked for a stop");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("what could not be restored is not saved", "[checkpoint]") {
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const auto refused = [&](const std::string& part, const auto& add) {
      std::vector<float> x(10);
      Checkpoint checkpoint(comm, {.folder = folder.path()});
      add(checkpoint, std::span(x), comm.rank());
      std::string text;
      try {
        checkpoint.save(1).wait();
      } catch (const Error& error) {
        text = error.what();
      }
      check.that(text.find(part) != std::string::npos, "'" + text + "' lacks '" + part + "'");
    };
    refused("rank 0 has 10 elements, rank 1 has 9",
            [](Checkpoint& c, std::span<float> x, int rank) { c.add_replicated("x", x.first(rank == 1 ? 9 : 10)); });
    refused("rank 0 has 10 elements, rank 2 has 11",
            [](Checkpoint& c, std::span<float> x, int rank) { c.add_block("x", x.first(0), 0, rank == 2 ? 11 : 10); });
    refused("no rank has element 4",
            [](Checkpoint& c, std::span<float> x, int rank) { c.add_block("x", x.first(2), rank * 3 - (rank == 1 ? 1 : 0), 8); });
    refused("two ranks have element 2",
            [](Checkpoint& c, std::span<float> x, int rank) { c.add_block("x", x.first(3), rank * 2, 7); });
    refused("distributed in another way", [](Checkpoint& c, std::span<float> x, int rank) {
      if (rank == 0)
        c.add_local("x", x);
      else
        c.add_replicated("x", x);
    });
    check.that(Checkpoint(comm, {.folder = folder.path()}).steps().empty(), "a refused save has left a file");
  });
  CHECK(check.failure() == "");
}

TEST_CASE("one run at a time saves into a folder", "[checkpoint]") {
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    std::vector<float> x(10, 1);
    Checkpoint first(comm, {.folder = folder.path()});
    first.add_replicated("x", std::span(x));
    first.save(1).wait();
    std::string text;
    {
      Checkpoint second(comm, {.folder = folder.path()});
      second.add_replicated("x", std::span(x));
      check.that(second.restore() == 1, "others may restore");
      try {
        second.save(2).wait();
      } catch (const Error& error) {
        text = error.what();
      }
    }
    check.that(text.find("saves into " + folder.path()) != std::string::npos, "'" + text + "'");
    first.save(2).wait();
    check.that(first.steps() == std::vector<std::int64_t>{1, 2}, "the first goes on");
  });
  run_ranks(2, [&](Communicator& comm) {
    std::vector<float> x(10, 1);
    Checkpoint next(comm, {.folder = folder.path()});
    next.add_replicated("x", std::span(x));
    next.save(3).wait();  // the folder is free again
  });
  CHECK(check.failure() == "");
}

TEST_CASE("files that are none, or have another's name", "[checkpoint]") {
  const TemporaryFolder folder;
  write_file(folder.path());
  const std::string path = file_in(folder);
  std::filesystem::create_directory(folder.path() + "/checkpoint-7.h5");
  REQUIRE(mkfifo((folder.path() + "/checkpoint-8.h5").c_str(), 0666) == 0);
  std::filesystem::create_symlink("nowhere", folder.path() + "/checkpoint-9.h5");
  std::filesystem::copy_file(path, folder.path() + "/checkpoint-108.h5");
  std::filesystem::remove(folder.path() + "/manifest.json");
  set_contents(folder.path() + "/checkpoint-200.h5", "damaged");
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    Model model(comm);
    Checkpoint checkpoint(comm,
                          {.folder = folder.path(), .run = "first"});  // damaged files do not prevent others from being restored
    model.add_to(checkpoint);
    check.that(checkpoint.steps() == std::vector<std::int64_t>{3, 108, 200}, "the steps");
    std::string text;
    try {
      checkpoint.restore_step(108);
    } catch (const Error& error) {
      text = error.what();
    }
    check.that(text.find("has step 3: it was renamed") != std::string::npos, "'" + text + "'");
    checkpoint.restore_step(3);
  });
  CHECK(check.failure() == "");
  CHECK_THROWS_WITH(Checkpoint::catch_signal(SIGSEGV), Catch::Contains("the program is wrong"));
}

namespace {

int user_signals = 0;

/// Returns the wait status of a child of fork() that sends itself `signal`.
int end_of_child(int signal) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(signal);
    ::_exit(user_signals == 1 ? 17 : 18);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("signals that are caught do in a child of fork what they did before", "[checkpoint]") {
  Checkpoint::catch_signal(SIGTERM);
  Checkpoint::catch_signal(SIGTERM);
  int status = end_of_child(SIGTERM);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  std::signal(SIGUSR1, [](int) { ++user_signals; });
  Checkpoint::catch_signal(SIGUSR1);
  status = end_of_child(SIGUSR1);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 17));
  CHECK(user_signals == 0);
  std::raise(SIGTERM);            // caught here
  std::signal(SIGTERM, SIG_IGN);  // the child inherits the program's new choice
  status = end_of_child(SIGTERM);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 18));
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
}

TEST_CASE("the newest files stay, and interrupted saves leave nothing", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  };
  set_contents(folder.path() + "/.checkpoint-12.h5", "half of it");
  set_contents(folder.path() + "/.manifest.json", "{");
  set_contents(folder.path() + "/notes.txt", "mine");
  run_ranks(2, [&](Communicator& comm) {
    std::vector<float> x(100);
    Checkpoint checkpoint(comm, {.folder = folder.path(), .keep = 3});
    checkpoint.add_replicated("x", std::span(x));
    for (const std::int64_t step : {0, 5, 10, 7, 8}) checkpoint.save(step).wait();
    // The run went back to 7, so files beyond 8 do not belong to it.
    if (checkpoint.steps() != std::vector<std::int64_t>{5, 7, 8}) throw std::runtime_error("other files stayed");
    if (checkpoint.restore() != 8) throw std::runtime_error("another file is the newest");
  });
  CHECK(names() == std::vector<std::string>{"checkpoint-5.h5", "checkpoint-7.h5", "checkpoint-8.h5", "manifest.json", "notes.txt"});
  for (const std::string& manifest :
       {std::string(), std::string("{\"newest\": 5"), std::string("[1, 2]"), std::string("{\"newest\": \"checkpoint-99.h5\"}")}) {
    std::filesystem::remove(folder.path() + "/manifest.json");
    if (!manifest.empty()) set_contents(folder.path() + "/manifest.json", manifest);
    run_ranks(2, [&](Communicator& comm) {
      std::vector<float> x(100);
      Checkpoint checkpoint(comm, {.folder = folder.path()});
      checkpoint.add_replicated("x", std::span(x));
      if (checkpoint.restore() != 8) throw std::runtime_error("without a manifest another file is the newest");
    });
    CHECK_THAT(contents_of(folder.path() + "/manifest.json"), Catch::Contains("checkpoint-"));
  }
}

TEST_CASE("a full disk and a read-only folder cost the save, not the run", "[checkpoint]") {
  const TemporaryFolder folder;
  const std::string disk = folder.path() + "/disk";
  std::filesystem::create_directory(disk);
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("weir", disk.c_str(), "tmpfs", 0, "size=3m") != 0) {
    std::cout << "skipped: a full disk: this user cannot mount a file system\n";
    return;
  }
  std::string full, read_only;
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    Model model(comm);
    Checkpoint checkpoint(comm, {.folder = disk, .keep = 5});
    model.add_to(checkpoint);
    const auto error_of = [&](std::int64_t step) -> std::string {
      model.train(comm, 1);
      try {
        checkpoint.save(step).wait();
      } catch (const Error& error) {
        check.that(error.status() == WEIR_ERR_FILE, "the status of a full disk");
        return error.what();
      }
      return "";
    };
    check.that(error_of(1).empty(), "the first file fits");
    std::string text;
    for (std::int64_t step = 2; step < 8 && text.empty(); ++step) text = error_of(step);
    if (comm.rank() == 0) full = text;
    check.that(!checkpoint.steps().empty() && checkpoint.restore().has_value(), "the file before is whole");
    (void)comm.stragglers(1);
    if (comm.rank() == 0) {
      for (const std::int64_t step : checkpoint.steps()) {
        if (step > 1) std::filesystem::remove(disk + "/checkpoint-" + std::to_string(step) + ".h5");
      }
    }
    (void)comm.stragglers(1);
    const std::string again = error_of(20);
    check.that(again.empty(), "there is room again: " + again);
    (void)comm.stragglers(1);
    if (comm.rank() == 0) check.that(mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0, "remount");
    (void)comm.stragglers(1);
    text = error_of(21);
    if (comm.rank() == 0) read_only = text;
    check.that(checkpoint.restore() == 20, "the file before is whole");
  });
  umount(disk.c_str());
  CHECK(check.failure() == "");
  CHECK_THAT(full, Catch::Contains(disk) && (Catch::Contains("No space left") || Catch::Contains("HDF5 library cannot")));
  CHECK_THAT(read_only,
             Catch::Contains(disk) && (Catch::Contains("Read-only file system") || Catch::Contains("HDF5 library cannot")));
}

}  // namespace weir::test
