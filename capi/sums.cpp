// The C ABI of sparse sums: thin shims over weir/sums.hpp.
#include "sums.hpp"

#include "convert.hpp"

using namespace weir::capi;

namespace {

/// Returns what the caller gives. The library checks it, so that what is wrong on one rank is an error on all.
weir::SumInput input_of(const weir_sparse_sum& sum, const void* indices, int index_bytes, const void* values,
                        std::int64_t entries) {
  return {values, entries, sum.sum.config().type, indices, entries, index_bytes};
}

weir::SumOutput output_of(const weir_sparse_sum& sum, void* output, std::int64_t count, int adds) {
  return {output, count, sum.sum.config().type, adds != 0};
}

}  // namespace

extern "C" {

weir_status weir_sparse_sum_create(weir_comm* comm, const weir_sparse_sum_config* config, weir_sparse_sum** sum) {
  return make_handle(comm, sum, [&] {
    weir::SparseSumConfig described;
    try {
      need(sum != nullptr, "the address for the sum is NULL");
      described = from_c(read_struct<weir_sparse_sum_config>(config, WEIR_SPARSE_SUM_CONFIG_INIT, "WEIR_SPARSE_SUM_CONFIG_INIT"));
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "sum", error);
    }
    return std::unique_ptr<weir_sparse_sum>(new weir_sparse_sum{comm, weir::SparseSum(comm->communicator, described)});
  });
}

weir_status weir_sparse_sum_destroy(weir_sparse_sum* sum) { return destroy_handle(sum); }

weir_status weir_sparse_sum_run(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                std::int64_t entries, void* output, std::int64_t output_count, int adds) {
  return guard_handle(sum, [&] {
    sum->sum.run(input_of(*sum, indices, index_bytes, values, entries), output_of(*sum, output, output_count, adds));
  });
}

weir_status weir_sparse_sum_run_reduce_scatter(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                               std::int64_t entries, void* output, std::int64_t output_count, int adds) {
  return guard_handle(sum, [&] {
    sum->sum.run_reduce_scatter(input_of(*sum, indices, index_bytes, values, entries), output_of(*sum, output, output_count, adds));
  });
}

weir_status weir_sparse_sum_start(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                  std::int64_t entries, void* output, std::int64_t output_count, int adds) {
  return guard_handle(sum, [&] {
    sum->operation =
        sum->sum.start(input_of(*sum, indices, index_bytes, values, entries), output_of(*sum, output, output_count, adds));
  });
}

weir_status weir_sparse_sum_start_reduce_scatter(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                                 std::int64_t entries, void* output, std::int64_t output_count, int adds) {
  return guard_handle(sum, [&] {
    sum->operation = sum->sum.start_reduce_scatter(input_of(*sum, indices, index_bytes, values, entries),
                                                   output_of(*sum, output, output_count, adds));
  });
}

weir_status weir_sparse_sum_refuse(weir_sparse_sum* sum, const char* why) {
  return guard_handle(sum, [&] { sum->operation = sum->sum.refuse(reason(why)); });
}

weir_status weir_sparse_sum_test(weir_sparse_sum* sum, int* done) {
  return guard_handle(sum, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (sum->operation) *done = sum->operation->test() ? 1 : 0;
  });
}

weir_status weir_sparse_sum_wait(weir_sparse_sum* sum) {
  return guard_handle(sum, [&] {
    if (sum->operation) sum->operation->wait();
  });
}

weir_status weir_sparse_sum_wait_for(weir_sparse_sum* sum, double seconds, int* done) {
  return guard_handle(sum, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (sum->operation) *done = sum->operation->wait_for(seconds) ? 1 : 0;
  });
}

weir_status weir_sparse_sum_result(const weir_sparse_sum* sum, const std::int64_t** indices, const void** values,
                                   std::int64_t* count) {
  return guard_handle(sum, [&] {
    need(indices != nullptr && values != nullptr && count != nullptr, "an address for the result is NULL");
    const auto give = [&]<class T>(const weir::SumView<T>& view) {
      *indices = view.indices.data();
      *values = view.values.data();
      *count = std::ssize(view.values);
    };
    switch (sum->sum.config().type) {
      case weir::SumType::float32:
        return give(sum->sum.result<float>());
      case weir::SumType::float64:
        return give(sum->sum.result<double>());
      case weir::SumType::int32:
        return give(sum->sum.result<std::int32_t>());
      case weir::SumType::int64:
        return give(sum->sum.result<std::int64_t>());
    }
  });
}

weir_status weir_sparse_sum_range_begin(const weir_sparse_sum* sum, int range, std::int64_t* begin) {
  return guard_handle(sum, [&] {
    need(begin != nullptr, "the address for the index is NULL");
    *begin = sum->sum.range_begin(range);
  });
}

weir_status weir_sparse_sum_get_statistics(const weir_sparse_sum* sum, weir_sparse_sum_statistics* statistics) {
  return guard_handle(sum, [&] { fill_struct(statistics, to_c(sum->sum.statistics())); });
}

weir_status weir_sparse_sum_get_config(const weir_sparse_sum* sum, weir_sparse_sum_config* config) {
  return guard_handle(sum, [&] { fill_struct(config, to_c(sum->sum.config())); });
}

weir_status weir_sparse_sum_memory_bytes(const weir_sparse_sum* sum, std::int64_t* bytes) {
  return guard_handle(sum, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = sum->sum.memory_bytes();
  });
}

}  // extern "C"
