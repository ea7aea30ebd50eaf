// test_pack_folder.cpp: level 1 in one process: what is kept and found again, what is evicted first, what is not touched.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "datacache/packs.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"

namespace weir::test {

TEST_CASE("what is kept is found again, by this process and by later ones", "[datacache]") {
  for (const std::int64_t samples : {0, 1, 3, 7, 64, 65}) {
    for (const std::int64_t pack_samples : {1, 3, 64, 100}) {
      const TemporaryFolder folder;
      MadeUp data;
      data.set.samples = samples;
      data.set.pack_samples = pack_samples;
      int fetches = 0;
      bool right = true;
      {
        PackFolder packs(folder.path(), 0, data.set);
        for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
          CHECK(there(packs, data, pack, right) == 0);
          CHECK(same(obtain(packs, data, pack, &fetches), data.pack(pack)));
          CHECK(there(packs, data, pack, right) == data.set.samples_of(pack));
        }
        CHECK(packs.folder().usage() == data.file_bytes());
      }
      CHECK(fetches == data.set.packs());
      PackFolder later(folder.path(), 0, data.set);
      for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
        CHECK(there(later, data, pack, right) == data.set.samples_of(pack));
        CHECK(same(obtain(later, data, pack, &fetches), data.pack(pack)));
      }
      CHECK(fetches == data.set.packs());
      CHECK(right);
      CHECK(later.counts().damaged == 0);
      CHECK(bytes_on_disk(folder.path()) == data.file_bytes());
      if (samples > 0) CHECK(later.counts().bytes_read == 2 * (data.file_bytes() - data.set.packs() * 48 - samples * 16));
    }
  }
}

TEST_CASE("numbers that are none are refused", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  PackFolder packs(folder.path(), 0, data.set);
  std::vector<std::byte> encoded;
  for (const std::int64_t sample : {-1, 20, 21})
    CHECK_THAT(error_of([&] { (void)packs.read(sample, encoded); }, WEIR_ERR_ARGUMENT), Catch::Contains("there are 20"));
  for (const std::int64_t pack : {-1, 5})
    CHECK_THAT(error_of([&] { (void)obtain(packs, data, pack); }, WEIR_ERR_ARGUMENT), Catch::Contains("there are 5"));
}

TEST_CASE("a source that fails, or lies about sizes, leaves nothing behind", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  PackFolder packs(folder.path(), 0, data.set);
  CHECK_THROWS_WITH(packs.obtain(1, []() -> Samples { throw std::runtime_error("the store is away"); }), "the store is away");
  Samples wrong = data.pack(1);
  wrong.sizes.pop_back();
  CHECK_THAT(error_of([&] { (void)packs.obtain(1, [&] { return wrong; }); }, WEIR_ERR_ARGUMENT),
             Catch::Contains("pack 1 of 'made-up': the source has read") && Catch::Contains("for 4 samples, and its 3 sizes"));
  wrong = data.pack(1);
  wrong.bytes.emplace_back();
  CHECK_FALSE(error_of([&] { (void)packs.obtain(1, [&] { return wrong; }); }, WEIR_ERR_ARGUMENT).empty());
  wrong = data.pack(1);
  wrong.sizes[0] = std::numeric_limits<std::int64_t>::max();
  wrong.sizes[1] = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE(error_of([&] { (void)packs.obtain(1, [&] { return wrong; }); }, WEIR_ERR_ARGUMENT).empty());
  CHECK(pack_files(folder.path()).empty());
  CHECK(packs.folder().usage() == 0);
  CHECK(same(obtain(packs, data, 1), data.pack(1)));
}

