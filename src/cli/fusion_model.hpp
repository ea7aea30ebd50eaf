// fusion_model.hpp: the tensors of a network and the computing for each, as trained by `weir bench fusion`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

struct FusionModel {
  struct Tensor {
    std::string name;
    std::int64_t count = 0;    ///< elements
    double multiply_adds = 0;  ///< in one sample's forward pass; the backward pass takes twice as many
  };
  std::string name, sample;  ///< for example "an image of 224 x 224"
  int batch = 1;             ///< usual number of samples on a GPU
  std::vector<Tensor> tensors;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] double multiply_adds() const;
  /// Divides the elements of every tensor by `times`, to at least 1. The amount of computing stays.
  void shrink(std::int64_t times);
};

/// Returns the names of the tables installed with the command, in alphabetical order.
[[nodiscard]] std::vector<std::string> installed_models();
/// Loads an installed table, or a file as described in perfmodels/models/tables.py. Throws std::runtime_error saying what is wrong
/// with it.
[[nodiscard]] FusionModel load_model(const std::string& name_or_file);

/// Loads several; `all` means every installed table.
[[nodiscard]] std::vector<FusionModel> load_models(const std::vector<std::string>& names);

}  // namespace weir::cli
