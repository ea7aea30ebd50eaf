// test_other_tools.cpp: files that other programs open, change or copy, missing or damaged files beside whole ones, and sizes.
#include <hdf5.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <weir/checkpoint.hpp>

#include "checkpoint/file.hpp"
#include "checkpoint/whole_file.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t elements = 100001;

/// Saves a file of 3 ranks for each of these steps, each with an array per rank, a shared array and a text.
void write_files(const std::string& folder, const std::vector<std::int64_t>& steps, std::int64_t compression = 0) {
  run_ranks(3, [&](Communicator& comm) {
    Checkpoint checkpoint(comm, {.folder = folder, .run = "first", .keep = 10, .compression = compression});
    std::vector<float> own(static_cast<std::size_t>(elements)), shared(static_cast<std::size_t>(elements));
    checkpoint.add_local("own", std::span(own));
    checkpoint.add_replicated("shared", std::span(shared));
    for (const std::int64_t step : steps) {
      std::fill(own.begin(), own.end(), static_cast<float>(step * 10 + comm.rank()));
      std::fill(shared.begin(), shared.end(), static_cast<float>(step));
      checkpoint.set("note", "a text of step " + std::to_string(step));
      checkpoint.save(step).wait();
    }
  });
}

/// Returns the step that 3 ranks restore, or -1. Throws the error that they all throw.
std::int64_t restored_step(const std::string& folder, bool strict = false) {
  std::int64_t found = -2;
  std::string text;
  RankCheck check;
  SameErrors errors(3);
  run_ranks(3, [&](Communicator& comm) {
    Checkpoint checkpoint(comm, {.folder = folder, .strict = strict});
    std::vector<float> own(static_cast<std::size_t>(elements), -1), shared = own;
    checkpoint.add_local("own", std::span(own));
    checkpoint.add_replicated("shared", std::span(shared));
    try {
      const std::int64_t step = checkpoint.restore().value_or(-1);
      if (comm.rank() == 0) found = step;
      check.that(own[5] == (step < 0 ? -1.0f : static_cast<float>(step * 10 + comm.rank())), "a rank's own array");
      check.that(shared.back() == static_cast<float>(step), "a shared array");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_FILE && own[5] == -1 && shared[7] == -1, error.what());
      if (comm.rank() == 0) text = error.what();
    }
  });
  REQUIRE(check.failure() == "");
  if (!text.empty()) throw Error(WEIR_ERR_FILE, text);
  return found;
}

std::string path_of(const TemporaryFolder& folder, std::int64_t step) {
  return folder.path() + "/checkpoint-" + std::to_string(step) + ".h5";
}

/// Changes a byte in the middle of an array.
void damage(const std::string& path) {
  const checkpoint::Index index = checkpoint::read_whole(path);
  const checkpoint::File file = checkpoint::File::open_to_write(path);
  const std::int64_t address = index.subjects[0].datasets[0].chunks[0].address + 4;
  std::byte x{};
  file.read_at(address, {&x, 1});
  x ^= std::byte{1};
  file.write_at(address, {&x, 1});
}

herr_t copy_member(hid_t from, const char* name, const H5L_info_t* /*info*/, void* to) {
  return H5Ocopy(from, name, *static_cast<hid_t*>(to), name, H5P_DEFAULT, H5P_DEFAULT);
}

herr_t copy_attribute(hid_t from, const char* name, const H5A_info_t* /*info*/, void* to) {
  const hid_t old = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(old), space = H5Aget_space(old);
  std::vector<char> bytes(H5Tget_size(type) * static_cast<std::size_t>(std::max<hssize_t>(1, H5Sget_simple_extent_npoints(space))));
  const hid_t made = H5Acreate2(*static_cast<hid_t*>(to), name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  const bool copied = H5Aread(old, type, bytes.data()) >= 0 && H5Awrite(made, type, bytes.data()) >= 0;
  if (H5Tis_variable_str(type) > 0) H5Dvlen_reclaim(type, space, H5P_DEFAULT, bytes.data());
  H5Aclose(made), H5Sclose(space), H5Tclose(type), H5Aclose(old);
  return copied ? 0 : -1;
}

/// Copies everything into a new file with other places of chunks, as h5repack does.
void repack(const std::string& path) {
  const std::string aside = path + ".new";
  const hid_t from = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t to = H5Fcreate(aside.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE((from >= 0 && to >= 0));
  REQUIRE(H5Literate(from, H5_INDEX_NAME, H5_ITER_INC, nullptr, copy_member, &to) >= 0);
  hsize_t at = 0;
  REQUIRE(H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, &at, copy_attribute, &to) >= 0);
  H5Fclose(from), H5Fclose(to);
  fs::rename(aside, path);
}

}  // namespace