TEST_CASE("the limit holds, and what was used least recently goes first, of all data sets", "[datacache]") {
  for (std::uint64_t seed = 0; seed < 40; seed += test_every()) {
    const TemporaryFolder folder;
    Dice dice(seed);
    std::array<MadeUp, 3> data;
    std::int64_t all = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i].set = {.name = "set" + std::to_string(i),
                     .identity = std::to_string(i),
                     .samples = dice.between(1, 40),
                     .pack_samples = dice.between(1, 5)};
      data[i].largest = dice.between(1, 300);
      all += data[i].file_bytes();
    }
    const std::int64_t limit = dice.between(1, all);
    // Runs, one after another, each with the packs of one data set. The oracle is a list of existing packs, least recently used
    // first.
    std::vector<std::pair<std::size_t, std::int64_t>> oldest_first;
    const auto size_of = [&](const auto& pack) { return data[pack.first].file_bytes(pack.second); };
    const auto total = [&] {
      std::int64_t sum = 0;
      for (const auto& pack : oldest_first) sum += size_of(pack);
      return sum;
    };
    for (int run = 0; run < 8; ++run) {
      const std::size_t which = static_cast<std::size_t>(dice.between(0, 2));
      const MadeUp& own = data[which];
      PackFolder packs(folder.path(), limit, own.set);
      std::set<std::pair<std::size_t, std::int64_t>> used;
      for (int call = 0; call < 12; ++call) {
        const std::pair<std::size_t, std::int64_t> pack{which, dice.between(0, own.set.packs() - 1)};
        const auto place = std::find(oldest_first.begin(), oldest_first.end(), pack);
        bool right = true;
        const std::int64_t found = there(packs, own, pack.second, right);
        CHECK(right);
        CHECK((found == own.set.samples_of(pack.second)) == (place != oldest_first.end()));
        if (place != oldest_first.end()) {
          if (used.insert(pack).second) {  // later uses in the same run do not count
            oldest_first.erase(place);
            oldest_first.push_back(pack);
          }
        } else {
          CHECK(same(obtain(packs, own, pack.second), own.pack(pack.second)));
          if (size_of(pack) <= limit) {
            while (total() + size_of(pack) > limit && used.count(oldest_first[0]) == 0) oldest_first.erase(oldest_first.begin());
            if (total() + size_of(pack) <= limit) {
              oldest_first.push_back(pack);
              used.insert(pack);
            }
          }
        }
        CHECK(bytes_on_disk(folder.path()) <= limit);
        std::set<std::string> expected, found_names;
        for (const auto& [set, number] : oldest_first)
          expected.insert("set" + std::to_string(set) + "/" + datacache::pack_name(number));
        for (const auto& [name, bytes] : pack_files(folder.path())) found_names.insert(name);
        REQUIRE(found_names == expected);
        CHECK(packs.folder().usage() == total());
      }
      // The next run begins a day later, so set the times a day back, and apart from each other.
      age_all(folder.path(), 86400);
      for (std::size_t i = 0; i < oldest_first.size(); ++i) {
        const auto& [set, number] = oldest_first[i];
        age(data[set].path_of(folder.path(), number), static_cast<std::int64_t>(10 * (oldest_first.size() - i)));
      }
    }
  }
}

TEST_CASE("packs of a run that do not all fit stay, rather than pushing out each other", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.samples = 40;  // 10 packs
  std::int64_t limit = 0;
  for (std::int64_t pack = 0; pack < 4; ++pack) limit += data.file_bytes(pack);
  bool right = true;
  const auto epoch = [&](PackFolder& packs) {
    std::int64_t hits = 0;
    for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
      const std::int64_t found = there(packs, data, pack, right);
      hits += found > 0 ? 1 : 0;
      if (found == 0) (void)obtain(packs, data, pack);
    }
    return hits;
  };
  {
    PackFolder packs(folder.path(), limit, data.set);
    CHECK(packs.keeps());
    CHECK(epoch(packs) == 0);
    CHECK_FALSE(packs.keeps());
    const std::int64_t second = epoch(packs);
    CHECK(second >= 4);  // a smaller one may fit, too
    CHECK(epoch(packs) == second);
  }
  const std::set<std::int64_t> kept = packs_of(folder.path(), data);
  age_all(folder.path(), 100);
  {
    PackFolder packs(folder.path(), limit, data.set);  // without claims, a pack is evicted just before it is needed
    (void)obtain(packs, data, 9);
    CHECK(packs_of(folder.path(), data) != kept);
  }
  age_all(folder.path(), 100);
  const std::set<std::int64_t> again = packs_of(folder.path(), data);
  {
    PackFolder packs(folder.path(), limit, data.set);
    packs.claim(0, 10);
    CHECK(epoch(packs) == static_cast<std::int64_t>(again.size()));
  }
  age_all(folder.path(), 100);
  {
    PackFolder packs(folder.path(), limit, data.set);
    packs.claim(5, 10);  // the others may go
    (void)epoch(packs);
    for (const std::int64_t pack : again) CHECK((pack < 5 || packs_of(folder.path(), data).count(pack) == 1));
  }
  CHECK(right);
  CHECK(bytes_on_disk(folder.path()) <= limit);
}

