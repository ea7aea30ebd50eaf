#include "cli/fusion_model.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/regular_file.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

/// Returns the folder beside the program, installed or in a build.
fs::path installed_folder() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "share" / "weir" / "models";
}

FusionModel::Tensor read_tensor(const JsonView& row) {
  FusionModel::Tensor tensor{row.at(0).string(), row.at(1).integer(), row.at(2).number()};
  if (tensor.count < 1 || !(tensor.multiply_adds >= 0))
    give_up("tensor '{}' has {} elements and {} multiply-adds: there must be at least 1 and 0", tensor.name, tensor.count,
            tensor.multiply_adds);
  return tensor;
}

FusionModel read_model(const JsonView& table) {
  FusionModel model{table.at("model").string(), table.at("sample").string(), static_cast<int>(table.at("batch").integer()), {}};
  if (model.batch < 1) give_up("the batch is {}: it must be at least 1", model.batch);
  for (const JsonView& row : table.at("tensors").elements()) model.tensors.push_back(read_tensor(row));
  if (model.tensors.empty()) throw std::runtime_error("it has no tensors");
  return model;
}

}  // namespace

std::int64_t FusionModel::elements() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t n, const Tensor& t) { return n + t.count; });
}

double FusionModel::multiply_adds() const {
  return std::accumulate(tensors.begin(), tensors.end(), 0.0, [](double n, const Tensor& t) { return n + t.multiply_adds; });
}

void FusionModel::shrink(std::int64_t times) {
  for (Tensor& tensor : tensors) tensor.count = std::max<std::int64_t>(1, tensor.count / times);
}

std::vector<std::string> installed_models() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(installed_folder(), ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

FusionModel load_model(const std::string& name_or_file) {
  const std::vector<std::string> names = installed_models();
  const bool installed = std::find(names.begin(), names.end(), name_or_file) != names.end();
  const fs::path file = installed ? installed_folder() / (name_or_file + ".json") : fs::path(name_or_file);
  std::ifstream in;
  if (why_no_regular_file(file).empty()) in.open(file);
  if (!in.is_open())
    fail(WEIR_ERR_ARGUMENT, "there is no model '{}' and no file of that name: known in {} are {}", name_or_file,
         installed_folder().string(), joined(names));
  try {
    return read_model(JsonValue::parse(std::string(std::istreambuf_iterator<char>(in), {})).view());
  } catch (const std::exception& error) {
    give_up("'{}' is no table of tensors as perfmodels/models/tables.py writes them: {}", file.string(), error.what());
  }
}

std::vector<FusionModel> load_models(const std::vector<std::string>& names) {
  std::vector<FusionModel> models;
  for (const std::string& name : names == std::vector<std::string>{"all"} ? installed_models() : names)
    models.push_back(load_model(name));
  return models;
}

}  // namespace weir::cli
