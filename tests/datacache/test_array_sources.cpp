// test_array_sources.cpp: records, IDX and NumPy files against plain readers; damaged ones, and headers that lie.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "datacache/source_files.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<std::int64_t>(i * 2654435761U) - 1000000007);
  return values;
}

/// Checks that read() gives the same samples for every kind of request.
void check_values(SampleSource& source, const std::vector<Bytes>& expected) {
  REQUIRE(source.size() == static_cast<std::int64_t>(expected.size()));
  CHECK(values_of(source) == expected);
  CHECK(values_of(source, source.size(), 0).empty());
  for (std::int64_t i = 0; i < source.size(); ++i) {
    CHECK(values_of(source, i, 1).at(0) == expected[static_cast<std::size_t>(i)]);
    CHECK(static_cast<std::int64_t>(expected[static_cast<std::size_t>(i)].size()) == source.value_bytes());
  }
  CHECK_THROWS_AS(values_of(source, 0, source.size() + 1), Error);
  CHECK_THROWS_AS(values_of(source, -1, 1), Error);
  CHECK_FALSE(source.variable());
}

template <class T>
void check_idx_type(const std::string& folder, int code) {
  const std::vector<T> values = numbers<T>(7 * 3 * 5);
  write_file(folder + "/items", idx_header(code, {7, 3, 5}) + elements(values, true));
  const std::shared_ptr<SampleSource> source = idx_source(folder + "/items");
  check_values(*source, labelled(elements(values, false), 15 * sizeof(T), {}));
  CHECK_THAT(source->layout(), ContainsSubstring("[3,5]"));
  CHECK(source->identity().find('\n') == std::string::npos);
  CHECK(source->identity().find(folder) == std::string::npos);
  CHECK(source->identity().find("7x3x5") != std::string::npos);
}

TEST_CASE("IDX files of every type are read as a plain reader does") {
  const TemporaryFolder folder;
  check_idx_type<std::uint8_t>(folder.path(), 0x08);
  check_idx_type<std::int8_t>(folder.path(), 0x09);
  check_idx_type<std::int16_t>(folder.path(), 0x0b);
  check_idx_type<std::int32_t>(folder.path(), 0x0c);
  check_idx_type<float>(folder.path(), 0x0d);
  check_idx_type<double>(folder.path(), 0x0e);
}

TEST_CASE("IDX files of 1 to 255 dimensions") {
  const TemporaryFolder folder;
  for (const std::size_t dimensions : {1, 2, 3, 254, 255}) {
    std::vector<std::uint32_t> lengths(dimensions, 1);
    lengths.front() = 5;
    lengths.back() = dimensions == 1 ? 5 : 3;
    const std::size_t item = dimensions == 1 ? 1 : 3;
    const std::string items = elements(numbers<std::uint8_t>(5 * item), false);
    write_file(folder.path() + "/items", idx_header(8, lengths) + items);
    check_values(*idx_source(folder.path() + "/items"), labelled(items, item, {}));
  }
}

TEST_CASE("labels follow their items, whatever type they have") {
  const TemporaryFolder folder;
  const std::string items = folder.path() + "/items", labels = folder.path() + "/labels";
  for (const std::uint32_t item : {1, 2, 3, 4, 5, 784}) {
    const std::string bytes = elements(numbers<std::uint8_t>(6 * item), false);
    write_file(items, idx_header(8, {6, item}) + bytes);
    write_file(labels, idx_header(8, {6}) + std::string("\x00\x01\x02\xff\x80\x05", 6));
    check_values(*idx_source(items, labels), labelled(bytes, item, {0, 1, 2, 255, 128, 5}));
    write_file(labels, idx_header(9, {6}) + std::string("\x00\x01\x02\xff\x80\x05", 6));
    check_values(*idx_source(items, labels), labelled(bytes, item, {0, 1, 2, -1, -128, 5}));
    write_file(labels, idx_header(11, {6, 1}) + elements(std::vector<std::int16_t>{1, -2, 3, 32767, -32768, 0}, true));
    check_values(*idx_source(items, labels), labelled(bytes, item, {1, -2, 3, 32767, -32768, 0}));
    write_file(labels, idx_header(12, {6}) + elements(std::vector<std::int32_t>{1, -2, 3, 2147483647, -2147483647 - 1, 0}, true));
    check_values(*idx_source(items, labels), labelled(bytes, item, {1, -2, 3, 2147483647, -2147483647 - 1, 0}));
  }
  CHECK(idx_source(items)->identity() != idx_source(items, labels)->identity());
  CHECK(idx_source(items)->layout() == "uint8[784]");
  CHECK(idx_source(items, labels)->layout() == "uint8[784] int32[]");
  CHECK(idx_source(labels)->layout() == "int32[]");
}

