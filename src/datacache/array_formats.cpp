// Formats whose header is followed by an array: records of equal size, IDX, NumPy's.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>

#include "base/error.hpp"
#include "datacache/array_source.hpp"

namespace weir {

using namespace datacache;

namespace {

// IDX: two zeros, a type, the number of dimensions, the dimensions, the elements; everything big-endian.

constexpr std::size_t magic_bytes = 4, dimension_bytes = 4;

struct IdxType {
  int code;
  Number number;
  int bytes;
};
constexpr std::array idx_types = {IdxType{0x08, Number::natural, 1}, IdxType{0x09, Number::integer, 1},
                                  IdxType{0x0b, Number::integer, 2}, IdxType{0x0c, Number::integer, 4},
                                  IdxType{0x0d, Number::real, 4},    IdxType{0x0e, Number::real, 8}};

std::int64_t big_endian(std::span<const std::byte> bytes) {
  std::int64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<int>(byte);
  return value;
}

ArrayFile open_idx(const std::string& path) {
  ArrayFile array{StoreFile(path), magic_bytes, {}};
  std::array<std::byte, magic_bytes> magic{};
  if (array.file.bytes() < array.begin) fail(WEIR_ERR_FILE, "{} has {} bytes: it is no IDX file", path, array.file.bytes());
  array.file.read(0, magic);
  if (magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b})
    fail(WEIR_ERR_FILE, "{} is compressed by gzip: decompress it before, as gunzip does", path);
  const auto* const type = std::find_if(idx_types.begin(), idx_types.end(),
                                        [&](const IdxType& row) { return row.code == std::to_integer<int>(magic[2]); });
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type == idx_types.end())
    fail(WEIR_ERR_FILE, "{} is no IDX file: it begins with the bytes {:02x} {:02x} {:02x}, and none begins so", path,
         std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]), std::to_integer<int>(magic[2]));
  array.shape.element = {type->number, type->bytes, type->bytes > 1 && std::endian::native == std::endian::little};
  std::vector<std::byte> lengths(std::to_integer<std::size_t>(magic[3]) * dimension_bytes);
  array.begin += static_cast<std::int64_t>(lengths.size());
  if (array.file.bytes() < array.begin) fail(WEIR_ERR_FILE, "{} has {} bytes: it ends within its header", path, array.file.bytes());
  array.file.read(magic_bytes, lengths);
  for (std::size_t at = 0; at < lengths.size(); at += dimension_bytes)
    array.shape.dimensions.push_back(big_endian(std::span(lengths).subspan(at, dimension_bytes)));
  array.shape.measure(path);
  array.check_size();
  return array;
}

// NumPy's files, versions 1 to 3: "\x93NUMPY", the version, the header's length, the header, the elements. The header is a Python
// dictionary, for example "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }".

/// Reads the few kinds of literals that occur.
class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  [[noreturn]] void fail_here(std::string_view expected) const {
    fail(WEIR_ERR_FILE, "the header of {} is damaged: {} is expected {} bytes before its end", path_, expected, rest_.size());
  }
  bool take(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) fail_here(std::string(1, wanted));
  }
  [[nodiscard]] bool begins_with(char wanted) {
    skip_blanks();
    return !rest_.empty() && rest_.front() == wanted;
  }
  std::string_view text() {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') fail_here("a text");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail_here("the end of a text");
    const std::string_view found = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return found;
  }
  bool truth() {
    skip_blanks();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail_here("True or False");
  }
  std::int64_t length() {
    skip_blanks();
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') fail_here("a length");
    std::int64_t value = 0;
    bool fits = true;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1)) {
      fits = fits && !__builtin_mul_overflow(value, std::int64_t{10}, &value);
      fits = fits && !__builtin_add_overflow(value, std::int64_t{rest_.front() - '0'}, &value);
    }
    if (!fits) fail_here("a length that 64 bits can hold");
    take('L');  // written by Python 2
    return value;
  }
  std::vector<std::int64_t> lengths() {
    std::vector<std::int64_t> found;
    need('(');
    while (!take(')')) {
      found.push_back(length());
      if (!take(',') && !begins_with(')')) fail_here("a comma");
    }
    return found;
  }
  void need_end() {
    skip_blanks();
    if (!rest_.empty()) fail_here("nothing more");
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }

  std::string_view rest_;
  const std::string& path_;
};

