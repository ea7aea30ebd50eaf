// test_pack_damage.cpp: level 1 on disks that fail: damaged files, full disks, no permission, no locks. In all cases, readers get
// no wrong bytes, and get the right ones from the store.
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>

#include "datacache/packs.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace {

int flock_error = 0;  // the error of every flock; 0 if none fails
int pread_error = 0;

}  // namespace

// Replaces the system's flock.
extern "C" int flock(int file, int operation) noexcept {
  if (flock_error == 0) return static_cast<int>(syscall(SYS_flock, file, operation));
  errno = flock_error;
  return -1;
}
extern "C" ssize_t pread(int file, void* bytes, size_t count, off_t address) {
  if (pread_error == 0) return syscall(SYS_pread64, file, bytes, count, address);
  errno = pread_error;
  return -1;
}

namespace weir::test {
namespace {

/// Checks that the pack is missing or right, and that it is there and right after obtain().
void check_heals(const std::string& folder, const MadeUp& data, std::int64_t pack, bool noticed) {
  LogLines log;
  PackFolder packs(folder, 0, data.set);
  bool right = true;
  const std::int64_t count = data.set.samples_of(pack), found = there(packs, data, pack, right);
  CHECK(right);
  int fetches = 0;
  CHECK(same(obtain(packs, data, pack, &fetches), data.pack(pack)));
  CHECK(there(packs, data, pack, right) == count);
  CHECK(right);
  if (noticed) {
    CHECK(found < count);
    CHECK(fetches == 1);
    CHECK(packs.counts().damaged == 1);
    CHECK_THAT(log.all(), Catch::Contains(data.set.name + "/" + datacache::pack_name(pack) + " is damaged, and removed"));
  }
  CHECK(packs.folder().usage() == bytes_on_disk(folder));
}

/// Mounts a separate file system of `size` bytes at `path`. Returns false if this user cannot mount one.
bool mount_disk(const std::string& path, const std::string& size) {
  std::filesystem::create_directory(path);
  if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      mount("weir", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0)
    return true;
  std::cout << "skipped: a disk of its own: this user cannot mount a file system\n";
  return false;
}

}  // namespace

TEST_CASE("any byte of a pack may change", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.samples = 6;  // 4 and 2
  {
    PackFolder packs(folder.path(), 0, data.set);
    for (std::int64_t pack = 0; pack < 2; ++pack) (void)obtain(packs, data, pack);
  }
  for (std::int64_t pack = 0; pack < 2; ++pack) {
    const std::string path = data.path_of(folder.path(), pack), whole = contents_of(path);
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
      if (left_out()) continue;
      for (const int change : {1, 128, 255}) {
        std::string damaged = whole;
        damaged[byte] = static_cast<char>(damaged[byte] ^ change);
        set_contents(path, damaged);
        check_heals(folder.path(), data, pack, true);
      }
      REQUIRE(contents_of(path) == whole);
    }
  }
}

