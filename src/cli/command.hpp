// command.hpp: subcommands and their options. CLI11, which takes seconds to compile, is seen by command.cpp only.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weir::cli {

constexpr int wrong_command_line = 2;  ///< the status, as diff(1)'s

/// Ends the program with this status, alike on all ranks. Nothing is printed.
class ExitWith : public std::exception {
 public:
  explicit ExitWith(int status) : status_(status) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return "a status other than 0"; }

 private:
  int status_;
};

/// An option, or what stands without a name. Values are checked in the order in which rules are added; errors say what would be
/// right.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  /// Refused without the other one.
  Option needs(const Option& other) const;
  Option positive() const;
  Option non_negative() const;
  Option between(int least, int most) const;
  Option between(std::int64_t least, std::int64_t most) const;
  Option between(double least, double most) const;
  Option one_of(std::initializer_list<const char*> values) const;
  Option one_of(std::initializer_list<int> values) const;
  Option one_of(const std::vector<std::string>& values) const;
  Option existing_file() const;
  Option existing_folder() const;
  Option existing_path() const;
  /// `wrong` returns what is wrong with a value, "" if nothing.
  Option check(const std::function<std::string(const std::string&)>& wrong) const;
  /// Takes 500G and the like; K, M and so on are powers of 1000, Ki, Mi of 1024.
  Option size_with_unit() const;
  /// Several values may also stand in one word.
  Option delimiter(char between) const;
  /// In --help, in place of INT, TEXT and the like.
  Option type_name(const std::string& name) const;
  /// The value that stands for none is not shown in --help.
  Option without_default() const;

  /// Whether it is on the command line. From an action on.
  [[nodiscard]] bool given() const;

 private:
  CLI::Option* option_;
};

/// A subcommand, or the command itself. Variables must live until the action has run.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command add(const std::string& name, const std::string& description) const;
  /// Printed below the options.
  void footer(const std::string& text) const;
  /// Prints these lines below the footer. To be called after it.
  void examples(std::initializer_list<const char*> lines) const;
  void require_subcommand() const;
  /// What it does.
  void action(const std::function<void()>& run) const;

  Option flag(const std::string& names, bool& value, const std::string& help) const;
  /// What the variable holds is the default, which --help shows unless it is empty.
  Option option(const std::string& names, int& value, const std::string& help) const;
  Option option(const std::string& names, std::int64_t& value, const std::string& help) const;
  Option option(const std::string& names, double& value, const std::string& help) const;
  Option option(const std::string& names, std::string& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<std::int64_t>& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<double>& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<std::string>& value, const std::string& help) const;
  Option option(const std::string& names, std::optional<int>& value, const std::string& help) const;
  Option option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help) const;
  Option option(const std::string& names, std::optional<double>& value, const std::string& help) const;
  /// The value is one of `known`, and handed over as its place there; `at_first`: the default's.
  Option named(const std::string& names, const std::vector<std::string_view>& known, std::size_t at_first,
               const std::function<void(std::size_t)>& set, const std::string& help) const;

 protected:
  CLI::App* app_;
};

/// A whole command line.
class CommandLine : public Command {
 public:
  explicit CommandLine(const std::string& description);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  /// Adds --version, which prints this.
  void version(const std::string& text) const;
  /// Reads the words of the command line and runs the action that they name. Returns 0; or else, with what is wrong printed, 2, the
  /// status of a command line that is wrong. Throws what the action throws.
  int run(int argc, const char* const* argv) const;

 private:
  std::unique_ptr<CLI::App> whole_;
};

}  // namespace weir::cli
