// plan_states.hpp: checks that a plan restored from a saved state delivers and keeps the same as an uninterrupted plan.
//
// A `Place` determines memory and type of gradients. Place::run(plan, gradient) returns the update, Place::residual(plan) returns
// the residual, both of Place::Value, and Place::rounded(x) returns what a gradient's element becomes there. A rank makes a Place
// first.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "plan/plan.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/counters.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/machine_file.hpp"
#include "support/rank_check.hpp"
#include "support/saved_states.hpp"
#include "support/thresholds.hpp"

namespace weir::test {

template <class T>
struct HostPlace {
  using Value = T;
  explicit HostPlace(int /*rank*/) {}
  static std::vector<T> run(AllreducePlan& plan, std::vector<T> gradient) {
    plan.run(gradient);
    return gradient;
  }
  static T rounded(T x) { return x; }
  static std::vector<T> residual(const AllreducePlan& plan) {
    const std::span<const T> residual = plan.residual<T>();
    return {residual.begin(), residual.end()};
  }
};

/// Returns a configuration that uses every part of a state: reused thresholds and boundaries, and falling densities.
template <class T>
AllreduceConfig config_of(const AllreduceRow& row) {
  return {.count = 701,
          .type = data_type_of<T>,
          .k = 30,
          .algorithm = std::string(row.name),
          .algorithm_parameters = parameters_for(row.name, "boundary_period=2"),
          .non_finite = NonFinite::skip,
          .dense_iterations = row.sparse() ? 1 : 0,
          .warmup_iterations = 3};
}

struct StateMachine {
  int ranks;
  const char* description;
};
inline constexpr std::array state_machines = {StateMachine{1, ""}, StateMachine{3, "node:3 rank:1"}, StateMachine{5, "nodes:2,3"}};

/// The results of one run on one rank.
template <class T>
struct Run {
  std::vector<T> update, residual;
  std::string algorithm;
  std::array<std::int64_t, 6> numbers{};  // of the statistics