TEST_CASE("labels that do not fit are refused") {
  const TemporaryFolder folder;
  const std::string items = folder.path() + "/items", labels = folder.path() + "/labels";
  const auto both = [&] { return idx_source(items, labels); };
  write_file(items, idx_header(8, {6, 2}) + std::string(12, 'x'));
  write_file(labels, idx_header(8, {5}) + std::string(5, 'y'));
  CHECK_THAT(file_error(both), ContainsSubstring("5 labels, and there are 6 samples"));
  write_file(labels, idx_header(8, {6, 2}) + std::string(12, 'y'));
  CHECK_THAT(file_error(both), ContainsSubstring("one for each sample"));
  write_file(labels, idx_header(13, {6}) + std::string(24, 'y'));
  CHECK_THAT(file_error(both), ContainsSubstring("labels are integers"));
  CHECK_THAT(file_error([&] { return idx_source(items, folder.path() + "/none"); }), ContainsSubstring("No such file"));

  const std::string large = folder.path() + "/large.npy", plain = folder.path() + "/plain.npy";
  write_file(plain, npy_header(npy_dictionary("|u1", "(2, 3)")) + "abcdef");
  write_file(large,
             npy_header(npy_dictionary("<i8", "(2,)")) + elements(std::vector<std::int64_t>{7, std::int64_t{1} << 31}, false));
  const std::shared_ptr<SampleSource> source = npy_source(plain, large);
  CHECK(values_of(*source, 0, 1) == labelled("abc", 3, {7}));
  CHECK_THAT(file_error([&] { return values_of(*source, 1, 1); }), ContainsSubstring("2147483648 does not fit"));
}

TEST_CASE("NumPy files of every type, byte order and version") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.npy";
  const auto check = [&](const std::string& type, auto element, std::size_t part) {
    using T = decltype(element);
    const std::vector<T> values = numbers<T>(4 * 3 * part);
    const bool big = type[0] == '>';
    for (const int version : {1, 2, 3}) {
      write_file(path, npy_header(npy_dictionary(type, "(4, 3)"), version) + elements(values, big));
      INFO(type << " of version " << version);
      check_values(*npy_source(path), labelled(elements(values, false), 3 * part * sizeof(T), {}));
    }
  };
  for (const char* type : {"|b1", "|u1", "|i1", "<u1", ">i1", "=b1"}) check(type, std::uint8_t{}, 1);
  for (const std::string order : {"<", ">", "="}) {
    for (const char* type : {"u2", "i2", "f2"}) check(order + type, std::uint16_t{}, 1);
    for (const char* type : {"u4", "i4", "f4"}) check(order + type, std::uint32_t{}, 1);
    for (const char* type : {"u8", "i8", "f8"}) check(order + type, std::uint64_t{}, 1);
    check(order + "c8", std::uint32_t{}, 2);
    check(order + "c16", std::uint64_t{}, 2);
  }
}

TEST_CASE("NumPy headers may be written in other ways") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.npy";
  for (const std::string dictionary : {
           "{'shape': (2, 3), 'descr': '|u1', 'fortran_order': False}",
           "{\"descr\": \"|u1\", \"fortran_order\" : False,\"shape\":(2,3,),}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }",
       }) {
    write_file(path, npy_header(dictionary) + "abcdef");
    INFO(dictionary);
    check_values(*npy_source(path), labelled("abcdef", 3, {}));
  }
  write_file(path, npy_header("{'descr': '|u1', 'fortran_order': True, 'shape': (3,), }") + "abc");
  check_values(*npy_source(path), labelled("abc", 1, {}));
}

