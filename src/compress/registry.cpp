#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "compress/compressor.hpp"

namespace weir::compress {
namespace {

constexpr std::array rows = {
#define WEIR_COMPRESSOR(name) &name##_row,
#include "compress/compressors.def"
#undef WEIR_COMPRESSOR
};

}  // namespace

std::span<const CompressorRow* const> compressor_registry() { return rows; }

const CompressorRow& find_compressor(std::string_view name) {
  for (const CompressorRow* row : rows) {
    if (row->name == name) return *row;
  }
  std::string known;
  std::vector<std::string_view> names;
  for (const CompressorRow* row : rows) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row->name);
    names.push_back(row->name);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no compressor '{}': known are {}, none" WEIR_NAMES_LEFT_OUT "; did you mean '{}'?", name, known,
       nearest(name, names));
}

std::string_view name_of(Carriage carriage) {
  return carriage == Carriage::sparse ? "sparse" : carriage == Carriage::packed ? "packed" : "linear";
}

namespace {

/// Returns the text up to the next bar, and removes both from `text`.
std::string_view next_item(std::string_view& text) {
  const std::size_t bar = text.find('|');
  const std::string_view item = text.substr(0, bar);
  text = bar == std::string_view::npos ? std::string_view() : text.substr(bar + 1);
  return item;
}

}  // namespace

Compressor make_compressor(std::string_view name, std::string_view parameters) {
  if (name == "none") {
    require(parameters.empty(), "compressor_parameters is '{}', and there is no compressor: name one", parameters);
    return {};
  }
  const CompressorRow& row = find_compressor(name);
  Compressor made{&row, Parameters({"compressor_parameters", name}, row.parameters, parameters)};
  if (row.check != nullptr) row.check(made.parameters);
  return made;
}

std::vector<Compressor> make_compressors(std::string_view names, std::string_view parameters) {
  std::vector<Compressor> list;
  const std::string_view given = parameters;
  require(names.empty() || names.back() != '|', "compressor is {}: nothing follows the last |", names);
  while (!names.empty()) {
    const std::string_view mine = next_item(parameters);
    list.push_back(make_compressor(next_item(names), mine));
  }
  require(parameters.empty(), "compressor_parameters is '{}': it is of more compressors than the {} that compressor names", given,
          list.size());
  return list;
}

Expense expense_of(const Compressor& compressor, std::int64_t count, std::int64_t k) {
  if (!compressor) return {};
  const CompressorRow& row = *compressor.row;
  Expense expense{.encode_adds = row.encode_adds, .decode_adds = row.decode_adds};
  if (row.codec != nullptr && count > 0)
    expense.packed_bytes =
        row.usual_size * static_cast<double>(row.codec(compressor.parameters)->most_bytes(count)) / static_cast<double>(count);
  if (row.summed != nullptr) expense.summed = row.summed(compressor.parameters, count, k);
  return expense;
}

}  // namespace weir::compress

namespace weir {

std::vector<CompressorInfo> compressors() {
  static const std::vector<std::string> parameters = [] {  // callers get views of these
    std::vector<std::string> texts;
    for (const compress::CompressorRow* row : compress::rows)
      texts.push_back(Parameters({"compressor_parameters", row->name}, row->parameters, "").text());
    return texts;
  }();
  std::vector<CompressorInfo> list;
  for (const compress::CompressorRow* row : compress::rows)
    list.push_back({row->name, row->description, row->source, compress::name_of(row->carriage), parameters[list.size()],
                    row->random, row->feedback});
  return list;
}

}  // namespace weir