  [[nodiscard]] bool operator==(const Run&) const = default;
};

/// Returns whether the run is skipped.
inline bool poisoned(int t) { return t % 7 == 1 || t % 7 == 4; }

template <class Place>
Run<typename Place::Value> run_once(AllreducePlan& plan, const Communicator& comm, int t) {
  using T = typename Place::Value;
  const std::int64_t n = plan.config().count;
  std::vector<T> gradient = make_input<T>(Input::heavy_tailed, n, comm.rank(), comm.size(), t);
  if (n > 0 && poisoned(t) && comm.rank() == comm.size() - 1) gradient[0] = std::numeric_limits<T>::infinity();
  const Counters before = counters_of(plan);
  const std::vector<T> update = Place::run(plan, gradient);
  const Counters after = counters_of(plan);
  std::int64_t flags = plan.statistics().skipped ? 1 : 0;
  for (const auto& [name, runs] : after) flags = 2 * flags + (counted(before, after, name) ? 1 : 0);
  const Statistics& s = plan.statistics();
  return {update,
          Place::residual(plan),
          plan.config().algorithm,
          {s.iteration, s.k, s.selected_local, s.selected_global, flags, s.payload_bytes_sent}};
}

/// What one rank passes to another job.
template <class T>
struct Kept {
  SavedState middle, end;
  std::vector<Run<T>> runs;  // after the middle
};

inline std::string text_of(const StateMachine& machine, const AllreduceConfig& config) {
  return config.algorithm + " threshold " + config.threshold + " values " + std::to_string(static_cast<int>(config.wire_values)) +
         " n " + std::to_string(config.count) + " on '" + machine.description + "'";
}

/// Returns what is wrong, or "".
template <class Place>
std::string plan_going_on(const StateMachine& machine, const AllreduceConfig& config, int saved_after,
                          RankOptions options = {.seed = 11}) {
  using T = typename Place::Value;
  constexpr int runs = 7;
  options.machine = machine.description;
  std::vector<Kept<T>> kept(static_cast<std::size_t>(machine.ranks));
  run_ranks(
      machine.ranks,
      [&](Communicator& comm) {
        const Place place(comm.rank());
        Kept<T>& mine = kept[static_cast<std::size_t>(comm.rank())];
        AllreducePlan plan(comm, config);
        for (int t = 0; t < runs; ++t) {
          if (t == saved_after) mine.middle = save_state(*plan.state());
          Run<T> run = run_once<Place>(plan, comm, t);
          if (t >= saved_after) mine.runs.push_back(std::move(run));
        }
        mine.end = save_state(*plan.state());
      },
      options);
  RankCheck check;
  run_ranks(
      machine.ranks,
      [&](Communicator& comm) {
        const Place place(comm.rank());
        const Kept<T>& mine = kept[static_cast<std::size_t>(comm.rank())];
        const std::string where = ", rank " + std::to_string(comm.rank());
        AllreducePlan plan(comm, config);
        if (saved_after % 2 == 1) run_once<Place>(plan, comm, 77);  // the restore must overwrite it
        restore_state(*plan.state(), mine.middle, "plan 'allreduce'");
        check.that(plan.statistics().iteration == saved_after, "the count of runs" + where);
        check.that(first_difference(save_state(*plan.state()), mine.middle) == "", "saved again" + where);
        for (int t = saved_after; t < runs; ++t)
          check.that(run_once<Place>(plan, comm, t) == mine.runs[static_cast<std::size_t>(t - saved_after)],
                     "run " + std::to_string(t) + where);
        check.that(first_difference(save_state(*plan.state()), mine.end) == "", "the state at the end" + where);
        plan.reset();
        AllreducePlan fresh(comm, config);
        check.that(first_difference(save_state(*plan.state()), save_state(*fresh.state())) == "", "a plan that was reset" + where);
      },
      options);
  return check.failure().empty()
             ? ""
             : text_of(machine, config) + " saved after " + std::to_string(saved_after) + ": " + check.failure();
}

/// One run of all ranks while candidates take turns.
struct Turn {
  std::vector<Run<float>> ranks;
  std::vector<std::int64_t> residual_begin;
};

struct Trained {
  std::vector<std::vector<SavedState>> states;  // [rank][number of runs]
  std::vector<Turn> turns;
};

struct TrialJob {
  AllreduceConfig config;
  int ranks;
  std::string machine;
};

/// Runs `first`, first + 1, ... of a plan, restored to `from` if given.
template <class Place>
Trained train(const TrialJob& job, const MachineFile& file, int first, int end, const Trained* from, RankCheck& check) {
  Trained trained;
  const auto ranks = static_cast<std::size_t>(job.ranks);
  trained.states.resize(ranks);
  trained.turns.resize(static_cast<std::size_t>(end - first), {std::vector<Run<float>>(ranks), std::vector<std::int64_t>(ranks)});
  run_ranks(job.ranks,
            [&](Communicator& comm) {
              const Place place(comm.rank());
              comm.state()->settings.machine = file.name();
              const auto rank = static_cast<std::size_t>(comm.rank());
              AllreducePlan plan(comm, job.config);
              if (from != nullptr) {
                // The restore must overwrite these, for every candidate.
                for (int t = 0; t < job.config.trial_iterations + 2; ++t) run_once<Place>(plan, comm, 70 + t);
                const SavedState& saved = from->states[rank][static_cast<std::size_t>(first)];
                restore_state(*plan.state(), saved, "plan 'allreduce'");
                check.that(first_difference(save_state(*plan.state()), saved) == "", "saved again");
              }
              for (int t = first; t < end; ++t) {
                trained.states[rank].push_back(save_state(*plan.state()));
                Turn& turn = trained.turns[static_cast<std::size_t>(t - first)];
                turn.ranks[rank] = run_once<Place>(plan, comm, t);
                turn.residual_begin[rank] = plan.residual_begin();
              }
            },
            {.seed = 3, .machine = job.machine});
  return trained;
}

/// Returns the residuals of all ranks after a run.
inline std::vector<double> kept_after(const TrialJob& job, const Turn& turn) {
  std::vector<double> sum(static_cast<std::size_t>(job.config.count));
  for (std::size_t rank = 0; rank < turn.ranks.size(); ++rank) {
    const auto begin = static_cast<std::size_t>(turn.residual_begin[rank]);
    for (std::size_t i = 0; i < turn.ranks[rank].residual.size(); ++i)
      sum[begin + i] += static_cast<double>(turn.ranks[rank].residual[i]);
  }
  return sum;
}

/// Returns the largest share of what went in after `before` and is neither delivered nor kept.
template <class Place>
double lost(const TrialJob& job, const Turn& before, const std::vector<Turn>& turns, int first) {
  std::vector<double> missing = kept_after(job, before), magnitude(missing.size(), 1e-20);
  for (std::size_t i = 0; i < magnitude.size(); ++i) magnitude[i] += std::abs(missing[i]);
  for (std::size_t t = 0; t < turns.size(); ++t) {
    for (int rank = 0; rank < job.ranks && !poisoned(first + static_cast<int>(t)); ++rank) {
      const auto gradient = make_input<float>(Input::heavy_tailed, job.config.count, rank, job.ranks, first + static_cast<int>(t));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        missing[i] += static_cast<double>(Place::rounded(gradient[i]));
        magnitude[i] += std::abs(static_cast<double>(gradient[i]));
      }
    }
    for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= static_cast<double>(turns[t].ranks[0].update[i]);
  }
  const std::vector<double> kept = kept_after(job, turns.back());
  double worst = 0;
  for (std::size_t i = 0; i < missing.size(); ++i) worst = std::max(worst, std::abs(missing[i] - kept[i]) / magnitude[i]);
  return worst;
}