TEST_CASE("NumPy files that hold something else are refused, and say what would do") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.npy";
  const auto error_of = [&](const std::string& content) {
    write_file(path, content);
    const std::string text = file_error([&] { return npy_source(path); });
    CHECK_THAT(text, ContainsSubstring(path));
    return text;
  };
  const auto of_dictionary = [&](const std::string& dictionary) { return error_of(npy_header(dictionary) + std::string(48, 'x')); };
  CHECK_THAT(of_dictionary(npy_dictionary("|O", "(6,)")), ContainsSubstring("Python objects"));
  CHECK_THAT(of_dictionary("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (6,), }"),
             ContainsSubstring("structured array"));
  CHECK_THAT(of_dictionary("{'descr': '<f4', 'fortran_order': True, 'shape': (6, 2), }"), ContainsSubstring("ascontiguousarray"));
  for (const char* type : {"<U4", "|S8", "<M8[s]", "<m8", "|V8", "<f16", "f4", "", "<", "<f3", "<i16", "|i8", "<b4", "<f44", "?"})
    CHECK_THAT(of_dictionary(npy_dictionary(type, "(6,)")), ContainsSubstring("elements of type"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "()")), ContainsSubstring("a single number"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "(3, 0)")), ContainsSubstring("items of no bytes"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "(5,)")), ContainsSubstring("has 48 bytes after its header"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "(4294967296, 4294967296)")), ContainsSubstring("which no file has"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "(0, 4294967296, 4294967296)")), ContainsSubstring("which no file has"));
  CHECK_THAT(of_dictionary(npy_dictionary("<f4", "(9223372036854775807,)")), ContainsSubstring("which no file has"));
  for (const char* shape : {"(99999999999999999999,)", "(-12,)", "(12", "12", "(1 2)", "(,)", "[12]", "(12.,)", "(0xc,)"})
    CHECK_THAT(of_dictionary(npy_dictionary("<f4", shape)), ContainsSubstring("header of " + path + " is damaged"));
  for (const char* dictionary :
       {"", "{}", "{'descr': '<f4', 'shape': (12,), }", "{'descr': '<f4', 'fortran_order': 0, 'shape': (12,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (12,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12,)} x", "{'descr': '<f4"})
    CHECK_THAT(of_dictionary(dictionary), ContainsSubstring("is damaged"));
  CHECK_THAT(error_of("PK\x03\x04" + std::string(40, 'x')), ContainsSubstring(".npz"));
  CHECK_THAT(error_of("\x93NUMPZ" + std::string(40, 'x')), ContainsSubstring("no NumPy file"));
  CHECK_THAT(error_of(npy_header(npy_dictionary("<f4", "(0,)"), 4)), ContainsSubstring("version 4"));
  CHECK_THAT(error_of(""), ContainsSubstring("no NumPy file"));
}

TEST_CASE("records of equal size after a header") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records";
  write_file(path, "headABCDEFGHI");
  check_values(*record_source(path, 3, 4), labelled("ABCDEFGHI", 3, {}));
  check_values(*record_source(path, 9, 4), labelled("ABCDEFGHI", 9, {}));
  check_values(*record_source(path, 13), labelled("headABCDEFGHI", 13, {}));
  check_values(*record_source(path, 100, 13), {});
  CHECK(record_source(path, 3, 4)->identity() != record_source(path, 9, 4)->identity());
  CHECK(record_source(path, 1, 12)->identity() != record_source(path, 1, 11)->identity());
  CHECK_THAT(file_error([&] { return record_source(path, 2, 4); }), ContainsSubstring("whole number of records of 2 bytes"));
  CHECK_THAT(file_error([&] { return record_source(path, 1, 14); }), ContainsSubstring("no header of 14 bytes"));
  CHECK_THAT(file_error([&] { return record_source(folder.path(), 1); }), ContainsSubstring("no regular file"));
  CHECK_THAT(file_error([&] { return record_source(path + "2", 1); }), ContainsSubstring("No such file"));
  CHECK_THROWS_AS(record_source(path, 0), Error);
  CHECK_THROWS_AS(record_source(path, 1, -1), Error);
}

TEST_CASE("empty data sets, and those of one sample") {
  const TemporaryFolder folder;
  const std::string items = folder.path() + "/items", labels = folder.path() + "/labels";
  write_file(items, idx_header(8, {0, 28, 28}));
  write_file(labels, idx_header(8, {0}));
  check_values(*idx_source(items, labels), {});
  CHECK(idx_source(items, labels)->value_bytes() == 788);
  write_file(items, npy_header(npy_dictionary("<f4", "(0, 5)")));
  check_values(*npy_source(items), {});
  write_file(items, idx_header(8, {1, 3}) + "abc");
  write_file(labels, idx_header(8, {1}) + "\x07");
  check_values(*idx_source(items, labels), labelled("abc", 3, {7}));
}

