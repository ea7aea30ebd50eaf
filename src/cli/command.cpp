#include "cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>

#include "base/nearest.hpp"
#include "base/regular_file.hpp"
#include "base/standard_error.hpp"

namespace weir::cli {
namespace {

/// Accepts a number for which `good` is true. Otherwise the error is "X must be `what`".
CLI::Validator number_that(const std::function<bool(double)>& good, const std::string& what, const std::string& type) {
  return {[good, what](std::string& text) {
            double number = 0;
            const bool is_good = CLI::detail::lexical_cast(text, number) && good(number);
            return is_good ? std::string() : text + " must be " + what;
          },
          type};
}

/// Accepts a path for which `why_not` returns "".
CLI::Validator path_that(std::string (*why_not)(const std::filesystem::path&), const char* type) {
  return {[why_not](const std::string& path) {
            const std::string wrong = why_not(path);
            return wrong.empty() ? wrong : fmt::format("'{}' cannot be read: {}", path, wrong);
          },
          type};
}

std::string why_no_folder(const std::filesystem::path& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  return error ? error.message() : folder ? "" : "it is no folder";
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

/// Returns a list of the values, and says which is the default.
std::string with_default(const std::vector<std::string>& values, const std::string& standard) {
  std::string list;
  for (const std::string& value : values) {
    const bool is_default = value == standard || "[" + value + "]" == standard;
    list += (list.empty() ? "" : ", ") + value + (is_default ? " (the default)" : "");
  }
  return list;
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
        std::istringstream words(rule.substr(1, rule.size() - 2));
        std::vector<std::string> listed;
        for (std::string word; std::getline(words, word, ',');) listed.push_back(word);
        values = ": " + with_default(listed, standard);
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
    text += (remarks.empty() ? "" : fmt::format(" ({})", fmt::join(remarks, "; "))) + values;
    return left + wrapped(text, help_column) + "\n";
  }
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string name = "  " + command->get_name();
    return name + std::string(help_column - name.size(), ' ') + wrapped(command->get_description(), help_column) + "\n";
  }
  std::string make_description(const CLI::App* command) const override { return wrapped(command->get_description(), 0) + "\n"; }
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
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::positive() const {
  return Option(option_->check(number_that([](double x) { return x > 0; }, "a number above 0", "POSITIVE")));
}
Option Option::non_negative() const {
  return Option(option_->check(number_that([](double x) { return x >= 0; }, "a number of at least 0", "NONNEGATIVE")));
}
Option Option::between(int least, int most) const { return between(std::int64_t{least}, std::int64_t{most}); }
Option Option::between(std::int64_t least, std::int64_t most) const { return Option(option_->check(CLI::Range(least, most))); }
Option Option::between(double least, double most) const {
  const auto check =
      number_that([=](double x) { return least <= x && x <= most; }, fmt::format("a number from {:g} to {:g}", least, most),
                  fmt::format("FLOAT in [{:g} - {:g}]", least, most));
  return Option(option_->check(check));
}
Option Option::one_of(std::initializer_list<int> values) const {
  return Option(option_->check(CLI::IsMember(std::vector(values))));
}
Option Option::one_of(const std::vector<std::string>& values) const { return Option(option_->check(CLI::IsMember(values))); }
Option Option::existing_file() const { return Option(option_->check(path_that(why_no_regular_file, "FILE"))); }
Option Option::existing_folder() const { return Option(option_->check(path_that(why_no_folder, "DIR"))); }
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
template <class Value>
Option Command::option(const std::string& names, Value& value, const std::string& help) const {
  CLI::Option* const option = app_->add_option(names, value, help);
  bool shows_default = std::is_arithmetic_v<Value>;
  if constexpr (requires { value.empty(); }) shows_default = !value.empty();
  return Option(shows_default ? option->capture_default_str() : option);
}
template Option Command::option(const std::string&, int&, const std::string&) const;
template Option Command::option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::option(const std::string&, double&, const std::string&) const;
template Option Command::option(const std::string&, std::string&, const std::string&) const;
template Option Command::option(const std::string&, std::vector<std::int64_t>&, const std::string&) const;
template Option Command::option(const std::string&, std::vector<double>&, const std::string&) const;
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::option(const std::string&, std::optional<int>&, const std::string&) const;
template Option Command::option(const std::string&, std::optional<std::uint64_t>&, const std::string&) const;
template Option Command::option(const std::string&, std::optional<double>&, const std::string&) const;

Option Command::named(const std::string& names, const std::vector<std::string_view>& known, std::size_t at_first,
                      const std::function<void(std::size_t)>& set, const std::string& help) const {
  std::vector<std::string> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  const std::string list = with_default(sorted, std::string(known[at_first]));
  const auto number_of = [known](const std::string& name) {
    return static_cast<std::size_t>(std::find(known.begin(), known.end(), name) - known.begin());
  };
  const auto take = [set, number_of](const std::string& name) { set(number_of(name)); };
  const CLI::Validator check(
      [number_of, list, count = known.size()](const std::string& name) {
        return number_of(name) < count ? "" : "'" + name + "' is none of " + list;
      },
      fmt::format("{{{}}}", fmt::join(sorted, ",")));
  return Option(app_->add_option_function<std::string>(names, take, help)->check(check)->default_str(std::string(known[at_first])));
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