TEST_CASE("a program that opens a file to write and changes nothing leaves it whole", "[checkpoint]") {
  for (const std::int64_t compression : {0, 1}) {
    const TemporaryFolder folder;
    write_files(folder.path(), {1}, compression);
    const auto size = fs::file_size(path_of(folder, 1));
    for (int times = 0; times < 2; ++times) {
      const hid_t file = H5Fopen(path_of(folder, 1).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      REQUIRE(file >= 0);
      REQUIRE(H5Fclose(file) >= 0);
      CHECK(fs::file_size(path_of(folder, 1)) == size);
      CHECK(restored_step(folder.path(), true) == 1);
    }
    // A tool that adds something is detected.
    const hid_t file = H5Fopen(path_of(folder, 1).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "notes", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    CHECK_THROWS_AS(restored_step(folder.path()), Error);
  }
}

TEST_CASE("the newest file that is whole is restored, unless only the newest will do", "[checkpoint]") {
  const TemporaryFolder folder;
  write_files(folder.path(), {1, 2, 3, 4});
  CHECK(restored_step(folder.path()) == 4);
  damage(path_of(folder, 4));
  CHECK(restored_step(folder.path()) == 3);
  CHECK_THROWS_WITH(restored_step(folder.path(), true), Catch::Matchers::Contains("checkpoint-4.h5 is damaged"));
  fs::resize_file(path_of(folder, 3), 1000);
  CHECK(restored_step(folder.path()) == 2);
  fs::remove(path_of(folder, 4));  // the manifest still names it
  fs::remove(path_of(folder, 3));
  CHECK(restored_step(folder.path()) == 2);
  damage(path_of(folder, 2));
  damage(path_of(folder, 1));
  CHECK_THROWS_WITH(restored_step(folder.path()), Catch::Matchers::Contains("checkpoint-2.h5 is damaged"));
  fs::remove(path_of(folder, 2));
  fs::remove(path_of(folder, 1));
  CHECK(restored_step(folder.path()) == -1);
}

TEST_CASE("a file that was packed anew is restored once it is sealed again", "[checkpoint]") {
  for (const std::int64_t compression : {0, 1}) {
    const TemporaryFolder folder;
    write_files(folder.path(), {7}, compression);
    const std::string path = path_of(folder, 7);
    repack(path);
    CHECK_THROWS_AS(restored_step(folder.path()), Error);
    CHECK(checkpoint::reseal(path).step == 7);
    CHECK(restored_step(folder.path(), true) == 7);
    damage(path);
    CHECK_THROWS_WITH(checkpoint::reseal(path), Catch::Matchers::Contains("is not as it was saved"));
  }
}

TEST_CASE("texts are read as text by other programs", "[checkpoint]") {
  const TemporaryFolder folder;
  write_files(folder.path(), {1});
  const hid_t file = H5Fopen(path_of(folder, 1).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const auto& [object, name] : {std::pair("/", "weir"), {"/values", "note"}, {"/arrays/own/elements", "share"}}) {
    const hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT), type = H5Aget_type(attribute);
    INFO(object << " " << name);
    CHECK(H5Tis_variable_str(type) > 0);
    CHECK(H5Tget_cset(type) == H5T_CSET_UTF8);
    H5Tclose(type), H5Aclose(attribute);
  }
  H5Fclose(file);
}

TEST_CASE("a file is as large as what it holds, whatever the number of ranks", "[checkpoint]") {
  struct Case {
    std::int64_t arrays, count, compression;  ///< the larger ones are saved by some of the ranks
    std::vector<int> ranks;
  };
  for (const Case& c : {Case{40, 18750, 0, {1, 4, 33, 130}}, Case{3, 600000, 0, {1, 4, 33}}, Case{1, 600000, 1, {33}}}) {
    const auto made = [&c](float first) {
      std::vector<std::vector<float>> all(static_cast<std::size_t>(c.arrays),
                                          std::vector<float>(static_cast<std::size_t>(c.count)));
      for (std::vector<float>& array : all) std::iota(array.begin(), array.end(), first++);
      return all;
    };
    const auto add = [](Checkpoint& to, std::vector<std::vector<float>>& all) {
      for (std::size_t i = 0; i < all.size(); ++i) to.add_replicated("array" + std::to_string(i), std::span(all[i]));
    };
    for (const int ranks : c.ranks) {
      const TemporaryFolder folder;
      run_ranks(ranks, [&](Communicator& comm) {
        auto all = made(1);
        Checkpoint checkpoint(comm, {.folder = folder.path(), .compression = c.compression});
        add(checkpoint, all);
        checkpoint.save(1).wait();
      });
      const auto bytes = static_cast<double>(fs::file_size(path_of(folder, 1)));
      INFO(c.arrays << " arrays of " << c.count << ", compression " << c.compression << ", " << ranks << " ranks: " << bytes);
      CHECK(bytes < 1.06 * static_cast<double>(c.arrays * c.count * std::int64_t{sizeof(float)}));
      RankCheck check;
      run_ranks(ranks == 4 ? 3 : 4, [&](Communicator& comm) {
        auto all = made(0);
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        add(checkpoint, all);
        check.that(checkpoint.restore() == 1 && all == made(1), "what was saved");
      });
      CHECK(check.failure() == "");
    }
  }
}

TEST_CASE("a pipe in a file's place is refused", "[checkpoint]") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo(path_of(folder, 1).c_str(), 0600) == 0);
  CHECK_THROWS_WITH(checkpoint::read_whole(path_of(folder, 1)), Catch::Matchers::Contains("is no regular file"));
}

}  // namespace weir::test
