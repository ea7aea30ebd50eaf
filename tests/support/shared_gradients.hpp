// shared_gradients.hpp: two plans that get the same memory at once.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

/// `run` calls its argument on each of `ranks` ranks, with a communicator. While a run that will write its update to a gradient is
/// in flight, another plan must be refused any part of that gradient on all ranks, even if only the last rank asks for it. The run
/// continues, and both plans stay usable. Returns an empty text, or what was wrong first.
template <class Run>
std::string failure_of_shared_gradients(int ranks, const std::string& algorithm, const Run& run) {
  const std::int64_t n = 1000;
  RankCheck check;
  run([&](Communicator& comm) {
    const bool wrong = comm.rank() == ranks - 1;
    std::vector<float> first = make_input<float>(Input::heavy_tailed, 2 * n, comm.rank(), ranks, 0),
                       second = make_input<float>(Input::heavy_tailed, n, comm.rank(), ranks, 1);
    const std::vector<float> alone_first(first.begin(), first.begin() + n), alone_second = second;
    AllreduceConfig config{.count = n, .algorithm = algorithm, .error_feedback = Feedback::none, .name = "a"};
    if (algorithm == "oktopk") config.algorithm_parameters = "schedule=direct";  // without messages, it may end while it starts
    AllreducePlan a(comm, config);
    config.name = "b";
    AllreducePlan b(comm, config);
    const auto result_of = [&](AllreducePlan& plan, std::vector<float> g) {
      plan.run(g);
      return g;
    };
    const std::vector<float> right_first = result_of(a, alone_first), right_second = result_of(b, alone_second);

    Operation op = a.start(std::span(first).first(n));
    const bool in_flight = ranks > 1;  // on one rank, it has finished by now
    if (in_flight) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{n - 1}}) {  // the whole gradient, and its last element
        std::string text = "no error";
        try {
          b.start(wrong ? std::span(first).subspan(offset, n) : std::span(second)).wait();
        } catch (const Error& error) {
          text = error.what();
          check.that(error.status() == WEIR_ERR_ARGUMENT, text);
        }
        const std::string expected =
            "plan 'b': the gradient of rank " + std::to_string(ranks - 1) + " overlaps that of another run";
        check.that(text.find(expected) == 0, fmt::format("'{}' in place of '{}'", text, expected));
        // The wait has also progressed the first run, which must be in flight for the next test.
        op.wait();
        check.that(std::vector<float>(first.begin(), first.begin() + n) == right_first, "the first plan's update");
        std::copy(alone_first.begin(), alone_first.end(), first.begin());
        op = a.start(std::span(first).first(n));
      }
    }
    b.start(std::span(second)).wait();
    check.that(second == right_second, "the second plan's update");
    op.wait();
    check.that(std::vector<float>(first.begin(), first.begin() + n) == right_first, "the first plan's last update");
    // One after the other, or side by side in one array, is allowed.
    first = make_input<float>(Input::heavy_tailed, 2 * n, comm.rank(), ranks, 0);
    Operation left = a.start(std::span(first).first(n)), right = b.start(std::span(first).last(n));
    left.wait();
    right.wait();
    b.start(std::span(first).first(n)).wait();
  });
  return check.failure();
}

}  // namespace weir::test