inline bool has_field(const Trained& trained, std::string_view name) {
  for (const SavedState& saved : trained.states[0]) {
    if (saved.find(name) != nullptr) return true;
  }
  return false;
}

inline bool decided(const SavedState& saved) {
  const StateField* const field = saved.find("trials/decided");
  if (field == nullptr) throw std::runtime_error("there is one candidate only");
  return field->bytes[0] != std::byte{0};
}

/// Saves and restores all of the job's trials after every `step` runs from the first on. Returns what is wrong, or "".
template <class Place>
std::string trials_going_on(const TrialJob& job, const MachineFile& file, int step) {
  const int end = static_cast<int>(6 * job.config.trial_iterations + 9);
  RankCheck check;
  const Trained whole = train<Place>(job, file, 0, end, nullptr, check);
  const auto decided_after = [&](int runs) { return decided(whole.states[0][static_cast<std::size_t>(runs)]); };
  check.that(decided_after(end - 1), "no decision");
  for (int first = 1; first < end; first += step) {
    const Trained rest = train<Place>(job, file, first, end, &whole, check);
    const std::string where = "saved after " + std::to_string(first) + " runs: ";
    for (int t = first; t < end; ++t) {
      // The clocks of two jobs may choose different candidates.
      const bool before_the_choice = t + 1 == end || !decided_after(t + 1);
      if (!before_the_choice && !decided_after(first)) break;
      check.that(whole.turns[static_cast<std::size_t>(t)].ranks == rest.turns[static_cast<std::size_t>(t - first)].ranks,
                 where + "run " + std::to_string(t));
    }
    for (const Turn& turn : rest.turns) {
      for (const Run<float>& run : turn.ranks)
        check.that(run.update == turn.ranks[0].update && run.algorithm == turn.ranks[0].algorithm, where + "ranks differ");
    }
    check.at_most(lost<Place>(job, whole.turns[static_cast<std::size_t>(first - 1)], rest.turns, first), 1e-5, where + "lost");
  }
  // With 4 trials, a turn falls on a skipped run. With 2, only the choice may, which depends on the clock.
  check.that(job.config.trial_iterations != 4 || job.config.memory != MemorySpace::host || has_field(whole, "leftover/residual"),
             "no residual was left over");
  return check.failure();
}

}  // namespace weir::test
