// The C ABI of divided work, LARS and LAMB: thin shims over weir/optim.hpp.
#include "optim.hpp"

#include "convert.hpp"

using namespace weir::capi;

namespace {

/// The arguments of one call.
struct Call {
  const weir_operator& work;
  weir_operator_body body;
  void* context;
};

/// Throws the error that the body has returned.
[[noreturn]] void fail(const Call& call, int part, std::int64_t returned, const char* error) {
  const weir_status status = returned >= -WEIR_ERR_FILE ? static_cast<weir_status>(-returned) : WEIR_ERR_INTERNAL;
  const std::string where =
      "operator '" + call.work.work.config().name + "', rank " + std::to_string(call.work.comm->communicator.rank());
  if (error != nullptr) throw weir::Error(status, where + ": " + error);
  throw weir::Error(status, where + ", part " + std::to_string(part) + ": its body returned " + std::to_string(returned));
}

/// Returns a body that calls the caller's, and fits into a std::function without allocation. Returns an empty one if the caller's
/// is null: all ranks then refuse it.
weir::OperatorBody body_of(const Call& call) {
  if (call.body == nullptr) return {};
  return [&call](int part, std::span<std::byte> result) {
    const char* error = nullptr;
    const std::int64_t bytes = call.body(call.context, part, result.data(), std::ssize(result), &error);
    if (bytes < 0) fail(call, part, bytes, error);
    return bytes;
  };
}

}  // namespace

extern "C" {

weir_status weir_operator_create(weir_comm* comm, const weir_operator_config* config, const weir_operator_part* parts, int count,
                                 weir_operator** work) {
  return make_handle(comm, work, [&] {
    weir::OperatorConfig described;
    std::vector<weir::OperatorPart> all;
    try {
      need(work != nullptr, "the address for the operator is NULL");
      described = from_c(read_struct<weir_operator_config>(config, WEIR_OPERATOR_CONFIG_INIT, "WEIR_OPERATOR_CONFIG_INIT"));
      read_structs<weir_operator_part>(parts, count, WEIR_OPERATOR_PART_INIT, "WEIR_OPERATOR_PART_INIT", "part",
                                       [&](const weir_operator_part& part) { all.push_back(from_c(part)); });
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "operator", error);
    }
    return std::unique_ptr<weir_operator>(new weir_operator{comm, weir::ParallelOperator(comm->communicator, described, all)});
  });
}

weir_status weir_operator_destroy(weir_operator* work) { return destroy_handle(work); }

weir_status weir_operator_run(weir_operator* work, weir_operator_body body, void* context, void* results, std::int64_t bytes) {
  return guard_handle(work, [&] {
    const Call call{*work, body, context};
    work->work.run(body_of(call), bytes_at(results, bytes));
  });
}

weir_status weir_operator_start(weir_operator* work, weir_operator_body body, void* context, void* results, std::int64_t bytes) {
  return guard_handle(work, [&] {
    const Call call{*work, body, context};
    // If this start is refused, the run in flight can still be waited for.
    work->operation = work->work.start(body_of(call), bytes_at(results, bytes));
  });
}

weir_status weir_operator_refuse(weir_operator* work, const char* why) {
  return guard_handle(work, [&] { work->operation = work->work.refuse(reason(why)); });
}

weir_status weir_operator_test(weir_operator* work, int* done) {
  return guard_handle(work, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (work->operation) *done = work->operation->test() ? 1 : 0;
  });
}

weir_status weir_operator_wait(weir_operator* work) {
  return guard_handle(work, [&] {
    if (work->operation) work->operation->wait();
  });
}

weir_status weir_operator_wait_for(weir_operator* work, double seconds, int* done) {
  return guard_handle(work, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (work->operation) *done = work->operation->wait_for(seconds) ? 1 : 0;
  });
}

weir_status weir_operator_bytes(const weir_operator* work, std::int64_t* bytes) {
  return guard_handle(work, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = work->work.bytes();
  });
}

weir_status weir_operator_offset(const weir_operator* work, int part, std::int64_t* offset) {
  return guard_handle(work, [&] {
    need(offset != nullptr, "the address for the offset is NULL");
    *offset = work->work.offset(part);
  });
}

weir_status weir_operator_result_bytes(const weir_operator* work, int part, std::int64_t* bytes) {
  return guard_handle(work, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = work->work.result_bytes(part);
  });
}

weir_status weir_operator_works_on(const weir_operator* work, int part, int* works) {
  return guard_handle(work, [&] {
    need(works != nullptr, "the address for the answer is NULL");
    *works = work->work.works_on(part) ? 1 : 0;
  });
}

weir_status weir_operator_get_statistics(const weir_operator* work, weir_operator_statistics* statistics) {
  return guard_handle(work, [&] { fill_struct(statistics, to_c(work->work.statistics())); });
}

weir_status weir_operator_get_config(const weir_operator* work, weir_operator_config* config) {
  return guard_handle(work, [&] { fill_struct(config, to_c(work->work.config())); });
}

