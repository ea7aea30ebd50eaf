#include "cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <sstream>
#include <stdexcept>

#include "base/nearest.hpp"
#include "base/regular_file.hpp"
#include "base/standard_error.hpp"

namespace weir::cli {
namespace {

/// Accepts a number for which `good` is true. Otherwise the error is "X must be `what`".
CLI::Validator number_that(bool (*good)(double), const char* what, const char* type) {
  return {[good, what](std::string& text) {
            double number = 0;
            const bool is_good = CLI::detail::lexical_cast(text, number) && good(number);
            return is_good ? std::string() : text + " must be " + what;
          },
          type};
}

template <class T>
Option add_option(CLI::App* app, const std::string& names, T& value, const std::string& help) {
  return Option(app->add_option(names, value, help));
}

template <class T>
Option add_with_default(CLI::App* app, const std::string& names, T& value, const std::string& help) {
  return Option(app->add_option(names, value, help)->capture_default_str());
}

template <class T>
Option add_unless_empty(CLI::App* app, const std::string& names, T& value, const std::string& help) {
  return value.empty() ? add_option(app, names, value, help) : add_with_default(app, names, value, help);
}

constexpr std::size_t help_width = 100, help_column = 30;

/// Wraps `text`. All lines except the first begin with `indent` blanks. The first has room for help_width - indent characters.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string lines, word;
  std::size_t length = 0;
  while (words >> word) {
    if (length > 0 && length + 1 + word.size() > help_width - indent) {
      lines += "\n" + std::string(indent, ' ');
      length = 0;
    } else if (length > 0) {
      lines += ' ';
      ++length;
    }
    lines += word;
    length += word.size();
  }
  return lines;
}

/// Prints help for narrow terminals: an option's type is one word, and its limits, values and default come after its description.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(help_column); }

  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string names = make_option_name(option, positional), takes = option->get_type_name();
    while (names.find('{') != names.npos) names.erase(names.find('{'), names.find('}') - names.find('{') + 1);
    std::vector<std::string> remarks;
    std::string values;
    if (option->get_required()) remarks.emplace_back("required");
    for (const CLI::Option* needed : option->get_needs()) remarks.push_back("with " + needed->get_name());
    std::string standard = option->get_type_size() != 0 ? option->get_default_str() : "";
    if (const std::size_t colon = takes.find(':'); colon != takes.npos) {
      const std::string rule = takes.substr(colon + 1);
      takes.resize(colon);
      if (rule.front() == '{') {
        takes = "NAME";
        values = ": " + with_default(rule.substr(1, rule.size() - 2), standard);
        standard.clear();
      } else if (const std::size_t in = rule.find(" in ["), to = rule.find(" - "); in != rule.npos && to != rule.npos) {
        remarks.push_back(rule.substr(in + 5, to - in - 5) + " to " + rule.substr(to + 3, rule.size() - to - 4));
      } else if (rule == "POSITIVE") {
        remarks.emplace_back("above 0");
      } else if (rule == "NONNEGATIVE") {
        remarks.emplace_back("at least 0");
      } else if (rule == "FILE") {
        takes = rule;
      }
    }
    if (!standard.empty()) remarks.push_back("default " + standard);
    std::string left = "  " + names + (takes.empty() || positional ? "" : " " + takes);
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) left += " ...";
    left.append(left.size() + 1 < help_column ? help_column - left.size() : 0, ' ');
    if (left.size() > help_column || left.back() != ' ') left += "\n" + std::string(help_column, ' ');
    std::string text = option->get_description();
    if (takes == "NAME" && values.empty()) {  // named() has put them into the description
      values = text.substr(text.rfind(": "));
      text.resize(text.size() - values.size());
    }
    text += (remarks.empty() ? "" : fmt::format(" ({})", fmt::join(remarks, "; "))) + values;
    return left + wrapped(text, help_column) + "\n";
  }
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string name = "  " + command->get_name();
    return name + std::string(help_column - name.size(), ' ') + wrapped(command->get_description(), help_column) + "\n";
  }
  std::string make_description(const CLI::App* command) const override { return wrapped(command->get_description(), 0) + "\n"; }

 private:
  static std::string with_default(const std::string& values, const std::string& standard) {
    std::string list;
    std::istringstream words(values);
    for (std::string word; std::getline(words, word, ',');) {
      const bool first = word == standard || "[" + word + "]" == standard;
      list += (list.empty() ? "" : ", ") + word + (first ? " (the default)" : "");
    }
    return list;
  }
};

