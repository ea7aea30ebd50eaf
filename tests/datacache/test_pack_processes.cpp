// test_pack_processes.cpp: several processes with one folder of level 1. Some are killed or stopped.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <new>
#include <utility>

#include "datacache/packs.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Counters that the processes share.
struct Shared {
  std::atomic<int> fetches{0}, wrong{0}, ready{0};
};

class SharedCounts {
 public:
  SharedCounts() : place_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(place_ != MAP_FAILED);
    counts_ = new (place_) Shared;
  }
  SharedCounts(const SharedCounts&) = delete;
  SharedCounts& operator=(const SharedCounts&) = delete;
  ~SharedCounts() { munmap(place_, sizeof(Shared)); }
  Shared* operator->() const { return counts_; }

 private:
  void* place_;
  Shared* counts_;
};

/// A process that runs `body`, and is killed with this object.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : id_(fork()) {
    if (id_ != 0) return;
    int status = 0;
    try {
      body();
    } catch (...) {
      status = 1;
    }
    _exit(status);
  }
  Child(Child&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    signal(SIGKILL);
    (void)wait();
  }
  void signal(int number) const {
    if (id_ > 0) kill(id_, number);
  }
  /// Stops the process. Returns once it is stopped.
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    waitpid(id_, &status, WUNTRACED);
  }
  /// Returns its exit status, or -1 if it was killed.
  int wait() {
    if (id_ <= 0) return 0;
    int status = 0;
    waitpid(std::exchange(id_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t id_;
};

/// Checks that all files are right, counted, and from living processes.
void check_whole(const std::string& folder, const MadeUp& data, std::int64_t limit) {
  PackFolder packs(folder, limit, data.set);
  bool right = true;
  for (const std::int64_t pack : packs_of(folder, data)) {
    CHECK(there(packs, data, pack, right) == data.set.samples_of(pack));
  }
  CHECK(right);
  CHECK(packs.counts().damaged == 0);
  CHECK(packs.folder().usage() == bytes_on_disk(folder));
  for (const auto& [name, bytes] : pack_files(folder)) CHECK(name.find("/.pack-") == std::string::npos);
  if (limit > 0) CHECK(bytes_on_disk(folder) <= limit);
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 60000 && !done(); ++i) usleep(1000);
  REQUIRE(done());
}

}  // namespace

TEST_CASE("processes killed at any moment leave a whole folder", "[datacache]") {
  const TemporaryFolder folder;
  std::array<MadeUp, 2> data;
  data[1].set.name = data[1].set.identity = "other";
  for (MadeUp& each : data) {
    each.set.samples = 60;
    each.largest = 30000;
  }
  const std::int64_t limit = data[0].file_bytes();
  Dice dice(11);
  for (std::uint64_t round = 0; round < 150; round += test_every()) {
    const std::uint64_t seed = dice.word();
    const auto work = [&](std::uint64_t which) {
      Dice own(seed + which);
      for (;;) {
        const MadeUp& mine = data[static_cast<std::size_t>(own.between(0, 1))];
        PackFolder packs(folder.path(), limit, mine.set, LogLevel::error);
        for (int call = 0; call < 10; ++call) (void)obtain(packs, mine, own.between(0, mine.set.packs() - 1));
      }
    };
    Child a([&] { work(0); }), b([&] { work(1); });
    usleep(static_cast<useconds_t>(dice.between(0, 12000)));
    a.signal(SIGKILL);
    (void)a.wait();
    usleep(static_cast<useconds_t>(dice.between(0, 2000)));
    b.stop();
    CHECK(bytes_on_disk(folder.path()) <= limit);
    b.signal(SIGKILL);
    (void)b.wait();
    CHECK(bytes_on_disk(folder.path()) <= limit);
    for (const MadeUp& each : data) check_whole(folder.path(), each, limit);
  }
}

TEST_CASE("processes with the same packs read each from the store once", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.samples = 100;
  data.largest = 5000;
  const SharedCounts counts;
  std::vector<Child> children;
  for (std::uint64_t child = 0; child < 4; ++child) {
    children.emplace_back([&, child] {
      ++counts->ready;
      while (counts->ready < 4) usleep(100);
      PackFolder packs(folder.path(), 0, data.set);  // all at the same moment
      Dice dice(child / 2);                          // two of them in the same order
      for (const std::size_t i : dice.order(25)) {
        const auto pack = static_cast<std::int64_t>(i);
        bool right = true;
        if (there(packs, data, pack, right) < data.set.samples_of(pack)) {
          const Samples samples = packs.obtain(pack, [&] {
            ++counts->fetches;
            usleep(500);
            return data.pack(pack);
          });
          right = right && same(samples, data.pack(pack));
        }
        if (!right) ++counts->wrong;
      }
    });
  }
  for (Child& child : children) CHECK(child.wait() == 0);
  CHECK(counts->fetches == 25);
  CHECK(counts->wrong == 0);
  check_whole(folder.path(), data, 0);
  CHECK(bytes_on_disk(folder.path()) == data.file_bytes());
}