TEST_CASE("IDX files that are none") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/items";
  const auto error_of = [&](const std::string& content) {
    write_file(path, content);
    return file_error([&] { return idx_source(path); });
  };
  CHECK_THAT(error_of("\x1f\x8b\x08\x08" + std::string(40, 'x')), ContainsSubstring("gunzip"));
  CHECK_THAT(error_of(""), ContainsSubstring("no IDX file"));
  CHECK_THAT(error_of("text"), ContainsSubstring("no IDX file"));
  CHECK_THAT(error_of(idx_header(10, {1}) + "x"), ContainsSubstring("no IDX file"));
  CHECK_THAT(error_of(idx_header(8, {}) + "x"), ContainsSubstring("a single number"));
  CHECK_THAT(error_of(idx_header(8, {4294967295U, 4294967295U}) + "x"), ContainsSubstring("damaged"));
  CHECK_THAT(error_of(idx_header(14, std::vector<std::uint32_t>(255, 4294967295U)) + "x"), ContainsSubstring("which no file has"));
}

/// Checks that a source of this file can be read to its end, or throws an error that names the file, with little memory.
void survives(const std::function<std::shared_ptr<SampleSource>()>& make, const std::string& path) {
  try {
    const std::shared_ptr<SampleSource> source = make();
    REQUIRE(source->size() * std::max<std::int64_t>(1, source->value_bytes()) <=
            16 * static_cast<std::int64_t>(std::filesystem::file_size(path)));
    static_cast<void>(values_of(*source));
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_FILE);
    REQUIRE_THAT(error.what(), ContainsSubstring(path));
  }
}

/// Gives every byte of `whole`'s header several other values, truncates the file at every place, and extends it.
void damage(const std::string& path, const std::string& whole, std::size_t header,
            const std::function<std::shared_ptr<SampleSource>()>& make) {
  for (std::size_t at = 0; at < header; ++at) {
    for (const int flip : {0x01, 0x04, 0x20, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      write_file(path, damaged);
      survives(make, path);
    }
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    REQUIRE_THAT(file_error(make), ContainsSubstring(path));
  }
  write_file(path, whole + "x");
  REQUIRE_THAT(file_error(make), ContainsSubstring(path));
}

TEST_CASE("damaged headers end in an error, or in data that are there") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/items";
  const std::string idx = idx_header(12, {4, 3, 2});
  damage(path, idx + std::string(96, 'x'), idx.size(), [&] { return idx_source(path); });
  for (const int version : {1, 2}) {
    const std::string npy = npy_header(npy_dictionary("<f4", "(4, 3, 2)"), version);
    damage(path, npy + std::string(96, 'x'), npy.size(), [&] { return npy_source(path); });
  }
}

TEST_CASE("headers of random bytes end in an error, or in data that are there") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/items";
  Dice dice(11);
  const std::vector<std::string> words = {"'descr'",
                                          "'shape'",
                                          "'fortran_order'",
                                          ":",
                                          ",",
                                          "(",
                                          ")",
                                          "{",
                                          "}",
                                          "'<f4'",
                                          "'|u1'",
                                          "'",
                                          "False",
                                          "True",
                                          "3",
                                          "0",
                                          "18446744073709551615",
                                          "9223372036854775807",
                                          " ",
                                          "L",
                                          "[",
                                          "\""};
  for (int round = 0; round < 2000; ++round) {
    std::string dictionary = dice.chance(50) ? npy_dictionary("<f4", "(4, 3)") : "{";
    for (int change = dice.small(1, 12); change > 0; --change) {
      const auto at = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(dictionary.size())));
      const auto cut = static_cast<std::size_t>(dice.between(0, 3));
      dictionary.replace(at, std::min(cut, dictionary.size() - at), dice.one_of(words));
    }
    write_file(path, npy_header(dictionary, dice.small(1, 3)) + std::string(48, 'x'));
    survives([&] { return npy_source(path); }, path);
    std::string idx = std::string(2, '\0') + static_cast<char>(dice.small(8, 14)) + static_cast<char>(dice.small(0, 4));
    for (int i = dice.small(0, 20); i > 0; --i)
      idx += dice.chance(70) ? static_cast<char>(dice.small(0, 3)) : static_cast<char>(dice.word());
    write_file(path, idx);
    survives([&] { return idx_source(path); }, path);
  }
}