std::string nearest_of(std::string_view word, const std::vector<std::string>& names) {
  return std::string(nearest(word, std::vector<std::string_view>(names.begin(), names.end())));
}

/// Returns an error text for the first name that is neither a subcommand nor an option, or "" if all are known.
std::string unknown_name(const CLI::App& app, std::span<const char* const> words) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") break;
    if (word.starts_with("--")) {
      const std::string_view name = word.substr(2, word.find('=') == word.npos ? word.npos : word.find('=') - 2);
      std::vector<std::string> names;
      for (const CLI::Option* option : app.get_options())
        names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
      if (std::ranges::find(names, name) == names.end())
        return fmt::format("there is no option --{}: did you mean --{}? See --help", name, nearest_of(name, names));
    } else if (!commands.empty() && !word.starts_with('-')) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) {
        if (command->get_name() == word) return unknown_name(*command, words.subspan(i + 1));
        names.push_back(command->get_name());
      }
      return fmt::format("'{}' is no subcommand: did you mean '{}'? There are {}", word, nearest_of(word, names),
                         fmt::join(names, ", "));
    }
  }
  return "";
}

}  // namespace

Option Option::required() const { return Option(option_->required()); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }
Option Option::positive() const {
  return Option(option_->check(number_that([](double x) { return x > 0; }, "a number above 0", "POSITIVE")));
}
Option Option::non_negative() const {
  return Option(option_->check(number_that([](double x) { return x >= 0; }, "a number of at least 0", "NONNEGATIVE")));
}
Option Option::between(int least, int most) const { return between(std::int64_t{least}, std::int64_t{most}); }
Option Option::between(std::int64_t least, std::int64_t most) const { return Option(option_->check(CLI::Range(least, most))); }
Option Option::between(double least, double most) const {
  return Option(option_->check({[least, most](const std::string& text) {
                                  double number = 0;
                                  const bool good = CLI::detail::lexical_cast(text, number) && least <= number && number <= most;
                                  return good ? std::string()
                                              : fmt::format("{} must be a number from {:g} to {:g}", text, least, most);
                                },
                                fmt::format("FLOAT in [{:g} - {:g}]", least, most)}));
}
Option Option::one_of(std::initializer_list<const char*> values) const {
  return one_of(std::vector<std::string>(values.begin(), values.end()));
}
Option Option::one_of(std::initializer_list<int> values) const {
  return Option(option_->check(CLI::IsMember(std::vector(values))));
}
Option Option::one_of(const std::vector<std::string>& values) const { return Option(option_->check(CLI::IsMember(values))); }
Option Option::existing_file() const {
  return Option(option_->check({[](const std::string& path) {
                                  const std::string wrong = why_no_regular_file(path);
                                  return wrong.empty() ? wrong : fmt::format("'{}' cannot be read: {}", path, wrong);
                                },
                                "FILE"}));
}
Option Option::existing_folder() const {
  return Option(option_->check({[](const std::string& path) {
                                  std::error_code error;
                                  const bool folder = std::filesystem::is_directory(path, error);
                                  const std::string wrong = error ? error.message() : folder ? "" : "it is no folder";
                                  return wrong.empty() ? wrong : fmt::format("'{}' cannot be read: {}", path, wrong);
                                },
                                "DIR"}));
}
Option Option::existing_path() const { return Option(option_->check(CLI::ExistingPath)); }
Option Option::check(const std::function<std::string(const std::string&)>& wrong) const { return Option(option_->check(wrong)); }
Option Option::size_with_unit() const { return Option(option_->transform(CLI::AsSizeValue(true))); }
Option Option::delimiter(char between) const { return Option(option_->delimiter(between)); }
Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::without_default() const { return Option(option_->default_str("")); }
bool Option::given() const { return option_->count() > 0; }