TEST_CASE("packs that are cut, longer, empty or of something else", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  MadeUp other = data;
  other.set.name = "other";
  other.set.identity = "other data";
  {
    PackFolder packs(folder.path(), 0, data.set), others(folder.path(), 0, other.set);
    for (std::int64_t pack = 0; pack < 5; ++pack) {
      (void)obtain(packs, data, pack);
      (void)obtain(others, other, pack);
    }
  }
  const std::string path = data.path_of(folder.path(), 1), whole = contents_of(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (left_out()) continue;
    set_contents(path, whole.substr(0, length));
    check_heals(folder.path(), data, 1, true);
  }
  for (const std::string& text :
       {whole + "x", whole + whole, std::string(whole.size(), '\0'), contents_of(data.path_of(folder.path(), 2)),
        contents_of(other.path_of(folder.path(), 1)), std::string(100000, 'x')}) {
    set_contents(path, text);
    check_heals(folder.path(), data, 1, true);
  }
  set_contents(path, "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole: nobody allocates as much
  check_heals(folder.path(), data, 1, true);
  std::filesystem::remove(path);
  check_heals(folder.path(), data, 1, false);

  // An obstacle at a pack's path prevents the pack, but not the reading of samples.
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  LogLines log;
  PackFolder packs(folder.path(), 0, data.set);
  CHECK(same(obtain(packs, data, 1), data.pack(1)));
  CHECK(same(obtain(packs, data, 1), data.pack(1)));
  CHECK_THAT(log.all(),
             Catch::Contains("samples of 'made-up' cannot be kept, and are read from the store each time: Is a directory"));
  CHECK(log.lines.size() == 2);  // that it is damaged, and this
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/made-up/.pack-1"));
}

TEST_CASE("a disk that cannot be read any more", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  PackFolder packs(folder.path(), 0, data.set);
  (void)obtain(packs, data, 0);
  LogLines log;
  pread_error = EIO;
  bool right = true;
  CHECK(there(packs, data, 0, right) == 0);
  CHECK(same(obtain(packs, data, 0), data.pack(0)));
  CHECK(there(packs, data, 0, right) == 0);
  pread_error = 0;
  CHECK(same(obtain(packs, data, 0), data.pack(0)));
  CHECK(there(packs, data, 0, right) == 4);
  CHECK(right);
  CHECK(packs.folder().usage() == bytes_on_disk(folder.path()));
}

TEST_CASE("a full disk and a read-only one cost the packs, not the samples", "[datacache]") {
  const TemporaryFolder folder;
  const std::string disk = folder.path() + "/disk";
  if (!mount_disk(disk, "256k")) return;
  MadeUp data;
  data.largest = 20000;
  data.set.samples = 60;
  {
    LogLines log;
    PackFolder packs(disk, 0, data.set);
    bool right = true;
    std::int64_t kept = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      kept = 0;
      for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
        CHECK(same(obtain(packs, data, pack), data.pack(pack)));
        kept += there(packs, data, pack, right) > 0 ? 1 : 0;
      }
    }
    CHECK(right);
    CHECK(kept > 0);
    CHECK(kept < data.set.packs());
    CHECK(log.lines.size() == 1);
    CHECK_THAT(log.all(), Catch::Contains("sample cache folder " + disk + ": samples of 'made-up' cannot be kept") &&
                              Catch::Contains("No space left on device"));
    CHECK(packs.folder().usage() == bytes_on_disk(disk));

    // There is room again.
    const std::set<std::int64_t> full = packs_of(disk, data);
    std::filesystem::remove(data.path_of(disk, *full.begin()));
    (void)obtain(packs, data, *full.begin());
    CHECK(packs_of(disk, data) == full);
  }
  {
    LogLines log;
    PackFolder packs(disk, 0, data.set);
    const std::set<std::int64_t> full = packs_of(disk, data);
    REQUIRE(mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    bool right = true;
    for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
      CHECK((there(packs, data, pack, right) > 0) == (full.count(pack) == 1));
      CHECK(same(obtain(packs, data, pack), data.pack(pack)));
    }
    CHECK(right);
    CHECK_THAT(log.all(), Catch::Contains("Read-only file system"));
    CHECK(log.lines.size() == 1);
    CHECK_THAT(error_of([&] { (void)PackFolder(disk, 0, data.set); }, WEIR_ERR_FILE),
               Catch::Contains(disk) && Catch::Contains("Read-only"));
  }
  umount(disk.c_str());
}

