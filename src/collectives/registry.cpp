#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "collectives/allreduce.hpp"

namespace weir {
namespace {

// Copied, since rows are constants of their files.
const std::vector<AllreduceRow>& rows() {
  static const std::vector<AllreduceRow> all = {
#define WEIR_ALGORITHM(name) name##_row,
#include "collectives/algorithms.def"
#undef WEIR_ALGORITHM
  };
  return all;
}

}  // namespace

std::span<const AllreduceRow> allreduce_registry() { return rows(); }

const AllreduceRow& find_allreduce(std::string_view name) {
  for (const AllreduceRow& row : rows()) {
    if (row.name == name) return row;
  }
  std::string known;
  std::vector<std::string_view> names = {"auto", "auto_sparse"};
  for (const AllreduceRow& row : rows()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    names.push_back(row.name);
  }
  fail(WEIR_ERR_ARGUMENT,
       "there is no allreduce algorithm '{}': known are {}, auto, auto_sparse" WEIR_NAMES_LEFT_OUT "; did you mean '{}'?", name,
       known, nearest(name, names));
}

Parameters parameters_of(const AllreduceRow& row, std::string_view text) {
  return Parameters({"algorithm_parameters", row.name}, row.parameters, text);
}

bool is_automatic(std::string_view algorithm) { return algorithm == "auto" || algorithm == "auto_sparse"; }

namespace {

/// Parses the parameters of all rows. Parameters of the same name are the same in all rows.
Parameters parameters_of_any(std::string_view text) {
  static const std::vector<ParameterInfo> known = [] {
    std::vector<ParameterInfo> all;
    for (const AllreduceRow& row : rows()) {
      for (const ParameterInfo& info : row.parameters) {
        if (std::none_of(all.begin(), all.end(), [&](const ParameterInfo& other) { return other.name == info.name; }))
          all.push_back(info);
      }
    }
    return all;
  }();
  return Parameters({"algorithm_parameters", "auto"}, known, text);
}

}  // namespace

Parameters parameters_if_chosen(const AllreduceRow& row, std::string_view text) {
  return parameters_of_any(text).only(row.parameters);
}

std::string algorithm_text(std::string_view algorithm, std::string_view parameters) {
  const Parameters given =
      is_automatic(algorithm) ? parameters_of_any(parameters) : parameters_of(find_allreduce(algorithm), parameters);
  const std::string changes = given.changes();
  return fmt::format("{}{}{}", algorithm, changes.empty() ? "" : " ", changes);
}

std::vector<AlgorithmInfo> algorithms() {
  static const std::vector<std::string> parameters = [] {  // callers get views of these
    std::vector<std::string> texts;
    for (const AllreduceRow& row : rows()) texts.push_back(parameters_of(row, "").text());
    return texts;
  }();
  static const std::vector<std::string> counters = [] {
    std::vector<std::string> texts;
    for (const AllreduceRow& row : rows()) {
      std::string& text = texts.emplace_back();
      row.for_each_counter([&](const CounterInfo& counter) { text += fmt::format("{}{}", text.empty() ? "" : ",", counter.name); });
    }
    return texts;
  }();
  std::vector<AlgorithmInfo> list;
  for (const AllreduceRow& row : rows())
    list.push_back({row.name, row.description, row.sparse(), row.host_memory, row.cuda_memory, row.packed(),
                    parameters[list.size()], counters[list.size()]});
  return list;
}

}  // namespace weir
