#include "support/fuzz_loop.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <stdexcept>

#include "base/splitmix.hpp"
#include "support/thinning.hpp"

// Defined by the sanitizers; null if they are not linked.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace weir::test {
namespace {

constexpr double usual_seconds = 20;
std::array<char, 512> repeat_line{};

void say_how_to_repeat() {
  const ssize_t written = write(STDERR_FILENO, repeat_line.data(), std::strlen(repeat_line.data()));
  static_cast<void>(written);  // there is no way to report a failure here
}

void on_crash(int signal) {
  say_how_to_repeat();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct CommandLine {
  double seconds = usual_seconds;
  std::uint64_t seed = 1;
  std::uint64_t number = 0;
  bool only_one = false;
};

template <class T>
T number(const char* option, const char* text) {
  T value{};
  const char* end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || stop != end || value < T{})
    throw std::invalid_argument(std::string(option) + " is '" + text + "': it must be a number from 0 up, for example 60");
  return value;
}

CommandLine parse(int argc, char** argv) {
  CommandLine line;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if ((option != "--seconds" && option != "--seed" && option != "--case") || i + 1 == argc)
      throw std::invalid_argument("'" + std::string(option) + "': the options are --seconds S, --seed N and --case N");
    if (option == "--seconds") line.seconds = number<double>(argv[i], argv[i + 1]);
    if (option == "--seed") line.seed = number<std::uint64_t>(argv[i], argv[i + 1]);
    if (option == "--case") line.number = number<std::uint64_t>(argv[i], argv[i + 1]);
    line.only_one |= option == "--case";
  }
  return line;
}

double seconds_of_cpu() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string failure_of(const FuzzCase& run_case, std::uint64_t seed, bool talk) {
  try {
    return run_case(seed, talk);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int fuzz_loop(int argc, char** argv, const FuzzCase& run_case) {
  CommandLine line;
  try {
    line = parse(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_crash);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_how_to_repeat);

  std::uint64_t cases = 0;
  const std::uint64_t first = line.only_one ? line.number : test_offset(), step = line.only_one ? 1 : test_every();
  if (step > 1) line.seconds /= 2 * static_cast<double>(step);
  for (std::uint64_t at = first; cases == 0 || !line.only_one; at += step, ++cases) {
    if (!line.only_one && line.seconds > 0 && seconds_of_cpu() > line.seconds) break;
    std::snprintf(repeat_line.data(), repeat_line.size(), "to repeat: %s --seed %llu --case %llu\n", argv[0],
                  static_cast<unsigned long long>(line.seed), static_cast<unsigned long long>(at));
    const std::string failure = failure_of(run_case, splitmix64(line.seed ^ splitmix64(at)), line.only_one);
    if (failure.empty()) continue;
    say_how_to_repeat();
    std::fprintf(stderr, "%s\n", failure.c_str());
    return 1;
  }
  std::printf("%llu cases of seed %llu passed\n", static_cast<unsigned long long>(cases),
              static_cast<unsigned long long>(line.seed));
  return 0;
}

}  // namespace weir::test
