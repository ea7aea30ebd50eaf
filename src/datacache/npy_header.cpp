#include "datacache/npy_header.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/error.hpp"

namespace weir::datacache {
namespace {

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

}  // namespace

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

}  // namespace weir::datacache
