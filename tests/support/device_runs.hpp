// device_runs.hpp: compares a plan in CUDA memory with the same plan in host memory: errors, results, residuals and statistics.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "collectives/allreduce.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/counters.hpp"
#include "support/device_arrays.hpp"
#include "support/kernel_data.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

/// Returns `config` with the schedule that plans in CUDA memory have.
inline AllreduceConfig as_in_cuda_memory(AllreduceConfig config) {
  if (!has_schedules(config.algorithm) || config.algorithm_parameters.find("schedule=") != std::string::npos) return config;
  config.algorithm_parameters += config.algorithm_parameters.empty() ? "schedule=direct" : ",schedule=direct";
  return config;
}

/// Runs one iteration of a plan in CUDA memory and of the same plan in host memory. `same_traffic`: also compares messages.
template <class T>
void run_both(AllreducePlan& on_host, AllreducePlan& on_gpu, const std::vector<T>& gradient, bool in_place, RankCheck& check,
              const std::string& where, bool same_traffic = true) {
  const cuda::Stream stream;
  std::vector<T> expected(gradient);
  Upload<T> there(gradient, stream.get());
  weir_status expected_status = WEIR_OK, status = WEIR_OK;
  std::string expected_text, text;
  try {
    in_place ? on_host.run(expected) : on_host.run_sparse(expected);
  } catch (const Error& error) {
    expected_status = error.status(), expected_text = error.what();
  }
  try {
    in_place ? on_gpu.run(there.data(), stream.get()) : on_gpu.run_sparse(there.data(), stream.get());
  } catch (const Error& error) {
    status = error.status(), text = error.what();
  }
  check.that(status == expected_status && text == expected_text, where + "other errors: " + text + " / " + expected_text);
  check.that(same_sums(there.fetch(), expected), where + "other dense results");
  const auto view = on_host.sparse_result<T>(), gpu_view = on_gpu.sparse_result<T>();
  check.that(fetch(gpu_view.indices.data(), gpu_view.indices.size(), stream.get()) ==
                 std::vector<std::uint32_t>(view.indices.begin(), view.indices.end()),
             where + "other indices");
  check.that(same_sums(fetch(gpu_view.values.data(), gpu_view.values.size(), stream.get()),
                       std::vector<T>(view.values.begin(), view.values.end())),
             where + "other values");
  check.that(same_sums(fetch(on_gpu.residual<T>().data(), on_gpu.residual<T>().size(), stream.get()),
                       std::vector<T>(on_host.residual<T>().begin(), on_host.residual<T>().end())),
             where + "other residuals");
  check.that(on_gpu.residual_begin() == on_host.residual_begin(), where + "residuals of other parts");
  const auto thresholds = [](const AllreducePlan& plan) {
    const Counters counters = counters_of(plan);
    const auto runs = [&](const char* name) { return counters.contains(name) ? counters.at(name) : 0; };
    return std::pair(runs("rethresholded"), runs("global_rethresholded"));
  };
  const Statistics &a = on_host.statistics(), &b = on_gpu.statistics();
  check.that(a.k == b.k && a.selected_local == b.selected_local && a.selected_global == b.selected_global &&
                 a.skipped == b.skipped && thresholds(on_host) == thresholds(on_gpu) &&
                 (!same_traffic || a.payload_bytes_sent == b.payload_bytes_sent),
             where + "other statistics");
}

}  // namespace weir::test
