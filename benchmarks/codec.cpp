// weir-benchmarks codec: measures encoding and decoding of float32 messages in one thread against memcpy of the same entries as
// COO.
#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

#include "base/config_check.hpp"
#include "benchmarks/benchmarks.hpp"
#include "cli/report.hpp"
#include "codec/wire.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 16777216;
  std::vector<double> densities{0.1, 0.01, 0.001, 0.0001};
  int iterations = 51;
  std::string format = "compact", json;
};

struct Sparse {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

/// Makes entries with equally probable indices, and values as heavy-tailed as gradients.
Sparse make_sparse(std::int64_t count, double density) {
  std::mt19937_64 random(1);
  std::geometric_distribution<std::int64_t> gap(density);
  std::lognormal_distribution<float> magnitude(-7, 1.5);
  Sparse result;
  for (std::int64_t at = gap(random); at < count; at += 1 + gap(random)) {
    result.indices.push_back(static_cast<std::uint32_t>(at));
    result.values.push_back(random() % 2 ? magnitude(random) : -magnitude(random));
  }
  return result;
}

/// Returns the GB/s of a body that handles `bytes`. Calls it often enough for the clock's resolution.
template <class Body>
double rate(std::int64_t bytes, Body body) {
  constexpr std::int64_t enough = 1 << 20;
  const std::int64_t repeats = 1 + enough / std::max<std::int64_t>(bytes, 1);
  const double ms = milliseconds_of([&] {
    for (std::int64_t i = 0; i < repeats; ++i) body();
  });
  return static_cast<double>(bytes * repeats) / ms * 1e-6;
}

JsonValue measure(const Options& options, const Sparse& sparse, double density, WireValues values) {
  const wire::Wire wire{options.format == "coo" ? WireFormat::coo : WireFormat::compact, values};
  const auto entries = static_cast<std::int64_t>(sparse.indices.size());
  const auto range = static_cast<std::uint64_t>(options.count);
  const std::int64_t bytes = wire::message_bytes<float>(wire, entries, range);
  const std::int64_t coo_bytes = wire::message_bytes<float>({WireFormat::coo, WireValues::native}, entries, range);
  std::vector<std::byte> message(static_cast<std::size_t>(bytes)), coo(static_cast<std::size_t>(coo_bytes)), copy(coo);
  Sparse arrived{std::vector<std::uint32_t>(sparse.indices.size()), std::vector<float>(sparse.values.size())};
  wire::encode({WireFormat::coo, WireValues::native}, sparse.indices.data(), sparse.values.data(), entries, 0, range, coo.data());
  std::vector<double> encode_rates, decode_rates, memcpy_rates;  // in bytes of the COO message
  const int warm = 2;
  for (int t = 0; t < options.iterations + warm; ++t) {
    const double encode_rate = rate(
        coo_bytes, [&] { wire::encode(wire, sparse.indices.data(), sparse.values.data(), entries, 0, range, message.data()); });
    const double decode_rate = rate(coo_bytes, [&] {
      wire::decode(wire, message.data(), bytes, entries, 0, range, arrived.indices.data(), arrived.values.data());
    });
    const double memcpy_rate = rate(coo_bytes, [&] {
      std::memcpy(copy.data(), coo.data(), copy.size());
      asm volatile("" ::"r"(copy.data()) : "memory");  // otherwise the compiler removes all but the first copy
    });
    if (t < warm) continue;
    encode_rates.push_back(encode_rate);
    decode_rates.push_back(decode_rate);
    memcpy_rates.push_back(memcpy_rate);
  }
  if (arrived.indices != sparse.indices) throw std::runtime_error("codec: what was decoded is not what was encoded");
  const double encode_gbs = median(encode_rates), decode_gbs = median(decode_rates), memcpy_gbs = median(memcpy_rates);
  return {{"benchmark", "codec"},
          {"count", options.count},
          {"density", density},
          {"entries", entries},
          {"values", values == WireValues::native ? name_of(DataType::float32) : name_of(values)},
          {"format", wire::format_name<float>(wire, entries, range)},
          {"bytes_per_entry", static_cast<double>(bytes) / static_cast<double>(entries)},
          {"encode_gbs", encode_gbs},
          {"decode_gbs", decode_gbs},
          {"baseline", "memcpy"},
          {"baseline_gbs", memcpy_gbs},
          {"encode_ratio", encode_gbs / memcpy_gbs},
          {"decode_ratio", decode_gbs / memcpy_gbs}};
}

void run(const Options& options) {
  require_writable(options.json);
  Rows rows;
  for (const double density : options.densities) {
    const Sparse sparse = make_sparse(options.count, density);
    if (sparse.indices.empty()) continue;
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      rows.push_back(measure(options, sparse, density, values));
    }
  }
  print_table(rows,
              "{density:>8.4g} {entries:>10} {values:<9} {format:<14} {bytes_per_entry:>11.3f} {encode_gbs:>12.2f} "
              "{decode_gbs:>12.2f} {baseline_gbs:>12.2f} {encode_ratio:>13.3f} {decode_ratio:>13.3f}",
              {"density", "entries", "values", "format", "bytes/entry", "encode GB/s", "decode GB/s", "memcpy GB/s",
               "encode/memcpy", "decode/memcpy"});
  write_rows(rows, options.json);
}

}  // namespace

void add_codec(Command& benchmarks) {
  auto [command, options] =
      benchmarks.add("codec", "Measure encoding and decoding of messages on one thread, compared with memcpy", run);
  command.option("--count", options.count, "elements of the gradient").between(std::int64_t{1}, std::int64_t{1} << 32);
  command.option("--density", options.densities, "share of entries in a message, one or more values").between(1e-9, 1.0);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--format", options.format, "format of indices in messages").one_of({"compact", "coo"});
  command.option("--json", options.json, "also write the rows to this file");
  command.footer("GB/s count the bytes of 32-bit indices and float32 values, as memcpy copies them.");
}

}  // namespace weir::cli
