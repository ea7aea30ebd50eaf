#include <array>
#include <bit>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "base/splitmix.hpp"
#include "contribution/threshold.hpp"

namespace weir {
namespace {

constexpr ParameterInfo reuse_parameters[] = {{.name = "period",
                                               .value = 32,
                                               .least = 1,
                                               .most = 0x1p48,
                                               .doc = "tau' of Ok-Topk Algorithm 1: iterations that share a threshold"}};

constexpr std::array rows = {
#define WEIR_THRESHOLD(name) &threshold_##name,
#include "contribution/thresholds.def"
#undef WEIR_THRESHOLD
};

}  // namespace

const ThresholdRow threshold_exact{.name = "exact",
                                   .description =
                                       "exactly the k largest (fewer only when fewer are nonzero); ties go to the lowest "
                                       "index",
                                   .at_most_k = true};
const ThresholdRow threshold_reuse{.name = "reuse",
                                   .description =
                                       "re-evaluated every `period` iterations, and at once when a count leaves "
                                       "[0.8 k, 1.25 k]",
                                   .source = "Ok-Topk section 3.1.3",
                                   .parameters = reuse_parameters,
                                   .period = [](const Parameters& parameters) { return parameters.whole("period"); }};

std::span<const ThresholdRow* const> threshold_registry() { return rows; }

ThresholdMethod make_threshold(std::string_view name, std::string_view parameters) {
  std::string known;
  std::vector<std::string_view> names;
  for (const ThresholdRow* row : rows) {
    if (row->name == name) return {row, Parameters({"threshold_parameters", name}, row->parameters, parameters)};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row->name);
    names.push_back(row->name);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no threshold '{}': known are {}" WEIR_NAMES_LEFT_OUT "; did you mean '{}'?", name, known,
       nearest(name, names));
}

std::string ThresholdMethod::text() const {
  return fmt::format("{}{}{}", row->name, parameters.empty() ? "" : " ", parameters.text());
}

template <class T>
Key<T> key_at_least(double magnitude) {
  if (!(magnitude > 0)) return 1;
  const T nearest = static_cast<T>(magnitude);
  const Key<T> key = key_of(nearest);
  return static_cast<double>(nearest) < magnitude ? key + 1 : std::max<Key<T>>(key, 1);
}
template Key<float> key_at_least<float>(double);
template Key<double> key_at_least<double>(double);

std::uint64_t random_number(std::uint64_t index) { return splitmix64(index * 0x9e3779b97f4a7c15ull); }

}  // namespace weir
