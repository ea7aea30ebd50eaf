// command.hpp: subcommands and their options. Only command.cpp includes CLI11, which takes seconds to compile.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weir::cli {

constexpr int wrong_command_line = 2;  ///< exit status, as for diff(1)

/// Ends the program with this status, on all ranks. Prints nothing.
class ExitWith : public std::exception {
 public:
  explicit ExitWith(int status) : status_(status) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return "a status other than 0"; }

 private:
  int status_;
};
/// Ends the program with this status, unless it is 0.
inline void end_with(int status) {
  if (status != 0) throw ExitWith(status);
}

/// An option, or a positional argument. Values are checked in the order in which rules are added. Errors say what would be valid.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  /// Refuses this option without the other one.
  Option needs(const Option& other) const;
  /// Refuses this option with the other one.
  Option excludes(const Option& other) const;
  Option positive() const;
  Option non_negative() const;
  Option between(int least, int most) const;
  Option between(std::int64_t least, std::int64_t most) const;
  Option between(double least, double most) const;
  Option one_of(std::initializer_list<int> values) const;
  Option one_of(const std::vector<std::string>& values) const;
  Option existing_file() const;
  Option existing_folder() const;
  Option existing_path() const;
  /// Adds a check. `wrong` returns what is wrong with a value, or "".
  Option check(const std::function<std::string(const std::string&)>& wrong) const;
  /// Accepts values such as 500G. K, M and so on are powers of 1000; Ki, Mi and so on are powers of 1024.
  Option size_with_unit() const;
  /// Accepts several values in one word, separated by `between`.
  Option delimiter(char between) const;
  /// Replaces INT, TEXT and so on in --help.
  Option type_name(const std::string& name) const;
  /// Hides the default in --help.
  Option without_default() const;

  /// Returns whether the option is on the command line. Valid in actions.
  [[nodiscard]] bool given() const;

 private:
  CLI::Option* option_;
};

/// A subcommand, or the command itself. Variables must live until the action has run.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command add(const std::string& name, const std::string& description) const;
  /// Adds a subcommand whose action is run(options). Returns it and the options, which live as long as the command.
  template <class Options>
  std::pair<Command, std::remove_cvref_t<Options>&> add(const std::string& name, const std::string& description,
                                                        void (*run)(Options)) const {
    const auto options = std::make_shared<std::remove_cvref_t<Options>>();
    const Command command = add(name, description);
    command.action([options, run] { run(*options); });
    return {command, *options};
  }
  /// Sets a text that is printed below the options.
  void footer(const std::string& text) const;
  /// Prints these lines below the footer. Call it after footer().
  void examples(std::initializer_list<const char*> lines) const;
  void require_subcommand() const;
  /// Sets what the command does.
  void action(const std::function<void()>& run) const;

  Option flag(const std::string& names, bool& value, const std::string& help) const;
  /// Adds an option. The variable's value is the default. --help shows it unless it is empty. Value: int, std::int64_t, double,
  /// std::string; std::vector of the last three; std::optional of int, std::uint64_t or double.
  template <class Value>
  Option option(const std::string& names, Value& value, const std::string& help) const;
  /// Adds an option whose value is one of `known`. set() gets its index. `at_first`: the default's index.
  Option named(const std::string& names, const std::vector<std::string_view>& known, std::size_t at_first,
               const std::function<void(std::size_t)>& set, const std::string& help) const;

 protected:
  CLI::App* app_;
};

/// A complete command line.
class CommandLine : public Command {
 public:
  explicit CommandLine(const std::string& description);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  /// Adds --version, which prints `text`.
  void version(const std::string& text) const;
  /// Parses the command line and runs its action. Returns 0. If the command line is wrong, prints the reason and returns 2. Throws
  /// what the action throws.
  int run(int argc, const char* const* argv) const;

 private:
  std::unique_ptr<CLI::App> whole_;
};

}  // namespace weir::cli
