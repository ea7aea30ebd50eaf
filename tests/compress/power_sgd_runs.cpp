// power_sgd_runs: runs PowerSGD for test_power_sgd_torch.py.
//
// power_sgd_runs RANKS ROWS COLUMNS RANK ITERATIONS INPUT OUTPUT: INPUT has the first Q, column by column, and the gradients of
// each iteration and rank, as float32. OUTPUT gets the delivered update of each iteration. Error feedback is on.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "compress/linear_runs.hpp"

namespace weir::test {
namespace {

using Floats = std::vector<float>;

void start_from(CompressedExchange& exchange, const Floats& q) {
  SavedState saved = save_state(exchange);
  for (StateField& field : saved.fields) {
    if (field.name == "q") std::memcpy(field.bytes.data(), q.data(), q.size() * sizeof(float));
  }
  restore_state(exchange, saved, "power_sgd");
}

Floats read_floats(std::ifstream& file, std::int64_t count) {
  Floats x(static_cast<std::size_t>(count));
  if (!file.read(reinterpret_cast<char*>(x.data()), count * static_cast<std::int64_t>(sizeof(float))))
    throw std::runtime_error("the input ends early");
  return x;
}

void run(const LinearCase& test, std::int64_t factor, int iterations, const char* input, const char* output) {
  std::ifstream file(input, std::ios::binary);
  const Floats q = read_floats(file, factor);
  std::vector<std::vector<Floats>> gradients;
  for (int t = 0; t < iterations; ++t) {
    gradients.emplace_back();
    for (int rank = 0; rank < test.ranks; ++rank) gradients.back().push_back(read_floats(file, test.count));
  }
  std::ofstream delivered(output, std::ios::binary);
  run_ranks(test.ranks, [&](Communicator& comm) {
    LinearRank rank(test, comm);
    start_from(rank.exchange(), q);
    const auto n = static_cast<std::size_t>(test.count);
    Floats rest(n), out(n);
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      Floats values = gradients[t][static_cast<std::size_t>(comm.rank())];
      for (std::size_t i = 0; i < n; ++i) values[i] += rest[i];
      rank.run(t, values, rest, out);
      if (comm.rank() == 0)
        delivered.write(reinterpret_cast<const char*>(out.data()), test.count * static_cast<std::int64_t>(sizeof(float)));
    }
  });
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fputs("usage: power_sgd_runs RANKS ROWS COLUMNS RANK ITERATIONS INPUT OUTPUT\n", stderr);
    return 2;
  }
  try {
    const int ranks = std::atoi(argv[1]);
    const std::int64_t rows = std::atoll(argv[2]), columns = std::atoll(argv[3]), rank = std::atoll(argv[4]);
    weir::test::run({.compressor = "power_sgd",
                     .parameters = "rank=" + std::to_string(rank) + ",columns=" + std::to_string(columns),
                     .count = rows * columns,
                     .ranks = ranks,
                     .divisor = static_cast<double>(ranks)},
                    rank * columns, std::atoi(argv[5]), argv[6], argv[7]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "power_sgd_runs: %s\n", error.what());
    return 1;
  }
  return 0;
}