TEST_CASE("ranks with different packs, and runs with different data sets, share a folder", "[datacache]") {
  const TemporaryFolder folder;
  std::array<MadeUp, 2> data;
  data[1].set.name = data[1].set.identity = "other";
  for (MadeUp& each : data) each.set.samples = 80;
  const std::int64_t limit = data[0].file_bytes() * 3 / 2;
  const SharedCounts counts;
  std::vector<Child> children;
  for (std::int64_t child = 0; child < 4; ++child) {
    children.emplace_back([&, child] {
      const MadeUp& own = data[static_cast<std::size_t>(child / 2)];
      const std::int64_t first = child % 2 * 10;
      for (int run = 0; run < 10; ++run) {
        PackFolder packs(folder.path(), limit, own.set);
        packs.claim(first, first + 10);
        for (std::int64_t pack = first; pack < first + 10; ++pack) {
          bool right = true;
          if (there(packs, own, pack, right) < 4 && !same(obtain(packs, own, pack), own.pack(pack))) right = false;
          if (!right || packs.folder().usage() > limit) ++counts->wrong;
        }
      }
    });
  }
  for (Child& child : children) CHECK(child.wait() == 0);
  CHECK(counts->wrong == 0);
  for (const MadeUp& each : data) check_whole(folder.path(), each, limit);
}

TEST_CASE("where a writer dies, whoever waits for it writes", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  const SharedCounts counts;
  Child writer([&] {
    PackFolder packs(folder.path(), 0, data.set);
    (void)packs.obtain(0, [&]() -> Samples {
      ++counts->ready;
      for (;;) pause();
    });
  });
  wait_until([&] { return counts->ready == 1; });
  PackFolder packs(folder.path(), 0, data.set);
  CHECK(packs.folder().in_use());
  Child killer([&] {
    usleep(20000);
    ++counts->ready;
    writer.signal(SIGKILL);
  });
  const Samples samples = packs.obtain(0, [&] {
    ++counts->fetches;
    counts->wrong = counts->ready == 2 ? 0 : 1;  // it did wait
    return data.pack(0);
  });
  CHECK(same(samples, data.pack(0)));
  CHECK(counts->fetches == 1);
  CHECK(counts->wrong == 0);
  CHECK(killer.wait() == 0);
  (void)writer.wait();
  CHECK(packs_of(folder.path(), data) == std::set<std::int64_t>{0});
  check_whole(folder.path(), data, 0);
}

TEST_CASE("a writer that is stopped holds up nobody for long", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  const SharedCounts counts;
  Child writer([&] {
    PackFolder packs(folder.path(), 0, data.set);
    (void)packs.obtain(0, [&] {
      ++counts->ready;
      raise(SIGSTOP);
      return data.pack(0);
    });
  });
  wait_until([&] { return counts->ready == 1; });
  LogLines log;
  PackFolder packs(folder.path(), 0, data.set, LogLevel::warn, std::chrono::milliseconds(50));
  CHECK(same(obtain(packs, data, 0), data.pack(0)));
  CHECK_THAT(log.all(), Catch::Contains("another process keeps it locked: is it stopped?"));
  CHECK(CacheFolder(folder.path()).remove_left_overs().empty());
  writer.signal(SIGCONT);
  CHECK(writer.wait() == 0);
  bool right = true;
  CHECK(there(packs, data, 0, right) == 4);
  CHECK(right);
}

TEST_CASE("a folder that is pruned while runs work with it", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.samples = 40;
  const SharedCounts counts;
  std::vector<Child> children;
  for (int child = 0; child < 2; ++child) {
    children.emplace_back([&] {
      for (int run = 0; run < 20; ++run) {
        PackFolder packs(folder.path(), 0, data.set, LogLevel::error);
        ++counts->ready;
        for (std::int64_t pack = 0; pack < 10; ++pack) {
          bool right = true;
          if (there(packs, data, pack, right) < 4 && !same(obtain(packs, data, pack), data.pack(pack))) right = false;
          if (!right) ++counts->wrong;
        }
      }
    });
  }
  wait_until([&] { return counts->ready > 0; });
  CacheFolder pruned(folder.path());
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 0) {
      (void)pruned.remove_left_overs();
    } else if (i % 3 == 1) {
      for (const datacache::CacheFile& pack : pruned.look().packs) (void)pruned.remove(pack);
    } else if (!pruned.look().data_sets.empty()) {
      (void)error_of([&] { (void)pruned.remove_data_set("made-up"); }, WEIR_ERR_FILE);
    }
  }
  for (Child& child : children) CHECK(child.wait() == 0);
  CHECK(counts->wrong == 0);
  check_whole(folder.path(), data, 0);
}

}  // namespace weir::test