TEST_CASE("a pack larger than the limit, and a limit that has become smaller", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  {
    PackFolder packs(folder.path(), 10, data.set);
    CHECK(same(obtain(packs, data, 0), data.pack(0)));
    CHECK(pack_files(folder.path()).empty());
  }
  {
    PackFolder packs(folder.path(), 0, data.set);
    for (std::int64_t pack = 0; pack < 5; ++pack) (void)obtain(packs, data, pack);
  }
  CHECK(pack_files(folder.path()).size() == 5);
  age_all(folder.path(), 100);
  age(data.path_of(folder.path(), 3), 100);
  const PackFolder packs(folder.path(), data.file_bytes() - 1, data.set);
  CHECK(packs_of(folder.path(), data) == std::set<std::int64_t>{0, 1, 2, 4});
}

TEST_CASE("times in the future are old", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  {
    PackFolder packs(folder.path(), 0, data.set);
    for (std::int64_t pack = 0; pack < 4; ++pack) (void)obtain(packs, data, pack);
  }
  age_all(folder.path(), 100);
  age(data.path_of(folder.path(), 2), -100000);
  PackFolder packs(folder.path(), bytes_on_disk(folder.path()), data.set);
  (void)obtain(packs, data, 4);
  CHECK(packs_of(folder.path(), data).count(2) == 0);
}

TEST_CASE("a wrong count of bytes, or none, is made good", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  const std::string usage = folder.path() + "/.weir-cache";
  const auto keep_all = [&](PackFolder& packs) {
    for (std::int64_t pack = 0; pack < 5; ++pack) (void)obtain(packs, data, pack);
  };
  {
    PackFolder packs(folder.path(), 0, data.set);
    keep_all(packs);
  }
  const std::string whole = contents_of(usage);
  CHECK(whole == fmt::format("weir-cache 1 {:020}\n", data.file_bytes()));
  for (const std::string& text :
       {std::string(), std::string("weir-cache 1 00000000000000000001\n"), std::string("weir-cache 1 99999999999999999999\n"),
        std::string("weir-cache 1 -0000000000000000001\n"), std::string(100, '\0'), std::string("weir-cache 2"),
        std::string("weir-cache 1 0000000000000000000x\n")}) {
    set_contents(usage, text);
    {
      PackFolder packs(folder.path(), 0, data.set);
      CHECK(packs.folder().usage() == data.file_bytes());
    }
    CHECK(contents_of(usage).substr(0, whole.size()) == whole);
  }
  // Also during a run: a file that cannot be read at once, or a count that is too large before an eviction.
  PackFolder first(folder.path(), data.file_bytes(), data.set);
  set_contents(usage, "nonsense");
  CHECK(first.folder().usage() == data.file_bytes());
  REQUIRE(std::filesystem::remove(data.path_of(folder.path(), 1)));
  set_contents(usage, "weir-cache 1 00000000009000000000\n");
  (void)obtain(first, data, 1);
  CHECK(packs_of(folder.path(), data).size() == 5);
  CHECK(first.folder().usage() == data.file_bytes());
  std::filesystem::remove(usage);
  CHECK(first.folder().usage() == data.file_bytes());
}

