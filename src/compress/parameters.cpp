#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "compress/compressor.hpp"

namespace weir::compress {
namespace {

std::string show(const ParameterInfo& info, double value) {
  return info.words.empty() ? fmt::format("{}", value) : std::string(info.words[static_cast<std::size_t>(value)]);
}

std::string right_values(const ParameterInfo& info) {
  if (info.words.empty()) return fmt::format("{} from {} to {}", info.whole ? "a whole number" : "a number", info.least, info.most);
  std::string text = "one of ";
  for (std::size_t i = 0; i < info.words.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", info.words[i]);
  return text;
}

double value_of(std::string_view compressor, const ParameterInfo& info, std::string_view text) {
  for (std::size_t i = 0; i < info.words.size(); ++i) {
    if (info.words[i] == text) return static_cast<double>(i);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && info.words.empty();
  require(is_number && value >= info.least && value <= info.most && (!info.whole || std::floor(value) == value),
          "compressor_parameters: {} of {} is '{}': it must be {}", info.name, compressor, text, right_values(info));
  return value + 0.0;  // -0 is 0
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

Parameters::Parameters(std::string_view compressor, std::span<const ParameterInfo> known, std::string_view text) : known_(known) {
  for (const ParameterInfo& info : known) values_.push_back(info.value);
  std::vector<bool> named(known.size());
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    require(comma == std::string_view::npos || comma + 1 < text.size(),
            "compressor_parameters of {}: nothing follows the last comma", compressor);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string_view name = trimmed(item.substr(0, equals));
    std::size_t place = 0;
    while (place < known.size() && known[place].name != name) ++place;
    require(place == known.size() || equals != std::string_view::npos, "compressor_parameters: {} of {} has no value: write {}={}",
            name, compressor, name, place == known.size() ? "" : show(known[place], known[place].value));
    if (place == known.size()) {
      std::string names;
      for (const ParameterInfo& info : known)
        names += fmt::format("{}{}={}", names.empty() ? "" : ",", info.name, show(info, info.value));
      fail(WEIR_ERR_ARGUMENT, "compressor_parameters: '{}' is none of {}: {}", item, compressor,
           names.empty() ? "it has no parameters" : "it takes " + names + ", or some of these");
    }
    require(!named[place], "compressor_parameters: {} is named twice", name);
    named[place] = true;
    values_[place] = value_of(compressor, known[place], trimmed(item.substr(equals + 1)));
  }
}

double Parameters::operator[](std::string_view name) const {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].name == name) return values_[i];
  }
  fail(WEIR_ERR_INTERNAL, "no compressor parameter '{}'", name);
}

std::string Parameters::text() const {
  std::string text;
  for (std::size_t i = 0; i < known_.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", known_[i].name, show(known_[i], values_[i]));
  return text;
}

}  // namespace weir::compress