TEST_CASE("identities tell data sets apart, and not where they are mounted") {
  const TemporaryFolder folder;
  const std::string there = folder.path() + "/there/items", here = folder.path() + "/here/items";
  std::filesystem::create_directory(folder.path() + "/there");
  std::filesystem::create_directory(folder.path() + "/here");
  write_file(there, idx_header(8, {6}) + "abcdef");
  std::filesystem::copy_file(there, here);
  std::filesystem::last_write_time(here, std::filesystem::last_write_time(there));
  CHECK(idx_source(there)->identity() == idx_source(here)->identity());
  std::filesystem::last_write_time(here, std::filesystem::last_write_time(there) + std::chrono::nanoseconds(1));
  CHECK(idx_source(there)->identity() != idx_source(here)->identity());
  const std::string odd = folder.path() + "/two\nlines";
  write_file(odd, idx_header(8, {6}) + "abcdef");
  CHECK(idx_source(odd)->identity().find('\n') == std::string::npos);
}

TEST_CASE("a file that is cut off or overwritten later ends reads in an error; one that is removed does not") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/items", labels = folder.path() + "/labels";
  write_file(path, std::string(100, 'x'));
  const std::shared_ptr<SampleSource> cut = record_source(path, 10);
  std::filesystem::resize_file(path, 55);
  CHECK_THAT(file_error([&] { return values_of(*cut, 4, 2); }), ContainsSubstring("ends at byte 55, 5 bytes early"));
  CHECK_THAT(file_error([&] { return values_of(*cut, 4, 1); }), ContainsSubstring("items was changed while it was in use"));

  write_file(path, idx_header(8, {6}) + "abcdef");
  write_file(labels, idx_header(8, {6}) + "uvwxyz");
  const auto time = std::filesystem::last_write_time(labels);
  const std::shared_ptr<SampleSource> overwritten = idx_source(path, labels);
  const std::vector<Bytes> values = values_of(*overwritten, 0, 6);
  write_file(labels, idx_header(8, {6}) + "UVWXYZ");  // as many bytes
  std::filesystem::last_write_time(labels, time + std::chrono::nanoseconds(1));
  CHECK_THAT(file_error([&] { return values_of(*overwritten, 2, 1); }),
             ContainsSubstring("labels was changed while it was in use"));
  write_file(labels, idx_header(8, {6}) + "uvwxyz");
  std::filesystem::last_write_time(labels, time);
  CHECK(values_of(*overwritten, 0, 6) == values);
  std::filesystem::remove(path);
  CHECK(values_of(*overwritten, 0, 6) == values);
}

TEST_CASE("a pipe in a file's place is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(file_error([&] { return values_of(*record_source(path, 10)); }), ContainsSubstring("it is no regular file"));
}

TEST_CASE("threads read and decode at once") {
  const TemporaryFolder folder;
  const std::string items = folder.path() + "/items", labels = folder.path() + "/labels";
  constexpr std::size_t samples = 500, item = 33;
  const std::vector<std::int16_t> values = numbers<std::int16_t>(samples * item);
  const std::vector<std::int32_t> classes = numbers<std::int32_t>(samples);
  write_file(items, idx_header(11, {samples, item}) + elements(values, true));
  write_file(labels, idx_header(12, {samples}) + elements(classes, true));
  const std::shared_ptr<SampleSource> source = idx_source(items, labels);
  const std::vector<Bytes> expected = labelled(elements(values, false), item * 2, classes);
  std::array<bool, 4> right{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      right[t] = true;
      for (std::int64_t first = static_cast<std::int64_t>(t); first + 7 < static_cast<std::int64_t>(samples); first += 5) {
        const std::vector<Bytes> read = values_of(*source, first, 7);
        right[t] = right[t] && std::equal(read.begin(), read.end(), expected.begin() + first);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::all_of(right.begin(), right.end(), [](bool all) { return all; }));
}

}  // namespace
}  // namespace weir::test
