#include "cli/bench_input.hpp"

#include <sys/mman.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numbers>
#include <sstream>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "cli/report.hpp"
#include "kernels/kernels.hpp"

namespace weir::cli {
namespace {

/// Returns a nearly normal number: the standardised sum of four 16-bit uniforms.
float nearly_normal(std::uint64_t bits) {
  const auto sum = static_cast<float>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
  return (sum - 131070.0F) / 37837.0F;
}

struct NpyHeader {
  std::string shape;
  std::vector<std::int64_t> sizes;
  std::int64_t data_offset = 0;
};

/// Returns the numbers of a shape such as "2, 1, 1000". Returns nothing if one of them is not from 1 to 2^31 - 1.
std::vector<std::int64_t> sizes_of(const std::string& shape) {
  std::vector<std::int64_t> sizes;
  std::istringstream in(shape);
  char comma = ',';
  for (std::int64_t size = 0; comma == ',' && in >> size; in >> comma) {
    if (size < 1 || size > std::numeric_limits<int>::max()) return {};
    sizes.push_back(size);
  }
  return in.eof() ? sizes : std::vector<std::int64_t>();
}

NpyHeader read_npy_header(std::ifstream& in, const std::string& file) {
  const auto read = [&](char* out, std::streamsize bytes) {
    if (!in.read(out, bytes)) give_up("'{}' ends within its .npy header: write it anew", file);
  };
  std::array<char, 10> head{};
  read(head.data(), head.size());
  if (head[6] != 1) give_up("'{}': only .npy format version 1 is read", file);
  const auto length = static_cast<std::uint16_t>(static_cast<unsigned char>(head[8]) | static_cast<unsigned char>(head[9]) << 8);
  std::string text(length, ' ');
  read(text.data(), length);
  const std::size_t open = text.find('(', text.find("'shape':")), close = text.find(')', open);
  if (text.find("'<f4'") == std::string::npos || text.find("'fortran_order': False") == std::string::npos ||
      close == std::string::npos) {
    give_up("'{}': a float32 array in C order is needed, its header says {}", file, text);
  }
  NpyHeader header;
  header.shape = text.substr(open + 1, close - open - 1);
  header.sizes = sizes_of(header.shape);
  header.data_offset = 10 + length;
  return header;
}

}  // namespace

std::vector<float> gradient_memory(std::int64_t count) {
  std::vector<float> memory;
  memory.reserve(static_cast<std::size_t>(count));
#ifdef MADV_HUGEPAGE
  // Must come before the memory is touched. This is only advice, so errors are ignored.
  constexpr std::uintptr_t huge_page = std::uintptr_t{1} << 21;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()), aligned = (begin + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(count) * sizeof(float);
  if (aligned < end) madvise(reinterpret_cast<void*>(aligned), end - aligned, MADV_HUGEPAGE);
#endif
  memory.resize(static_cast<std::size_t>(count));
  return memory;
}

Gradients make_gradients(std::int64_t count, int rank, int iterations) {
  Gradients gradients(static_cast<std::size_t>(iterations));
  for (int t = 0; t < iterations; ++t) {
    auto& g = gradients[static_cast<std::size_t>(t)];
    g = gradient_memory(count);
    const std::uint64_t own = splitmix64(static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(t) + 17);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t shared = splitmix64(static_cast<std::uint64_t>(i));
      const float sign = shared & 1 ? 1.0F : -1.0F;
      g[static_cast<std::size_t>(i)] =
          sign * std::exp(1.5F * nearly_normal(shared)) *
          (1 + 0.3F * nearly_normal(splitmix64(own ^ static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull)));
    }
  }
  return gradients;
}

Gradients make_fields(std::int64_t count, int rank, int iterations) {
  constexpr std::int64_t edge = 256;
  Gradients fields(static_cast<std::size_t>(iterations));
  for (int t = 0; t < iterations; ++t) {
    const double shift = 0.07 * rank + 0.05 * t;
    const auto wave = [&](double periods, std::int64_t at) {
      return std::sin(2 * std::numbers::pi * (periods * static_cast<double>(at) / edge + shift));
    };
    std::array<double, edge> x, y, tilted;
    for (std::int64_t i = 0; i < edge; ++i) {
      const auto at = static_cast<std::size_t>(i);
      x[at] = wave(3, i), y[at] = wave(2, i), tilted[at] = 0.5 * wave(1, i);
    }
    auto& field = fields[static_cast<std::size_t>(t)];
    field = gradient_memory(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = i % edge, row = i / edge % edge, plane = i / (edge * edge);
      const double value = x[static_cast<std::size_t>(column)] * y[static_cast<std::size_t>(row)] +
                           tilted[static_cast<std::size_t>((5 * plane + 2 * column) % edge)];
      field[static_cast<std::size_t>(i)] = static_cast<float>(value);
    }
  }
  return fields;
}

Gradients read_gradients(const std::string& file, std::int64_t& count, int rank, int ranks) {
  std::ifstream in(file, std::ios::binary);
  if (!in) give_up("cannot read the gradients in '{}'", file);
  in.seekg(0, std::ios::end);
  const std::int64_t file_bytes = in.tellg();
  in.seekg(0);
  std::int64_t offset = 0, announced = 0;
  std::array<char, 6> magic{};
  in.read(magic.data(), magic.size());
  in.clear();
  in.seekg(0);
  if (std::memcmp(magic.data(), "\x93NUMPY", magic.size()) == 0) {
    const NpyHeader header = read_npy_header(in, file);
    if (header.sizes.size() != 3 || header.sizes[1] != ranks) {
      give_up("'{}' has shape ({}): it must be iterations x {} ranks x count, each from 1 to 2^31 - 1", file, header.shape, ranks);
    }
    announced = header.sizes[0];
    count = header.sizes[2];
    offset = header.data_offset;
  }
  if (count <= 0) throw Error(WEIR_ERR_ARGUMENT, "raw gradients need --count");
  const std::int64_t data_bytes = file_bytes - offset;
  const std::int64_t step_bytes = count <= data_bytes / 4 / ranks ? count * ranks * 4 : 0;  // 0: the file has less than one step
  if (step_bytes == 0 || data_bytes % step_bytes != 0) {
    give_up("'{}' holds {} bytes of data: not a multiple of {} ranks x {} floats", file, data_bytes, ranks, count);
  }
  const std::int64_t iterations = data_bytes / step_bytes;
  if (announced != 0 && iterations != announced)
    give_up("'{}' holds {} iterations: its shape says {}", file, iterations, announced);
  Gradients gradients(static_cast<std::size_t>(iterations));
  for (std::int64_t t = 0; t < iterations; ++t) {
    auto& g = gradients[static_cast<std::size_t>(t)];
    g = gradient_memory(count);
    in.seekg(offset + t * step_bytes + rank * count * 4);
    in.read(reinterpret_cast<char*>(g.data()), count * 4);
  }
  if (!in) give_up("reading '{}' failed", file);
  return gradients;
}

std::string instructions_in_use() {
  const std::string names = kernels::host::instruction_set();
  return names.substr(0, names.find(' '));
}

}  // namespace weir::cli