TEST_CASE("left-overs of dead writers are taken up or removed", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  (void)PackFolder(folder.path(), 0, data.set);
  const std::string left = folder.path() + "/made-up/.pack-2";
  set_contents(left, std::string(5000, 'x'));
  set_contents(folder.path() + "/made-up/.pack-3.0123456789abcdef", "x");
  {
    PackFolder packs(folder.path(), 0, data.set);
    CHECK(pack_files(folder.path()).empty());
    CHECK(packs.folder().usage() == 0);
    set_contents(left, std::string(5000, 'x'));
    const PackFolder second(folder.path(), 0, data.set);  // counts nothing anew
    CHECK(same(obtain(packs, data, 2), data.pack(2)));
    bool right = true;
    CHECK(there(packs, data, 2, right) == 4);
    CHECK(right);
    CHECK_FALSE(std::filesystem::exists(left));
  }
  PackFolder packs(folder.path(), 0, data.set);
  CHECK(packs.folder().usage() == data.file_bytes(2));
}

TEST_CASE("what a dead writer had counted is not counted twice, and what is another's is not published", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  PackFolder packs(folder.path(), 0, data.set);
  const std::string unfinished = folder.path() + "/made-up/.pack-2";
  {
    const datacache::Descriptor dead(open(unfinished.c_str(), O_RDWR | O_CREAT, 0666));
    REQUIRE(packs.folder().reserve(dead, 5000) == datacache::Reserved::yes);
  }
  CHECK(packs.folder().usage() == 5000);
  (void)obtain(packs, data, 2);
  CHECK(packs.folder().usage() == data.file_bytes(2));
  CHECK(bytes_on_disk(folder.path()) == data.file_bytes(2));

  LogLines log;
  const std::string other = folder.path() + "/made-up/.pack-3";
  const Samples samples = packs.obtain(3, [&] {
    REQUIRE(std::filesystem::remove(other));  // pruned, and begun again by another process
    set_contents(other, "unfinished");
    return data.pack(3);
  });
  CHECK(same(samples, data.pack(3)));
  CHECK(contents_of(other) == "unfinished");
  CHECK(packs_of(folder.path(), data) == std::set<std::int64_t>{2});
  CHECK_THAT(log.all(), Catch::Contains("cannot be kept"));
}

TEST_CASE("other data under the same name are refused", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  {
    PackFolder packs(folder.path(), 0, data.set);
    (void)obtain(packs, data, 0);
  }
  const auto refused = [&](const DataSet& set) {
    return error_of([&] { (void)PackFolder(folder.path(), 0, set); }, WEIR_ERR_MISMATCH);
  };
  CHECK(refused(data.set).empty());
  DataSet other = data.set;
  other.identity = "made anew";
  CHECK_THAT(refused(other),
             Catch::Contains("20 samples in packs of 4, \"made up\"; here: 20 samples in packs of 4, \"made anew\"") &&
                 Catch::Contains("`weir cache prune " + folder.path() + " --dataset made-up`"));
  other = data.set;
  other.samples = 21;
  CHECK_THAT(refused(other), Catch::Contains("here: 21 samples"));
  other = data.set;
  other.pack_samples = 5;
  CHECK_THAT(refused(other), Catch::Contains("in packs of 5"));
  other.name = "another";
  CHECK(refused(other).empty());

  const std::string manifest = folder.path() + "/made-up/manifest.json", whole = contents_of(manifest);
  std::string newer = whole;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  set_contents(manifest, newer);
  CHECK_THAT(refused(data.set), Catch::Contains("has version 2, and this library reads version 1"));
  // A damaged manifest is written again. Packs of other data count as damaged, and are removed.
  for (const std::string& text : {std::string(), whole.substr(0, 40), std::string("[1]"), std::string("{\"version\": 1}"),
                                  std::string("{\"version\": \"x\"}")}) {
    set_contents(manifest, text);
    PackFolder packs(folder.path(), 0, data.set);
    bool right = true;
    CHECK(there(packs, data, 0, right) == 4);
    CHECK(right);
    CHECK(contents_of(manifest) == whole);
  }
  set_contents(manifest, "");
  MadeUp later = data;
  later.set.identity = "other data";
  PackFolder packs(folder.path(), 0, later.set);
  bool right = true;
  CHECK(there(packs, later, 0, right) == 0);
  CHECK(packs.counts().damaged == 1);
  CHECK(packs.folder().usage() == 0);
}