TEST_CASE("files that may not grow", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.largest = 20000;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  {
    LogLines log;
    PackFolder packs(folder.path(), 0, data.set);
    const rlimit small{4096, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    for (std::int64_t pack = 0; pack < 5; ++pack) CHECK(same(obtain(packs, data, pack), data.pack(pack)));
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_THAT(log.all(), Catch::Contains("File too large"));
    CHECK(packs.folder().usage() == bytes_on_disk(folder.path()));
    CHECK_FALSE(packs.keeps());
    for (std::int64_t pack = 0; pack < 5; ++pack) (void)obtain(packs, data, pack);
    CHECK(packs_of(folder.path(), data).size() == 5);
  }
  std::signal(SIGXFSZ, action);
}

TEST_CASE("folders that go away while a run uses them", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  const std::string path = folder.path() + "/cache";
  LogLines log;
  PackFolder packs(path, 0, data.set);
  (void)obtain(packs, data, 0);
  const auto all_from_store = [&] {
    bool right = true;
    for (std::int64_t pack = 0; pack < 5; ++pack) {
      CHECK(there(packs, data, pack, right) == 0);
      CHECK(same(obtain(packs, data, pack), data.pack(pack)));
    }
    CHECK(right);
  };
  CHECK(CacheFolder(path).remove_data_set("made-up") == data.file_bytes(0));
  CHECK(CacheFolder(path).usage() == 0);
  CHECK_FALSE(std::filesystem::exists(path + "/made-up"));
  all_from_store();
  // Another data set has the same name now. Neither sees the other's packs.
  MadeUp other = data;
  other.set.identity = "made anew";
  PackFolder others(path, 0, other.set);
  (void)obtain(others, other, 0);
  all_from_store();
  bool right = true;
  CHECK(there(others, other, 0, right) == 4);
  std::filesystem::remove_all(path);
  all_from_store();
  CHECK(same(obtain(others, other, 0), other.pack(0)));
  CHECK(right);
  CHECK(log.lines.size() == 2);
}

TEST_CASE("a file system without locks", "[datacache]") {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    const TemporaryFolder folder;
    const MadeUp data;
    LogLines log;
    flock_error = error;
    {
      PackFolder packs(folder.path(), data.file_bytes(), data.set), second(folder.path(), data.file_bytes(), data.set);
      bool right = true;
      for (std::int64_t pack = 0; pack < 5; ++pack) {
        const Samples samples = packs.obtain(pack, [&] {
          CHECK(same(obtain(second, data, pack), data.pack(pack)));  // nobody waits
          return data.pack(pack);
        });
        CHECK(same(samples, data.pack(pack)));
        CHECK(there(second, data, pack, right) == data.set.samples_of(pack));
      }
      CHECK(right);
      CHECK(packs.folder().usage() == data.file_bytes());
      // Another process may still be writing a young file.
      const std::string young = folder.path() + "/made-up/.pack-1.0123456789abcdef",
                        old = folder.path() + "/made-up/.pack-1.fedcba9876543210";
      set_contents(young, "x");
      set_contents(old, "x");
      age(old, 7200);
      const PackFolder third(folder.path(), data.file_bytes(), data.set);
      CHECK(std::filesystem::exists(young));
      CHECK_FALSE(std::filesystem::exists(old));
    }
    flock_error = 0;
    CHECK(log.lines.size() == 3);  // one for each object
    CHECK_THAT(log.lines[0], Catch::Contains("its file system has no locks"));
  }
}

TEST_CASE("locks that others keep are not waited for without end", "[datacache]") {
  using namespace std::chrono_literals;
  const TemporaryFolder folder;
  const MadeUp data;
  LogLines log;
  PackFolder packs(folder.path(), 0, data.set, LogLevel::warn, 20ms), second(folder.path(), 0, data.set, LogLevel::warn, 20ms);
  const Samples samples = packs.obtain(0, [&] {
    CHECK(same(obtain(second, data, 0), data.pack(0)));
    return data.pack(0);
  });
  CHECK(same(samples, data.pack(0)));
  bool right = true;
  CHECK(there(second, data, 0, right) == 4);
  CHECK(log.lines.size() == 1);
  CHECK_THAT(log.all(), Catch::Contains("another process keeps it locked"));
  {
    const datacache::Descriptor usage(open((folder.path() + "/.weir-cache").c_str(), O_RDWR));
    REQUIRE(lock(usage, datacache::LockKind::exclusive, 0ms) == datacache::Locked::yes);
    for (std::int64_t pack = 1; pack < 5; ++pack) CHECK(same(obtain(packs, data, pack), data.pack(pack)));
    CHECK(packs_of(folder.path(), data) == std::set<std::int64_t>{0});
    CHECK_THAT(error_of([&] { (void)PackFolder(folder.path(), 0, data.set, LogLevel::warn, 20ms); }, WEIR_ERR_FILE),
               Catch::Contains("another process keeps it locked"));
  }
  for (std::int64_t pack = 1; pack < 5; ++pack) (void)obtain(packs, data, pack);
  CHECK(packs_of(folder.path(), data).size() == 5);
  CHECK(packs.folder().usage() == bytes_on_disk(folder.path()));
}

}  // namespace weir::test
