// fusion_model.hpp: the tensors of a network, and how much computing each takes: what `weir bench fusion` trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

struct FusionModel {
  struct Tensor {
    std::string name;
    std::int64_t count = 0;    ///< elements
    double multiply_adds = 0;  ///< of one sample's forward pass; the backward pass takes twice as many
  };
  std::string name, sample;  ///< "an image of 224 x 224"
  int batch = 1;             ///< samples that a GPU usually takes at a time
  std::vector<Tensor> tensors;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] double multiply_adds() const;
  /// Every tensor with 1 / `times` of its elements, at least 1, and as much computing as before.
  void shrink(std::int64_t times);
};

/// The tables that are installed with the command, by name, in alphabetical order.
[[nodiscard]] std::vector<std::string> installed_models();
/// One of these, or a file that perfmodels/models/tables.py describes. Throws std::runtime_error saying what is wrong with it.
[[nodiscard]] FusionModel load_model(const std::string& name_or_file);

/// `all`, or what load_model() takes.
[[nodiscard]] std::vector<FusionModel> load_models(const std::vector<std::string>& names);

}  // namespace weir::cli
