// parallel_hdf5.cpp: measures parallel HDF5, without Weir, on a checkpoint's layout, to compare with `weir bench checkpoint`. Every
// rank's floats are one row, in chunks of 256 KiB. Start it with mpirun:
//
//   parallel_hdf5 [--size BYTES_PER_RANK] [--folder FOLDER] [--rounds N] [--json FILE]
//
// It measures three ways: `collective` and `independent` transfers of parallel HDF5 (H5FD_MPIO), and `per node`, in which the ranks
// of a node send their rows to one of them. Only these ranks open the file, for independent transfers.
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr hsize_t chunk_floats = (hsize_t{1} << 18) / sizeof(float);

struct Options {
  std::int64_t size = std::int64_t{1} << 26;
  int rounds = 5;
  std::string folder = ".", json;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "parallel_hdf5: %s\n", text.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

/// Returns the identifier. Ends the program if it is invalid.
hid_t check(hid_t id, const char* doing) {
  if (id < 0) fail(std::string("HDF5 cannot ") + doing);
  return id;
}

enum class Way { plain, collective, independent, per_node };
constexpr const char* names[] = {"write, read", "collective", "independent", "per node"};

struct Ranks {
  int rank = 0, ranks = 1;
  MPI_Comm node = MPI_COMM_NULL, writers = MPI_COMM_NULL;  // writers: the first rank of each node
  int node_rank = 0, node_ranks = 1;
};

hid_t open_file(const std::string& path, MPI_Comm comm, bool create) {
  const hid_t access = check(H5Pcreate(H5P_FILE_ACCESS), "make a property list");
  check(H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL), "use MPI-IO");
  check(H5Pset_alignment(access, 4096, 4096), "align");
  const hid_t file =
      create ? H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  check(file, "open the file");
  H5Pclose(access);
  return file;
}

hid_t open_rows(hid_t file, hsize_t rows, hsize_t floats, bool create) {
  if (!create) return check(H5Dopen2(file, "values", H5P_DEFAULT), "open the dataset");
  const hsize_t whole[] = {rows, floats}, chunk[] = {1, std::min(floats, chunk_floats)};
  const hid_t space = check(H5Screate_simple(2, whole, nullptr), "make a space");
  const hid_t properties = check(H5Pcreate(H5P_DATASET_CREATE), "make a property list");
  check(H5Pset_chunk(properties, 2, chunk), "chunk");
  check(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER), "leave chunks unfilled");
  const hid_t dataset =
      check(H5Dcreate2(file, "values", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT), "make the dataset");
  H5Pclose(properties);
  H5Sclose(space);
  return dataset;
}

/// Writes or reads one row of the dataset.
void transfer(hid_t dataset, hsize_t row, std::vector<float>& values, bool write, H5FD_mpio_xfer_t kind) {
  const hsize_t first[] = {row, 0}, count[] = {1, values.size()}, size[] = {values.size()};
  const hid_t in_file = check(H5Dget_space(dataset), "look at the dataset"),
              in_memory = check(H5Screate_simple(1, size, nullptr), "make a space");
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, first, nullptr, count, nullptr), "select a row");
  const hid_t properties = check(H5Pcreate(H5P_DATASET_XFER), "make a property list");
  check(H5Pset_dxpl_mpio(properties, kind), "choose the transfer");
  check(write ? H5Dwrite(dataset, H5T_NATIVE_FLOAT, in_memory, in_file, properties, values.data())
              : H5Dread(dataset, H5T_NATIVE_FLOAT, in_memory, in_file, properties, values.data()),
        "transfer");
  H5Pclose(properties);
  H5Sclose(in_memory);
  H5Sclose(in_file);
}

void sync(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  if (descriptor < 0 || ::fsync(descriptor) != 0) fail("cannot sync " + path);
  ::close(descriptor);
}