const char* weir_operator_explanation(const weir_operator* work) {
  const weir_status status = guard_handle(work, [&] { work->explanation = work->work.explanation(); });
  return status == WEIR_OK ? work->explanation.c_str() : nullptr;
}

weir_status weir_operator_memory_bytes(const weir_operator* work, std::int64_t* bytes) {
  return guard_handle(work, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = work->work.memory_bytes();
  });
}

weir_status weir_optimizer_create(weir_comm* comm, const weir_optimizer_config* config, const weir_optimized_layer* layers,
                                  int count, weir_layer_optimizer** optimizer) {
  return make_handle(comm, optimizer, [&] {
    weir::OptimizerConfig described;
    std::vector<weir::OptimizedLayer> all;
    try {
      need(optimizer != nullptr, "the address for the optimizer is NULL");
      described = from_c(read_struct<weir_optimizer_config>(config, WEIR_OPTIMIZER_CONFIG_INIT, "WEIR_OPTIMIZER_CONFIG_INIT"));
      read_structs<weir_optimized_layer>(layers, count, WEIR_OPTIMIZED_LAYER_INIT, "WEIR_OPTIMIZED_LAYER_INIT", "layer",
                                         [&](const weir_optimized_layer& layer) { all.push_back(from_c(layer)); });
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "optimizer", error);
    }
    return std::unique_ptr<weir_layer_optimizer>(
        new weir_layer_optimizer{comm, weir::LayerOptimizer(comm->communicator, described, all)});
  });
}

weir_status weir_optimizer_destroy(weir_layer_optimizer* optimizer) { return destroy_handle(optimizer); }

weir_status weir_optimizer_step_on_stream(weir_layer_optimizer* optimizer, void* const* weights, const void* const* gradients,
                                          int count, double learning_rate, void* stream) {
  return guard_handle(optimizer, [&] {
    const auto layers = static_cast<std::size_t>(std::max(count, 0));
    const auto of_layers = [&](auto* arrays) { return std::span(arrays, arrays != nullptr ? layers : 0); };
    optimizer->optimizer.step_raw(of_layers(weights), of_layers(gradients), learning_rate, stream);
  });
}

weir_status weir_optimizer_step(weir_layer_optimizer* optimizer, void* const* weights, const void* const* gradients, int count,
                                double learning_rate) {
  return weir_optimizer_step_on_stream(optimizer, weights, gradients, count, learning_rate, nullptr);
}

weir_status weir_optimizer_refuse(weir_layer_optimizer* optimizer, const char* why) {
  return guard_handle(optimizer, [&] { optimizer->optimizer.refuse(reason(why)); });
}

weir_status weir_optimizer_rates(const weir_layer_optimizer* optimizer, double* rates, int count) {
  return guard_handle(optimizer, [&] {
    const std::span<const double> all = optimizer->optimizer.rates();
    if (count != std::ssize(all))
      throw weir::Error(WEIR_ERR_ARGUMENT, "there is room for " + std::to_string(count) + " rates: the optimizer has " +
                                               std::to_string(all.size()) + ", one for each layer");
    need(rates != nullptr || count == 0, "the address for the rates is NULL");
    std::copy(all.begin(), all.end(), rates);
  });
}

weir_status weir_optimizer_get_statistics(const weir_layer_optimizer* optimizer, weir_optimizer_statistics* statistics) {
  return guard_handle(optimizer, [&] { fill_struct(statistics, to_c(optimizer->optimizer.statistics())); });
}

weir_status weir_optimizer_get_config(const weir_layer_optimizer* optimizer, weir_optimizer_config* config) {
  return guard_handle(optimizer, [&] { fill_struct(config, to_c(optimizer->optimizer.config())); });
}

const char* weir_optimizer_explanation(const weir_layer_optimizer* optimizer) {
  const weir_status status = guard_handle(optimizer, [&] { optimizer->explanation = optimizer->optimizer.explanation(); });
  return status == WEIR_OK ? optimizer->explanation.c_str() : nullptr;
}

weir_status weir_optimizer_memory_bytes(const weir_layer_optimizer* optimizer, std::int64_t* bytes) {
  return guard_handle(optimizer, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = optimizer->optimizer.memory_bytes();
  });
}

weir_status weir_optimizer_state_bytes(weir_layer_optimizer* optimizer, std::int64_t* bytes) {
  return guard_handle(optimizer, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = optimizer->optimizer.state_bytes();
  });
}

weir_status weir_optimizer_save_state(weir_layer_optimizer* optimizer, void* state, std::int64_t bytes) {
  return guard_handle(optimizer, [&] { optimizer->optimizer.save_state(bytes_at(state, bytes)); });
}

weir_status weir_optimizer_restore_state(weir_layer_optimizer* optimizer, const void* state, std::int64_t bytes) {
  return guard_handle(optimizer, [&] { optimizer->optimizer.restore_state(bytes_at(state, bytes)); });
}

weir_status weir_optimizer_reset(weir_layer_optimizer* optimizer) {
  return guard_handle(optimizer, [&] { optimizer->optimizer.reset(); });
}

}  // extern "C"
