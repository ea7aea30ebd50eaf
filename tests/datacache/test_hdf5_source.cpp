// test_hdf5_source.cpp: data sets in HDF5 files written by the HDF5 library.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/hdf5.hpp"
#include "datacache/source_files.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

using Lengths = std::vector<hsize_t>;

/// Writes a file of data sets.
class Maker {
 public:
  explicit Maker(const std::string& path) : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  ~Maker() { H5Fclose(file_); }

  /// Adds a data set. `values` have the type `memory`. If `chunk` is above 0, the data set has compressed chunks of that many
  /// items.
  template <class T>
  void add(const std::string& name, hid_t type, hid_t memory, const Lengths& lengths, const std::vector<T>& values,
           hsize_t chunk = 0) {
    const hid_t space =
        lengths.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    if (chunk > 0) {
      Lengths chunks = lengths;
      chunks[0] = chunk;
      H5Pset_chunk(how, static_cast<int>(chunks.size()), chunks.data());
      H5Pset_deflate(how, 1);
    }
    const hid_t data = H5Dcreate2(file_, name.c_str(), type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    if (!values.empty()) H5Dwrite(data, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(data);
    H5Pclose(how);
    H5Sclose(space);
  }
  [[nodiscard]] hid_t file() const { return file_; }

 private:
  hid_t file_;
};

template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i * 37 % 101);
  return values;
}

template <class T>
void check_type(const std::string& path, hid_t little, hid_t big, hid_t native) {
  const std::vector<T> values = numbers<T>(11 * 3 * 2);
  for (const hid_t type : {little, big}) {
    for (const hsize_t chunk : {0, 1, 4, 11}) {
      Maker(path).add("a", type, native, {11, 3, 2}, values, chunk);
      const std::shared_ptr<SampleSource> source = hdf5_source(path, "a");
      CHECK(source->value_bytes() == 6 * static_cast<std::int64_t>(sizeof(T)));
      CHECK(values_of(*source) == labelled(elements(values, false), 6 * sizeof(T), {}));
      for (std::int64_t i = 0; i < 11; ++i) CHECK(values_of(*source, i, 1)[0] == values_of(*source)[static_cast<std::size_t>(i)]);
      CHECK(values_of(*source, 3, 0).empty());
      CHECK_THROWS_AS(values_of(*source, 10, 2), Error);
    }
  }
}

TEST_CASE("data sets of every type, byte order and layout") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  check_type<std::int8_t>(path, H5T_STD_I8LE, H5T_STD_I8BE, H5T_NATIVE_INT8);
  check_type<std::uint8_t>(path, H5T_STD_U8LE, H5T_STD_U8BE, H5T_NATIVE_UINT8);
  check_type<std::int16_t>(path, H5T_STD_I16LE, H5T_STD_I16BE, H5T_NATIVE_INT16);
  check_type<std::uint32_t>(path, H5T_STD_U32LE, H5T_STD_U32BE, H5T_NATIVE_UINT32);
  check_type<std::int64_t>(path, H5T_STD_I64LE, H5T_STD_I64BE, H5T_NATIVE_INT64);
  check_type<float>(path, H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_NATIVE_FLOAT);
  check_type<double>(path, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE);
}

TEST_CASE("labels of the same file, in groups, and truth values") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  const std::vector<std::uint8_t> images = numbers<std::uint8_t>(5 * 3);
  const std::vector<std::int64_t> labels = {3, -1, 4, 1, 5};
  {
    Maker maker(path);
    H5Gclose(H5Gcreate2(maker.file(), "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    maker.add("train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {5, 3}, images, 2);
    maker.add("train/labels", H5T_STD_I64BE, H5T_NATIVE_INT64, {5}, labels);
    maker.add("train/few", H5T_STD_I64BE, H5T_NATIVE_INT64, {4}, std::vector<std::int64_t>(4));
    maker.add("train/real", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {5}, std::vector<float>(5));
    maker.add("none", H5T_STD_U8LE, H5T_NATIVE_UINT8, {0, 3}, std::vector<std::uint8_t>());
    const hid_t truth = H5Tenum_create(H5T_STD_I8LE);  // as h5py has it
    const std::array<std::int8_t, 2> values = {0, 1};
    H5Tenum_insert(truth, "FALSE", &values[0]);
    H5Tenum_insert(truth, "TRUE", &values[1]);
    maker.add("truth", truth, truth, {5}, std::vector<std::int8_t>{1, 0, 0, 1, 1});
    H5Tclose(truth);
  }
  const std::string bytes = elements(images, false);
  CHECK(values_of(*hdf5_source(path, "train/images", "train/labels")) == labelled(bytes, 3, {3, -1, 4, 1, 5}));
  CHECK(values_of(*hdf5_source(path, "/train/images", "truth")) == labelled(bytes, 3, {1, 0, 0, 1, 1}));
  CHECK(hdf5_source(path, "none")->size() == 0);
  CHECK(values_of(*hdf5_source(path, "none")).empty());
  CHECK(hdf5_source(path, "train/images", "train/labels")->layout() == "uint8[3] int32[]");
  const std::string identity = hdf5_source(path, "train/images", "train/labels")->identity();
  CHECK(identity != hdf5_source(path, "train/images")->identity());
  CHECK_THAT(identity, ContainsSubstring("uint8 5x3") && ContainsSubstring("train/labels int64 5"));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "train/images", "train/few"); }),
             ContainsSubstring("4 labels, and there are 5"));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "train/images", "train/real"); }), ContainsSubstring("labels are integers"));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "train/image"); }), ContainsSubstring("'train/image' of " + path));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "train"); }), ContainsSubstring("'train' of " + path));
}