void drop_pages(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  if (descriptor < 0) return;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

void plain(const std::string& path, std::vector<float>& values, bool write) {
  const int descriptor = ::open(path.c_str(), write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
  auto* at = reinterpret_cast<char*>(values.data());
  for (std::size_t left = values.size() * sizeof(float); left > 0;) {
    const ssize_t done = write ? ::write(descriptor, at, left) : ::read(descriptor, at, left);
    if (done <= 0) fail("cannot write or read " + path);
    at += done;
    left -= static_cast<std::size_t>(done);
  }
  if (write && ::fsync(descriptor) != 0) fail("cannot sync " + path);
  ::close(descriptor);
}

/// Does one whole save, or one whole load.
void run(Way way, const Ranks& r, const std::string& path, std::vector<float>& values, std::vector<float>& scratch, bool write) {
  if (way == Way::plain) return plain(path + "-" + std::to_string(r.rank), values, write);
  const hsize_t rows = static_cast<hsize_t>(r.ranks), floats = values.size();
  if (way != Way::per_node) {
    const hid_t file = open_file(path, MPI_COMM_WORLD, write), dataset = open_rows(file, rows, floats, write);
    transfer(dataset, static_cast<hsize_t>(r.rank), values, write,
             way == Way::collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    H5Dclose(dataset);
    check(H5Fclose(file), "close the file");
  } else {
    // This assumes consecutive ranks on a node, the default placement of launchers.
    const int count = static_cast<int>(floats);
    hid_t file = -1, dataset = -1;
    if (r.node_rank == 0) {
      file = open_file(path, r.writers, write);
      dataset = open_rows(file, rows, floats, write);
      transfer(dataset, static_cast<hsize_t>(r.rank), values, write, H5FD_MPIO_INDEPENDENT);
      scratch.resize(floats);
      for (int peer = 1; peer < r.node_ranks; ++peer) {
        if (write) MPI_Recv(scratch.data(), count, MPI_FLOAT, peer, 0, r.node, MPI_STATUS_IGNORE);
        transfer(dataset, static_cast<hsize_t>(r.rank + peer), scratch, write, H5FD_MPIO_INDEPENDENT);
        if (!write) MPI_Send(scratch.data(), count, MPI_FLOAT, peer, 0, r.node);
      }
      H5Dclose(dataset);
      check(H5Fclose(file), "close the file");
    } else if (write) {
      MPI_Send(values.data(), count, MPI_FLOAT, 0, 0, r.node);
    } else {
      MPI_Recv(values.data(), count, MPI_FLOAT, 0, 0, r.node, MPI_STATUS_IGNORE);
    }
  }
  if (!write) return;
  MPI_Barrier(MPI_COMM_WORLD);
  sync(path);
}

double milliseconds(Way way, const Ranks& r, const std::string& path, std::vector<float>& values, std::vector<float>& scratch,
                    bool write) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  run(way, r, path, values, scratch, write);
  double mine = (MPI_Wtime() - begin) * 1e3, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}
double minimum(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) fail(name + " needs a value: --size BYTES, --folder FOLDER, --rounds N or --json FILE");
    if (name == "--size")
      options.size = std::atoll(argv[i + 1]);
    else if (name == "--rounds")
      options.rounds = std::atoi(argv[i + 1]);
    else if (name == "--folder")
      options.folder = argv[i + 1];
    else if (name == "--json")
      options.json = argv[i + 1];
    else
      fail(name + " is no option: there are --size, --folder, --rounds and --json");
  }
  if (options.size < 4 || options.size > (std::int64_t{1} << 32)) fail("--size must be between 4 and 2^32");
  if (options.rounds < 1) fail("--rounds must be at least 1");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = read_options(argc, argv);
  Ranks r;
  MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, r.rank, MPI_INFO_NULL, &r.node);
  MPI_Comm_rank(r.node, &r.node_rank);
  MPI_Comm_size(r.node, &r.node_ranks);
  MPI_Comm_split(MPI_COMM_WORLD, r.node_rank == 0 ? 0 : MPI_UNDEFINED, r.rank, &r.writers);

  const std::string path = options.folder + "/parallel_hdf5.tmp";
  std::vector<float> values(static_cast<std::size_t>(options.size) / sizeof(float)), back(values.size()), scratch;
  std::uint32_t state = static_cast<std::uint32_t>(r.rank) + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / 16777216.0F;
  }
  constexpr Way ways[] = {Way::plain, Way::collective, Way::independent, Way::per_node};
  std::vector<double> saves[4], loads[4];
  for (int round = -1; round < options.rounds; ++round) {
    for (const Way way : ways) {
      const auto at = static_cast<std::size_t>(way);
      const std::string mine = way == Way::plain ? path + "-" + std::to_string(r.rank) : path;
      const double save = milliseconds(way, r, path, values, scratch, true);
      if (way == Way::plain || r.rank == 0) drop_pages(mine);
      const double load = milliseconds(way, r, path, back, scratch, false);
      if (std::memcmp(values.data(), back.data(), values.size() * sizeof(float)) != 0)
        fail("what was read is not what was written");
      MPI_Barrier(MPI_COMM_WORLD);
      if (way == Way::plain || r.rank == 0) ::unlink(mine.c_str());
      if (round < 0) continue;
      saves[at].push_back(save);
      loads[at].push_back(load);
    }
  }
  if (r.rank == 0) {
    std::printf("%d ranks, %lld bytes each, %d rounds; speed: least time of write + fsync, and of read (cold), to that of HDF5\n",
                r.ranks, static_cast<long long>(options.size), options.rounds);
    std::printf("%-12s %15s %12s %7s %15s %12s %7s\n", "way", "save median ms", "save min ms", "speed", "load median ms",
                "load min ms", "speed");
    std::FILE* const json = options.json.empty() ? nullptr : std::fopen(options.json.c_str(), "w");
    if (!options.json.empty() && json == nullptr) fail("cannot write " + options.json);
    for (const Way way : ways) {
      const auto at = static_cast<std::size_t>(way);
      const double save = minimum(saves[at]), load = minimum(loads[at]);
      std::printf("%-12s %15.1f %12.1f %7.3f %15.1f %12.1f %7.3f\n", names[at], median(saves[at]), save, minimum(saves[0]) / save,
                  median(loads[at]), load, minimum(loads[0]) / load);
      if (json == nullptr) continue;
      std::fprintf(json,
                   "%s{\"benchmark\": \"parallel_hdf5\", \"way\": \"%s\", \"ranks\": %d, \"bytes_per_rank\": %lld, "
                   "\"save_median_ms\": %.3f, "
                   "\"save_min_ms\": %.3f, \"load_median_ms\": %.3f, \"load_min_ms\": %.3f}%s\n",
                   at == 0 ? "[" : " ", names[at], r.ranks, static_cast<long long>(options.size), median(saves[at]), save,
                   median(loads[at]), load, at == 3 ? "]" : ",");
    }
    if (json != nullptr && std::fclose(json) != 0) fail("cannot write " + options.json);
  }
  if (r.writers != MPI_COMM_NULL) MPI_Comm_free(&r.writers);
  MPI_Comm_free(&r.node);
  MPI_Finalize();
  return 0;
}
