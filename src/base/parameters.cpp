#include "base/parameters.hpp"

#include <charconv>
#include <cmath>

#include "base/error.hpp"

namespace weir {

std::string text_of(const ParameterInfo& parameter, double value) {
  return parameter.words.empty() ? fmt::format("{}", value) : std::string(parameter.words[static_cast<std::size_t>(value)]);
}

namespace {

std::string right_values(const ParameterInfo& info) {
  if (info.words.empty()) return fmt::format("{} from {} to {}", info.whole ? "a whole number" : "a number", info.least, info.most);
  std::string text = "one of ";
  for (std::size_t i = 0; i < info.words.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", info.words[i]);
  return text;
}

double value_of(const ParameterOwner& owner, const ParameterInfo& info, std::string_view text) {
  for (std::size_t i = 0; i < info.words.size(); ++i) {
    if (info.words[i] == text) return static_cast<double>(i);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && info.words.empty();
  require(is_number && value >= info.least && value <= info.most && (!info.whole || std::floor(value) == value),
          "{}: {} of {} is '{}': it must be {}", owner.field, info.name, owner.name, text, right_values(info));
  return value + 0.0;  // -0 is 0
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

Parameters::Parameters(const ParameterOwner& owner, std::span<const ParameterInfo> known, std::string_view text) : known_(known) {
  for (const ParameterInfo& info : known) values_.push_back(info.value);
  std::vector<bool> named(known.size());
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    require(comma == std::string_view::npos || comma + 1 < text.size(), "{} of {}: nothing follows the last comma", owner.field,
            owner.name);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string_view name = trimmed(item.substr(0, equals));
    std::size_t place = 0;
    while (place < known.size() && known[place].name != name) ++place;
    require(place == known.size() || equals != std::string_view::npos, "{}: {} of {} has no value: write {}={}", owner.field, name,
            owner.name, name, place == known.size() ? "" : text_of(known[place], known[place].value));
    if (place == known.size()) {
      std::string names;
      for (const ParameterInfo& info : known)
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", info.name, text_of(info, info.value));
      fail(WEIR_ERR_ARGUMENT, "{}: {} has no parameter '{}': it has {}", owner.field, owner.name, name,
           names.empty() ? "none" : names);
    }
    require(!named[place], "{}: {} is named twice", owner.field, name);
    named[place] = true;
    values_[place] = value_of(owner, known[place], trimmed(item.substr(equals + 1)));
  }
}

double Parameters::operator[](std::string_view name) const {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].name == name) return values_[i];
  }
  fail(WEIR_ERR_INTERNAL, "no parameter '{}'", name);
}

Parameters Parameters::only(std::span<const ParameterInfo> known) const {
  Parameters some;
  some.known_ = known;
  for (const ParameterInfo& info : known) some.values_.push_back((*this)[info.name]);
  return some;
}

std::string Parameters::text() const { return text_if(true); }
std::string Parameters::changes() const { return text_if(false); }

std::string Parameters::text_if(bool all) const {
  std::string text;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (all || values_[i] != known_[i].value)
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", known_[i].name, text_of(known_[i], values_[i]));
  }
  return text;
}

}  // namespace weir