TEST_CASE("what is no array of numbers is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  {
    Maker maker(path);
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 8);
    maker.add("text", text, text, {2}, std::vector<char>(16, 'x'));
    H5Tclose(text);
    const hid_t pair = H5Tcreate(H5T_COMPOUND, 8);
    H5Tinsert(pair, "a", 0, H5T_NATIVE_FLOAT);
    H5Tinsert(pair, "b", 4, H5T_NATIVE_FLOAT);
    maker.add("pair", pair, pair, {2}, std::vector<float>(4));
    H5Tclose(pair);
    maker.add("long", H5T_NATIVE_LDOUBLE, H5T_NATIVE_LDOUBLE, {2}, std::vector<long double>(2));
    maker.add("one", H5T_STD_U8LE, H5T_NATIVE_UINT8, {}, std::vector<std::uint8_t>{1});
    maker.add("flat", H5T_STD_U8LE, H5T_NATIVE_UINT8, {3, 0}, std::vector<std::uint8_t>());
  }
  for (const char* name : {"text", "pair", "long"})
    CHECK_THAT(file_error([&] { return hdf5_source(path, name); }), ContainsSubstring("no integers or real numbers"));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "one"); }), ContainsSubstring("a single number"));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "flat"); }), ContainsSubstring("items of no bytes"));
  CHECK_THAT(file_error([&] { return hdf5_source(folder.path() + "/none.h5", "a"); }), ContainsSubstring("No such file"));
  CHECK_THAT(file_error([&] { return hdf5_source(folder.path(), "a"); }), ContainsSubstring("no regular file"));
  write_file(folder.path() + "/text", "no HDF5 at all");
  CHECK_THAT(file_error([&] { return hdf5_source(folder.path() + "/text", "a"); }), ContainsSubstring("/text"));
  const std::string whole = read_file(path);
  write_file(path, whole.substr(0, whole.size() / 2));
  CHECK_THAT(file_error([&] { return hdf5_source(path, "one"); }), ContainsSubstring(path));
}

TEST_CASE("damaged chunks end in an error that says which samples") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  Maker(path).add("a", H5T_STD_U8LE, H5T_NATIVE_UINT8, {4, 4096}, numbers<std::uint8_t>(4 * 4096), 1);
  const std::vector<Bytes> expected = values_of(*hdf5_source(path, "a"));
  std::string whole = read_file(path);
  const std::size_t chunk = whole.find("\x78\x01");  // zlib's
  REQUIRE(chunk != std::string::npos);
  std::fill_n(whole.begin() + static_cast<std::ptrdiff_t>(chunk), 40, '\xff');
  write_file(path, whole);
  const std::shared_ptr<SampleSource> source = hdf5_source(path, "a");
  const std::string text = file_error([&] { return values_of(*source); });
  CHECK_THAT(text, ContainsSubstring("samples 0 to 3 of 'a' of " + path));
  int right = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::string error = file_error([&] {
      right += values_of(*source, i, 1)[0] == expected[static_cast<std::size_t>(i)] ? 1 : 0;
      return 0;
    });
    CHECK((error == "none" || error.find("samples") != std::string::npos));
  }
  CHECK(right == 3);
}

TEST_CASE("a file that is written later ends reads in an error") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  Maker(path).add("a", H5T_STD_U8LE, H5T_NATIVE_UINT8, {4, 10}, numbers<std::uint8_t>(4 * 10));
  const std::shared_ptr<SampleSource> source = hdf5_source(path, "a");
  CHECK(values_of(*source).size() == 4);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::nanoseconds(1));
  CHECK_THAT(file_error([&] { return values_of(*source); }), ContainsSubstring(path + " was changed while it was in use"));
}

TEST_CASE("threads read at once, beside others that use the library under its lock") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/data.h5";
  const std::vector<std::int32_t> values = numbers<std::int32_t>(300 * 10);
  Maker(path).add("a", H5T_STD_I32BE, H5T_NATIVE_INT32, {300, 10}, values, 7);
  const std::vector<Bytes> expected = labelled(elements(values, false), 40, {});
  const std::shared_ptr<SampleSource> shared = hdf5_source(path, "a");
  std::array<bool, 4> right{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::shared_ptr<SampleSource> own = hdf5_source(path, "a");
      right[t] = true;
      for (std::int64_t first = static_cast<std::int64_t>(t); first + 9 <= 300; first += 11) {
        const std::vector<Bytes> read = values_of(t % 2 == 0 ? *shared : *own, first, 9);
        right[t] = right[t] && std::equal(read.begin(), read.end(), expected.begin() + first);
        const std::lock_guard lock(hdf5::one_at_a_time);
        Maker(folder.path() + "/other" + std::to_string(t))
            .add("b", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2}, std::vector<std::uint8_t>(2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::all_of(right.begin(), right.end(), [](bool all) { return all; }));
}

}  // namespace
}  // namespace weir::test