TEST_CASE("an identity may have any bytes", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.identity = std::string("\xff\xfe \"quoted\" \n\0 \xc3\xbc", 17);
  (void)PackFolder(folder.path(), 0, data.set);
  (void)PackFolder(folder.path(), 0, data.set);
  data.set.identity.back() = '\xbd';
  CHECK_FALSE(error_of([&] { (void)PackFolder(folder.path(), 0, data.set); }, WEIR_ERR_MISMATCH).empty());
}

TEST_CASE("folders of any name, and those that cannot be", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  for (const std::string& name : {std::string("with spaces"),
                                  std::string("gr\xc3\xbc\xc3\x9f"
                                              "e \xe6\x97\xa5\xe6\x9c\xac"),
                                  std::string("slash/"), std::string("\xff bytes")}) {
    PackFolder packs(folder.path() + "/" + name, 0, data.set);
    (void)obtain(packs, data, 4);
    bool right = true;
    CHECK(there(packs, data, 4, right) == 4);
    CHECK(std::filesystem::exists(data.path_of(folder.path() + "/" + name, 4)));
  }
  const auto refused = [&](const std::string& path) {
    return error_of([&] { (void)PackFolder(path, 0, data.set); }, WEIR_ERR_FILE);
  };
  CHECK_THAT(refused(folder.path() + "/a/b"),
             Catch::Contains(folder.path() + "/a/b cannot be made: there is no folder " + folder.path() + "/a"));
  set_contents(folder.path() + "/file", "text");
  CHECK_THAT(refused(folder.path() + "/file"), Catch::Contains(folder.path() + "/file") && Catch::Contains("Not a directory"));
  CHECK_THAT(refused("/proc/cache"), Catch::Contains("/proc/cache"));
  std::filesystem::create_directory(folder.path() + "/taken");
  set_contents(folder.path() + "/taken/made-up", "text");
  CHECK_THAT(refused(folder.path() + "/taken"), Catch::Contains("folder made-up cannot be opened"));
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string(".hidden"), std::string("a/b"),
                                  std::string("a b"), std::string(65, 'a'), std::string("\xc3\xbc")}) {
    DataSet set = data.set;
    set.name = name;
    CHECK_THAT(error_of([&] { (void)PackFolder(folder.path(), 0, set); }, WEIR_ERR_ARGUMENT),
               Catch::Contains("is no name of a data set"));
  }

  // The path is relative to the working directory at construction.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  PackFolder packs("relative", 1000000, data.set);
  std::filesystem::current_path("/");
  (void)obtain(packs, data, 0);
  CHECK(packs.folder().look().packs.size() == 1);
  CHECK(std::filesystem::exists(data.path_of(folder.path() + "/relative", 0)));
  std::filesystem::current_path(before);
}