/// Parses for example "<f4": byte order, kind, bytes.
Element element_of(std::string_view descr, const std::string& path) {
  constexpr std::string_view names[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"};
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view name = descr.substr(std::min<std::size_t>(1, descr.size()));
  const bool one_byte = name.ends_with('1');
  if (std::find(std::begin(names), std::end(names), name) == std::end(names) ||
      !(order == '<' || order == '>' || order == '=' || (order == '|' && one_byte)))
    fail(WEIR_ERR_FILE, "{} has elements of type '{}': Weir reads numbers, as bool, uint8, int64, float16 or complex64", path,
         descr);
  Element element;
  element.bytes = name == "c16" ? 16 : name[1] - '0';
  constexpr std::string_view kinds = "biufc";  // indexed by Number
  element.number = static_cast<Number>(kinds.find(name[0]));
  const char native = std::endian::native == std::endian::little ? '<' : '>';
  element.swapped = !one_byte && order != '=' && order != native;
  return element;
}

/// Throws Error(WEIR_ERR_FILE), whose text begins with `path`, if the header is damaged, or if the array does not hold plain
/// numbers in C order.
Shape parse_npy_header(std::string_view header, const std::string& path) {
  Parser parser(header, path);
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> lengths;
  parser.need('{');
  while (!parser.take('}')) {
    const std::string_view key = parser.text();
    parser.need(':');
    if (key == "descr" && !descr) {
      if (parser.begins_with('[')) fail(WEIR_ERR_FILE, "{} is a structured array: save its fields as arrays of their own", path);
      descr = parser.text();
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = parser.truth();
    } else if (key == "shape" && !lengths) {
      lengths = parser.lengths();
    } else {
      parser.fail_here("one each of 'descr', 'fortran_order' and 'shape'");
    }
    if (!parser.take(',') && !parser.begins_with('}')) parser.fail_here("a comma");
  }
  parser.need_end();
  if (!descr || !fortran_order || !lengths) parser.fail_here("one each of 'descr', 'fortran_order' and 'shape'");
  if (descr->ends_with('O'))
    fail(WEIR_ERR_FILE, "{} has Python objects, which only Python can read: save an array of numbers", path);
  if (*fortran_order && lengths->size() > 1)
    fail(WEIR_ERR_FILE, "{} is in the order of Fortran: save numpy.ascontiguousarray(a)", path);
  Shape shape;
  shape.element = element_of(*descr, path);
  shape.dimensions = std::move(*lengths);
  shape.measure(path);
  return shape;
}

ArrayFile open_npy(const std::string& path) {
  constexpr std::int64_t largest_header = 1 << 20;
  constexpr std::string_view magic = "\x93NUMPY";
  ArrayFile array{StoreFile(path), 0, {}};
  std::array<std::byte, 12> begin{};  // the bytes before the header; in version 1, also its beginning
  if (array.file.bytes() < static_cast<std::int64_t>(begin.size()))
    fail(WEIR_ERR_FILE, "{} has {} bytes: it is no NumPy file", path, array.file.bytes());
  array.file.read(0, begin);
  if (std::memcmp(begin.data(), "PK\x03\x04", 4) == 0)
    fail(WEIR_ERR_FILE, "{} is an archive of NumPy files (.npz): save arrays by numpy.save, a file for each", path);
  if (std::memcmp(begin.data(), magic.data(), magic.size()) != 0)
    fail(WEIR_ERR_FILE, "{} is no NumPy file: it does not begin with \\x93NUMPY", path);
  const int version = std::to_integer<int>(begin[6]);
  if (version < 1 || version > 3)
    fail(WEIR_ERR_FILE, "{} is a NumPy file of version {}: versions 1, 2 and 3 can be read", path, version);
  const int length_bytes = version == 1 ? 2 : 4;
  std::int64_t length = 0;
  for (int i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<int>(begin[static_cast<std::size_t>(8 + i)]);
  const std::int64_t before = 8 + length_bytes;
  if (length > largest_header || length > array.file.bytes() - before)
    fail(WEIR_ERR_FILE, "{} claims a header of {} bytes, and has {} in all: it is damaged", path, length, array.file.bytes());
  std::string header(static_cast<std::size_t>(length), '\0');
  array.file.read(before, std::as_writable_bytes(std::span(header)));
  array.begin = before + length;
  array.shape = parse_npy_header(header, path);
  array.check_size();
  return array;
}

/// Opens an array, and its labels if there are any.
std::shared_ptr<SampleSource> opened(const char* format, ArrayFile (*open)(const std::string& path), const std::string& path,
                                     const std::string& labels) {
  return array_source(format, open(path), labels.empty() ? std::nullopt : std::optional(open(labels)));
}

}  // namespace

std::shared_ptr<SampleSource> record_source(const std::string& path, std::int64_t record_bytes, std::int64_t header_bytes) {
  require(record_bytes >= 1, "a record has {} bytes: it must have at least 1", record_bytes);
  require(header_bytes >= 0, "the header has {} bytes: it must not have fewer than 0", header_bytes);
  ArrayFile records{StoreFile(path), header_bytes, {}};
  const std::int64_t bytes = records.file.bytes() - header_bytes;
  if (bytes < 0 || bytes % record_bytes != 0)
    fail(WEIR_ERR_FILE, "{} has {} bytes, which are no header of {} bytes and a whole number of records of {} bytes", path,
         records.file.bytes(), header_bytes, record_bytes);
  records.shape.dimensions = {bytes / record_bytes, record_bytes};
  records.shape.measure(path);
  return array_source("records", std::move(records), std::nullopt);
}

std::shared_ptr<SampleSource> idx_source(const std::string& path, const std::string& labels) {
  return opened("idx", open_idx, path, labels);
}

std::shared_ptr<SampleSource> npy_source(const std::string& path, const std::string& labels) {
  return opened("npy", open_npy, path, labels);
}

}  // namespace weir
