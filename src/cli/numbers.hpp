// numbers.hpp: checks of numbers on the command line, whose errors say what would be right.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace weir::cli {

/// A number for which `good` holds, or else the error "X must be `what`".
inline CLI::Validator number_that(bool (*good)(double), const char* what, const char* type) {
  return {[good, what](std::string& text) {
            double number = 0;
            const bool is_good = CLI::detail::lexical_cast(text, number) && good(number);
            return is_good ? std::string() : fmt::format("{} must be {}", text, what);
          },
          type};
}

inline const CLI::Validator positive = number_that([](double x) { return x > 0; }, "a number above 0", "POSITIVE");
inline const CLI::Validator non_negative = number_that([](double x) { return x >= 0; }, "a number of at least 0", "NONNEGATIVE");

}  // namespace weir::cli