TEST_CASE("what is not the cache's is left alone", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  const std::string set_folder = folder.path() + "/made-up";
  (void)PackFolder(folder.path(), 0, data.set);
  std::filesystem::create_directories(folder.path() + "/notes");
  std::filesystem::create_directories(set_folder + "/pack-77");
  const std::vector<std::string> foreign = {folder.path() + "/letter",
                                            folder.path() + "/notes/pack-1",
                                            folder.path() + "/notes/.pack-1",
                                            folder.path() + "/pack-3",
                                            set_folder + "/pack-",
                                            set_folder + "/pack-01",
                                            set_folder + "/pack-1x",
                                            set_folder + "/pack--1",
                                            set_folder + "/.pack-x",
                                            set_folder + "/pack-99999999999999999999",
                                            set_folder + "/other.json",
                                            set_folder + "/pack-77/file"};
  for (const std::string& path : foreign) set_contents(path, "mine");
  set_contents(folder.path() + "/target", "mine");
  std::filesystem::create_symlink(folder.path() + "/target", set_folder + "/.pack-2");
  std::filesystem::create_symlink(folder.path() + "/target", set_folder + "/pack-3");
  std::filesystem::create_directory_symlink(folder.path() + "/notes", folder.path() + "/linked");
  {
    PackFolder packs(folder.path(), data.file_bytes(), data.set);
    CHECK(packs.folder().usage() == 0);
    for (std::int64_t pack = 0; pack < 5; ++pack) CHECK(same(obtain(packs, data, pack), data.pack(pack)));
  }
  age_all(folder.path(), 100);
  {
    MadeUp other = data;
    other.set.name = other.set.identity = "other";
    PackFolder packs(folder.path(), data.file_bytes(0), other.set);  // all that is there must go
    (void)obtain(packs, other, 0);
    packs.folder().remove_data_set("made-up");
  }
  for (const std::string& path : foreign) CHECK(contents_of(path) == "mine");
  CHECK(contents_of(folder.path() + "/target") == "mine");
  CHECK(std::filesystem::is_symlink(set_folder + "/.pack-2"));
  CHECK_FALSE(std::filesystem::exists(set_folder + "/manifest.json"));
}

TEST_CASE("threads share the work", "[datacache]") {
  const TemporaryFolder folder;
  MadeUp data;
  data.set.samples = 200;
  data.set.pack_samples = 5;
  PackFolder packs(folder.path(), 0, data.set);
  std::atomic<int> fetches{0}, wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      Dice dice(thread);
      std::vector<std::byte> encoded;
      for (const std::size_t i : dice.order(200)) {
        const auto sample = static_cast<std::int64_t>(i);
        if (packs.read(sample, encoded)) {
          wrong += encoded == data.sample(sample) ? 0 : 1;
          continue;
        }
        const Samples samples = packs.obtain(sample / 5, [&] {
          ++fetches;
          return data.pack(sample / 5);
        });
        wrong += same(samples, data.pack(sample / 5)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(fetches == 40);
  CHECK(wrong == 0);
  CHECK(packs.folder().usage() == data.file_bytes());
  CHECK(bytes_on_disk(folder.path()) == data.file_bytes());
}

TEST_CASE("where a writer fails, whoever waits for it writes", "[datacache]") {
  const TemporaryFolder folder;
  const MadeUp data;
  PackFolder packs(folder.path(), 0, data.set);
  std::atomic<bool> fetching{false};
  std::thread fails([&] {
    try {
      (void)packs.obtain(0, [&]() -> Samples {
        fetching = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        throw std::runtime_error("the store is away");
      });
    } catch (const std::runtime_error&) {
    }
  });
  while (!fetching) std::this_thread::yield();
  CHECK(same(obtain(packs, data, 0), data.pack(0)));
  fails.join();
  bool right = true;
  CHECK(there(packs, data, 0, right) == 4);
  CHECK(packs.folder().usage() == data.file_bytes(0));
}

TEST_CASE("threads evict each other's packs", "[datacache]") {
  const TemporaryFolder folder;
  std::array<MadeUp, 4> data;
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i].set.name = data[i].set.identity = std::string(1, static_cast<char>('a' + i));
  const std::int64_t limit = data[0].file_bytes() * 3 / 2;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < data.size(); ++thread) {
    threads.emplace_back([&, thread] {
      Dice dice(thread);
      for (int run = 0; run < 30; ++run) {
        const MadeUp& own = data[thread];
        PackFolder packs(folder.path(), limit, own.set);
        for (int call = 0; call < 5; ++call) {
          const std::int64_t pack = dice.between(0, 4);
          bool right = true;
          if (there(packs, own, pack, right) < own.set.samples_of(pack))
            wrong += same(obtain(packs, own, pack), own.pack(pack)) ? 0 : 1;
          wrong += right ? 0 : 1;
          wrong += packs.folder().usage() <= limit ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(CacheFolder(folder.path()).usage() == bytes_on_disk(folder.path()));
  CHECK(bytes_on_disk(folder.path()) <= limit);
}

}  // namespace weir::test