Command Command::add(const std::string& name, const std::string& description) const {
  return Command(app_->add_subcommand(name, description));
}
void Command::footer(const std::string& text) const { app_->footer(wrapped(text, 0)); }
void Command::examples(std::initializer_list<const char*> lines) const {
  app_->footer(
      fmt::format("{}{}Examples:\n  {}", app_->get_footer(), app_->get_footer().empty() ? "" : "\n\n", fmt::join(lines, "\n  ")));
}
void Command::require_subcommand() const { app_->require_subcommand(1); }
void Command::action(const std::function<void()>& run) const { app_->callback(run); }

Option Command::flag(const std::string& names, bool& value, const std::string& help) const {
  return Option(app_->add_flag(names, value, help));
}
Option Command::option(const std::string& names, int& value, const std::string& help) const {
  return add_with_default(app_, names, value, help);
}
Option Command::option(const std::string& names, std::int64_t& value, const std::string& help) const {
  return add_with_default(app_, names, value, help);
}
Option Command::option(const std::string& names, double& value, const std::string& help) const {
  return add_with_default(app_, names, value, help);
}
Option Command::option(const std::string& names, std::string& value, const std::string& help) const {
  return add_unless_empty(app_, names, value, help);
}
Option Command::option(const std::string& names, std::vector<std::int64_t>& value, const std::string& help) const {
  return add_unless_empty(app_, names, value, help);
}
Option Command::option(const std::string& names, std::vector<double>& value, const std::string& help) const {
  return add_unless_empty(app_, names, value, help);
}
Option Command::option(const std::string& names, std::vector<std::string>& value, const std::string& help) const {
  return add_unless_empty(app_, names, value, help);
}
Option Command::option(const std::string& names, std::optional<int>& value, const std::string& help) const {
  return add_option(app_, names, value, help);
}
Option Command::option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help) const {
  return add_option(app_, names, value, help);
}
Option Command::option(const std::string& names, std::optional<double>& value, const std::string& help) const {
  return add_option(app_, names, value, help);
}

Option Command::named(const std::string& names, const std::vector<std::string_view>& known, std::size_t at_first,
                      const std::function<void(std::size_t)>& set, const std::string& help) const {
  std::vector<std::string> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  std::string list;
  for (const std::string& name : sorted)
    list += (list.empty() ? "" : ", ") + name + (name == known[at_first] ? " (the default)" : "");
  const auto number_of = [known](const std::string& name) {
    return static_cast<std::size_t>(std::find(known.begin(), known.end(), name) - known.begin());
  };
  const auto take = [set, number_of](const std::string& name) { set(number_of(name)); };
  return Option(app_->add_option_function<std::string>(names, take, help + ": " + list)
                    ->type_name("NAME")
                    ->check([number_of, list, count = known.size()](const std::string& name) {
                      return number_of(name) < count ? "" : "'" + name + "' is none of " + list;
                    }));
}

CommandLine::CommandLine(const std::string& description) : Command(nullptr), whole_(std::make_unique<CLI::App>(description)) {
  app_ = whole_.get();
  app_->formatter(std::make_shared<HelpFormatter>());  // subcommands inherit it
}
CommandLine::~CommandLine() = default;

void CommandLine::version(const std::string& text) const { app_->set_version_flag("--version", text); }

int CommandLine::run(int argc, const char* const* argv) const {
  const std::span<const char* const> words(argv, static_cast<std::size_t>(std::max(argc, 0)));
  if (!words.empty()) {
    const std::string unknown = unknown_name(*app_, words.subspan(1));
    if (!unknown.empty()) {
      print_error("weir: {}\n", unknown);
      return wrong_command_line;
    }
  }
  if (!words.empty()) app_->name(std::filesystem::path(words.front()).filename().string());  // without its folder
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : wrong_command_line;  // --help is not an error
  }
  return 0;
}

}  // namespace weir::cli
