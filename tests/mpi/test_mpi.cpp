// The contract over MPI, started by mpirun with any number of ranks, and faults that only MPI can have.
#include <unistd.h>
#include <weir/mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "communicator/communicator.hpp"
#include "support/catch.hpp"
#include "support/contract.hpp"
#include "support/shared_gradients.hpp"
#include "support/thinning.hpp"
#include "support/timeouts.hpp"
#include "transport/mpi/mpi_library.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace weir::test {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::vector<Location> places_of(const Communicator& comm) {
  std::vector<Location> places;
  for (int rank = 0; rank < comm.size(); ++rank) places.push_back(comm.state()->topology.location(rank));
  return places;
}

template <class T>
void check_exact(const Communicator& comm, std::int64_t n, std::int64_t k, Input input, const std::string& algorithm = "oktopk",
                 ExchangeSchedule schedule = ExchangeSchedule::automatic) {
  const ContractCase c{algorithm, comm.size(), n, k, input, 0, "as it is", places_of(comm), schedule};
  const ContractData<T> data(c);
  RankCheck check;
  check_contract<T>(comm, c, data, check);
  REQUIRE(check.failure() == "");
}

/// Returns whether large case `number` runs with this number of ranks. If thinned, each runs with one or two of CTest's numbers of
/// ranks, by turns. Large cases cost much, because every rank computes the inputs of all ranks.
bool in_turn(const Communicator& comm, std::uint64_t number = 0) {
  const std::uint64_t turn = comm.size() == 7 ? 1 : static_cast<std::uint64_t>(comm.size());  // 1 and 7, 2, 3, 4
  return (turn + number + test_offset()) % std::min<std::uint64_t>(test_every(), 4) == 0;
}

template <class Body>
std::string error_of(weir_status status, Body body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("which MPI the program runs on") {
  CHECK(mpi_family_of("Open MPI v4.1.4, package: Debian OpenMPI") == "Open MPI");
  CHECK(mpi_family_of("MPICH Version:\t4.0.2\nMPICH Release date:\tThu") == "MPICH");
  CHECK(mpi_family_of("Intel(R) MPI Library 2021.11 for Linux* OS") == "MPICH");
  CHECK(mpi_family_of("MPI VERSION    : CRAY MPICH version 8.1.28") == "MPICH");
  CHECK(mpi_family_of("Another MPI 1.0").empty());
  CHECK(mpi_library_name("MPICH Version:\t4.0.2\nMPICH Release date:\tThu") == "MPICH Version: 4.0.2");
  CHECK(mpi_family_of(mpi_library_version()) == mpi_family());
  CHECK_NOTHROW(check_mpi_library());
  CHECK_FALSE(sends_at_once_over_tcp(std::int64_t{1} << 40));
}

TEST_CASE("Open MPI says what it sends at once over TCP", "[.tcp]") {  // between nodes that have nothing else
  CHECK(sends_at_once_over_tcp(60 << 10) == (mpi_family() == "Open MPI"));
}

TEST_CASE("oktopk over MPI equals the oracle bit for bit") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const Input input : all_inputs()) {
    if (!left_out(4)) check_exact<float>(comm, 6007, 211, input);
    if (!left_out(4)) check_exact<double>(comm, 2003, 101, input);
  }
  for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
    for (const std::int64_t k : std::vector<std::int64_t>{0, 1, n / 2, n}) {
      if (k <= n && !left_out(4)) check_exact<float>(comm, n, k, Input::integers);
    }
  }
  // Messages beyond any eager limit.
  if (in_turn(comm)) check_exact<float>(comm, 200003, 60001, Input::heavy_tailed);
}

TEST_CASE("oktopk by every schedule over MPI equals the oracle bit for bit") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const ExchangeSchedule schedule : {ExchangeSchedule::direct, ExchangeSchedule::phased, ExchangeSchedule::one_round}) {
    for (const std::string algorithm : {"oktopk", "hi_oktopk"}) {
      for (const Input input : all_inputs()) {
        if (!left_out(4)) check_exact<float>(comm, 6007, 211, input, algorithm, schedule);
      }
      check_exact<double>(comm, 2003, 101, Input::heavy_tailed, algorithm, schedule);
      for (const std::int64_t n : {0, 1, 5}) check_exact<float>(comm, n, n, Input::integers, algorithm, schedule);
    }
  }
  if (comm.size() == 2 && in_turn(comm))  // messages of more than 1 MiB, in two parts
    check_exact<float>(comm, 1500007, 600011, Input::heavy_tailed, "oktopk", ExchangeSchedule::phased);
}

TEST_CASE("every sparse algorithm over MPI equals the oracle bit for bit") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.sparse() || !row.threshold.empty()) continue;
    const std::string algorithm(row.name);
    for (const Input input : {Input::heavy_tailed, Input::integers, Input::rank_heavy}) {
      if (!left_out(4)) check_exact<float>(comm, 6007, 211, input, algorithm);
    }
    check_exact<double>(comm, 2003, 101, Input::elsewhere, algorithm);
    for (const std::int64_t n : {0, 1, 5}) check_exact<float>(comm, n, std::min<std::int64_t>(n, 2), Input::integers, algorithm);
  }
  std::uint64_t number = 0;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.sparse() || !row.threshold.empty() || !in_turn(comm, ++number)) continue;
    check_exact<float>(comm, 60013, 20011, Input::heavy_tailed, std::string(row.name));
  }
}

TEST_CASE("shared memory of plans that come and go") {
  const Communicator comm(MPI_COMM_WORLD);
  std::optional<AllreducePlan> kept;
  for (int round = 0; round < 4; ++round) {
    AllreducePlan first(comm, {.count = 10000 + 5000 * (round % 2), .algorithm = "dense_torus2d", .average = false});
    AllreducePlan second(comm, {.count = 10000, .algorithm = "hi_oktopk"});
    for (AllreducePlan* plan : {&first, &second}) {
      std::vector<float> x = make_input<float>(Input::integers, plan->config().count, comm.rank(), comm.size(), round);
      plan->run(x);
    }
    if (round == comm.rank() % 3) kept = std::move(second);  // outlives the round on some ranks longer than on others
  }
  check_exact<float>(comm, 5000, 100, Input::heavy_tailed, "hi_oktopk");
}

TEST_CASE("dense algorithms over MPI equal MPI_Allreduce on integers") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse || algorithm.packed || !algorithm.host_memory) continue;
    for (const std::int64_t n : {0, 1, 5, 1000, 300001, 5000001}) {  // the last in more pieces than are in flight
      std::vector<float> x = make_input<float>(Input::integers, n, comm.rank(), comm.size(), 0), right = x;
      MPI_Allreduce(MPI_IN_PLACE, right.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      AllreducePlan plan(comm, {.count = n, .algorithm = std::string(algorithm.name), .average = false});
      plan.run(x);
      REQUIRE(x == right);
    }
  }
}

TEST_CASE("plans started in different orders on different ranks") {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<AllreducePlan> plans;
  std::vector<std::vector<float>> gradients(3);
  for (int p = 0; p < 3; ++p)
    plans.emplace_back(comm, AllreduceConfig{.count = 100000, .density = 0.1, .priority = (p + comm.rank()) % 3});
  for (int t = 0; t < 5; ++t) {
    std::vector<std::optional<Operation>> operations(3);
    for (int i = 0; i < 3; ++i) {
      const auto p = static_cast<std::size_t>((i + comm.rank()) % 3);
      gradients[p] = make_input<float>(Input::heavy_tailed, 100000, comm.rank(), comm.size(), t * 3 + static_cast<int>(p));
      operations[p] = plans[p].start(gradients[p]);
    }
    while (!operations[0]->test()) {
    }
    operations[2]->wait();
    operations[1]->wait();
    for (const auto& gradient : gradients) {
      std::vector<float> of_rank_0 = gradient;
      MPI_Bcast(of_rank_0.data(), 100000, MPI_FLOAT, 0, MPI_COMM_WORLD);
      REQUIRE(of_rank_0 == gradient);
    }
  }
}

TEST_CASE("two plans on one gradient at once over MPI: the second is refused on all ranks, the first goes on") {
  for (const std::string algorithm : {"oktopk", "dense_ring"}) {
    REQUIRE(failure_of_shared_gradients(world_size(), algorithm, [](const auto& body) {
              Communicator comm(MPI_COMM_WORLD);
              body(comm);
            }) == "");
  }
}

TEST_CASE("opposite priorities on neighbouring ranks, with messages of many pieces") {
  const Communicator comm(MPI_COMM_WORLD);
  const std::int64_t n = 3000000;
  const int odd = comm.rank() % 2;
  std::vector<AllreducePlan> plans;
  std::vector<std::vector<float>> sums(2), inputs(2);
  for (int p = 0; p < 2; ++p) {
    plans.emplace_back(comm,
                       AllreduceConfig{.count = n, .algorithm = "dense_ring", .average = false, .priority = p == odd ? 5 : 0});
    inputs[static_cast<std::size_t>(p)] = make_input<float>(Input::integers, n, comm.rank(), comm.size(), p);
    sums[static_cast<std::size_t>(p)] = inputs[static_cast<std::size_t>(p)];
    MPI_Allreduce(MPI_IN_PLACE, sums[static_cast<std::size_t>(p)].data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  for (const int first : {0, 1, odd, 1 - odd}) {
    std::vector<std::vector<float>> x = inputs;
    std::vector<std::optional<Operation>> operations(2);
    for (const int p : {first, 1 - first})
      operations[static_cast<std::size_t>(p)] = plans[static_cast<std::size_t>(p)].start(x[static_cast<std::size_t>(p)]);
    operations[static_cast<std::size_t>(odd)]->wait();
    operations[static_cast<std::size_t>(1 - odd)]->wait();
    REQUIRE((x == sums));
  }
}

TEST_CASE("the caller's MPI communicator may be freed at once") {
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  const Communicator comm(mine);
  MPI_Comm_free(&mine);
  check_exact<float>(comm, 1000, 10, Input::heavy_tailed);
}

TEST_CASE("sub-communicators work side by side") {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, 0, &half);
  {
    const Communicator comm(half);
    check_exact<float>(comm, 5000, 100, Input::heavy_tailed);
  }
  MPI_Comm_free(&half);
}

TEST_CASE("subgroups: of one parity, reversed, nested, overlapping, and beside runs of their communicator") {
  const int rank = world_rank(), ranks = world_size();
  std::optional<Communicator> comm(MPI_COMM_WORLD);
  std::vector<int> parity, reversed, low, high;
  for (int other = 0; other < ranks; ++other) {
    if (other % 2 == rank % 2) parity.push_back(other);
    reversed.insert(reversed.begin(), other);
    if (other <= ranks / 2) low.push_back(other);
    if (other >= ranks / 2) high.push_back(other);
  }
  const Communicator half = comm->subgroup(parity), all = comm->subgroup(reversed);
  CHECK(half.rank() == rank / 2);
  CHECK(all.rank() == ranks - 1 - rank);
  check_exact<float>(half, 5000, 100, Input::heavy_tailed);
  check_exact<float>(all, 5000, 100, Input::heavy_tailed, "hi_oktopk");
  if (rank <= ranks / 2) check_exact<float>(comm->subgroup(low), 1000, 20, Input::integers);
  if (rank >= ranks / 2) check_exact<float>(comm->subgroup(high), 1000, 20, Input::integers);

  AllreducePlan of_all(*comm, {.count = 100000, .density = 0.1}), of_half(half, {.count = 100000, .density = 0.1});
  std::vector<float> a = make_input<float>(Input::heavy_tailed, 100000, rank, ranks, 0);
  std::vector<float> b = make_input<float>(Input::heavy_tailed, 100000, half.rank(), half.size(), 0);
  Operation first = of_all.start(a), second = of_half.start(b);
  const Communicator meanwhile = comm->subgroup(parity);
  second.wait();
  first.wait();
  std::vector<float> of_rank_0 = a;
  MPI_Bcast(of_rank_0.data(), 100000, MPI_FLOAT, 0, MPI_COMM_WORLD);
  CHECK(of_rank_0 == a);
  const Communicator alone = half.subgroup({half.rank()});
  for (const Communicator& sub : {half, meanwhile, alone}) check_exact<double>(sub, 1000, 20, Input::heavy_tailed);
}

TEST_CASE("a subgroup outlives its communicator") {
  std::optional<Communicator> comm(MPI_COMM_WORLD);
  const int last = comm->size() - 1;
  const Communicator sub = comm->subgroup(last == 0              ? std::vector{0}
                                          : comm->rank() == last ? std::vector{last}
                                                                 : [&] {
                                                                     std::vector<int> others(static_cast<std::size_t>(last));
                                                                     std::iota(others.begin(), others.end(), 0);
                                                                     return others;
                                                                   }());
  comm.reset();
  check_exact<float>(sub, 5000, 100, Input::heavy_tailed);
}

TEST_CASE("wrong lists of a subgroup over MPI") {
  const int rank = world_rank(), last = world_size() - 1;
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<int> list(static_cast<std::size_t>(world_size()));
  std::iota(list.begin(), list.end(), 0);
  std::vector<int> wrong = list;
  wrong.push_back(last + 1);
  CHECK_THAT(error_of(WEIR_ERR_ARGUMENT, [&] { static_cast<void>(comm.subgroup(rank == last ? wrong : list)); }),
             ContainsSubstring("subgroup: rank " + std::to_string(last) + ": the list has rank " + std::to_string(last + 1)));
  if (last > 0) {
    wrong = list;
    std::swap(wrong[0], wrong[1]);
    CHECK_THAT(error_of(WEIR_ERR_MISMATCH, [&] { static_cast<void>(comm.subgroup(rank == last ? wrong : list)); }),
               ContainsSubstring("ranks disagree about the list: rank 0 has 0, 1"));
  }
  check_exact<float>(comm.subgroup(list), 1000, 20, Input::integers);
}

TEST_CASE("sub-communicators side by side leave files of their own") {
  namespace fs = std::filesystem;
  std::array<char, 64> folder{};
  if (world_rank() == 0) std::snprintf(folder.data(), folder.size(), "/tmp/weir-test-mpi-%d", static_cast<int>(::getpid()));
  MPI_Bcast(folder.data(), static_cast<int>(folder.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  setenv("WEIR_METRICS", folder.data(), 1);
  {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, world_rank(), &half);
    const Communicator first(half), second(half);
    MPI_Comm_free(&half);
  }
  unsetenv("WEIR_METRICS");
  MPI_Barrier(MPI_COMM_WORLD);
  const auto files = std::distance(fs::directory_iterator(folder.data()), fs::directory_iterator());
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) fs::remove_all(folder.data());
  REQUIRE(files == 2 * world_size());
}

TEST_CASE("bad communicators and settings") {
  CHECK_THAT(error_of(WEIR_ERR_ARGUMENT, [] { const Communicator comm(MPI_COMM_NULL); }), ContainsSubstring("MPI_COMM_NULL"));

  const int last = world_size() - 1;
  if (world_rank() == last) setenv("WEIR_TIMEOUT", "soon", 1);
  const std::string text = error_of(WEIR_ERR_SETTING, [] { const Communicator comm(MPI_COMM_WORLD); });
  unsetenv("WEIR_TIMEOUT");
  CHECK_THAT(text, ContainsSubstring("rank " + std::to_string(last) + ": WEIR_TIMEOUT is 'soon'"));
}

TEST_CASE("all ranks send CUDA memory the same way") {
  const int last = world_size() - 1;
  const auto path = [] { return Communicator(MPI_COMM_WORLD).state()->device_path; };
  const auto check_alike = [](const DevicePath& mine) {
    std::array<char, 300> text{};
    mine.why.copy(text.data(), text.size() - 1);
    int direct = mine.direct ? 1 : 0;
    MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(&direct, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(mine.direct == (direct != 0));
    CHECK(mine.why == text.data());
  };
  check_alike(path());
  setenv("WEIR_CUDA_AWARE_MPI", "on", 1);
  CHECK(path().direct);
  if (world_rank() == last) setenv("WEIR_CUDA_AWARE_MPI", "off", 1);
  const DevicePath mixed = path();
  unsetenv("WEIR_CUDA_AWARE_MPI");
  check_alike(mixed);
  CHECK_FALSE(mixed.direct);
  CHECK_THAT(mixed.why, ContainsSubstring("WEIR_CUDA_AWARE_MPI is off"));
  if (last > 0) CHECK_THAT(mixed.why, ContainsSubstring("(on rank " + std::to_string(last) + ")"));
}

TEST_CASE("a process that another MPI's launcher has started as one of several is refused") {
  if (world_size() != 1) return;
#ifdef OPEN_MPI
  const char *const variable = "PMI_SIZE", *const own = "OMPI_COMM_WORLD_SIZE";
#else
  const char *const variable = "OMPI_COMM_WORLD_SIZE", *const own = "PMI_SIZE";
#endif
  setenv(own, "1", 1);
  setenv(variable, "4", 1);
  CHECK(Communicator(MPI_COMM_WORLD).size() == 1);  // as in a job step of the other one
  unsetenv(own);
  const std::string text = error_of(WEIR_ERR_UNSUPPORTED, [] { const Communicator comm(MPI_COMM_WORLD); });
  CHECK_THAT(text, ContainsSubstring("launcher has started this process as one of 4: start the program with"));
  CHECK(Communicator(MPI_COMM_SELF).size() == 1);
  setenv(variable, "1", 1);
  CHECK(Communicator(MPI_COMM_WORLD).size() == 1);
  unsetenv(variable);
}

TEST_CASE("a message beyond 1 GiB travels in pieces") {
  if (world_size() != 2) return;  // once is enough: it takes two buffers of that size
  const auto transport = make_mpi_transport(MPI_COMM_WORLD, 60);
  const std::int64_t bytes = (std::int64_t{1} << 30) + 12345;
  std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes));
  const auto value = [](std::size_t i) { return static_cast<std::uint8_t>(i * 2654435761u >> 13); };
  Request request;
  if (world_rank() == 0) {
    for (std::size_t i = 0; i < data.size(); i += 4093) data[i] = value(i);
    data.back() = 77;
    request = transport->send(data.data(), bytes, 1, 5);
  } else {
    request = transport->receive(data.data(), bytes, 0, 5);
  }
  while (!transport->test(request)) {
  }
  bool right = data.back() == 77;
  for (std::size_t i = 0; i + 1 < data.size(); i += 4093) right = right && data[i] == value(i);
  REQUIRE(right);
}

TEST_CASE("messages with one tag keep their order over several communicators") {
  // Rank 0 wants three, and the others one: rank 0 decides.
  auto transport = make_mpi_transport(MPI_COMM_WORLD, 60, world_rank() == 0 ? 3 : 1);
  if (GENERATE(false, true)) {
    std::vector<int> all(static_cast<std::size_t>(world_size()));
    std::iota(all.begin(), all.end(), 0);
    transport = transport->subgroup(all);
  }
  if (GENERATE(false, true)) {  // as if each were on a node of its own: over TCP, pieces are short then
    std::vector<int> nodes(static_cast<std::size_t>(world_size()));
    std::iota(nodes.begin(), nodes.end(), 0);
    transport->set_nodes(nodes);
  }
  const std::vector<std::int64_t> sizes = {
      (7 << 20) + 5, 3, 1 << 20, Transport::longest_open_message - 7, (2 << 20) + 1, 1, 4 << 20, 60 << 10, (60 << 10) + 1};
  const std::size_t open = 3;  // only its sender knows its size
  const int to = (world_rank() + 1) % world_size(), from = (world_rank() + world_size() - 1) % world_size();
  std::vector<std::vector<std::uint8_t>> sent, received;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sent.emplace_back(static_cast<std::size_t>(sizes[i]));
    for (std::size_t k = 0; k < sent[i].size(); ++k) sent[i][k] = static_cast<std::uint8_t>((k * 2654435761u >> 13) + i);
    received.emplace_back(sent[i].size());
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == open) {
      received[i].resize(Transport::longest_open_message);
      requests.push_back(transport->receive_up_to(received[i].data(), Transport::longest_open_message, from, 5));
      requests.push_back(transport->send_open(sent[i].data(), sizes[i], to, 5));
    } else {
      requests.push_back(transport->receive(received[i].data(), sizes[i], from, 5));
      requests.push_back(transport->send(sent[i].data(), sizes[i], to, 5));
    }
  }
  while (!requests.empty()) std::erase_if(requests, [&](Request request) { return transport->test(request); });
  received[open].resize(sent[open].size());
  REQUIRE(received == sent);
}

TEST_CASE("ranks of one machine share a node") {
  const Communicator comm(MPI_COMM_WORLD);
  for (int peer = 0; peer < comm.size(); ++peer) CHECK((comm.level(peer) == Level::self) == (peer == comm.rank()));
  CHECK_THAT(comm.topology(), ContainsSubstring("node "));
}

// Last: their communicators stay broken.
TEST_CASE("a rank that does not come for a subgroup is named") {
  if (world_size() == 1) return;
  Communicator comm(MPI_COMM_WORLD);
  set_timeout(comm, 1);
  const int last = comm.size() - 1;
  std::vector<int> list(static_cast<std::size_t>(comm.size()));
  std::iota(list.rbegin(), list.rend(), 0);
  if (comm.rank() != last)
    CHECK_THAT(error_of(WEIR_ERR_TIMEOUT, [&] { static_cast<void>(comm.subgroup(list)); }),
               ContainsSubstring("subgroup: rank 0 waited") && ContainsSubstring("s for rank " + std::to_string(last)));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("a peer that never answers ends in a timeout on every survivor") {
  if (world_size() == 1) return;
  const bool shares = GENERATE(false, true);
  Communicator comm(MPI_COMM_WORLD);
  if (shares && (comm.state()->topology.node_count() > 1 || access("/dev/shm", W_OK) != 0)) {
    if (comm.rank() == 0) std::printf("skipped: a peer that never answers in shared memory: these ranks share none\n");
    return;
  }
  AllreducePlan plan(comm,
                     {.count = 100000, .algorithm_parameters = shares ? "schedule=shared" : "schedule=direct", .name = "layer7"});
  std::vector<float> gradient = make_input<float>(Input::heavy_tailed, 100000, comm.rank(), comm.size(), 0);
  plan.run(gradient);
  set_timeout(comm, 1);
  if (comm.rank() != comm.size() - 1) {
    const double begin = MPI_Wtime();
    const std::string text = error_of(WEIR_ERR_TIMEOUT, [&] {
      for (int t = 0; t < 3; ++t) plan.run(gradient);
    });
    CHECK(MPI_Wtime() - begin < 20);
    CHECK_THAT(text, ContainsSubstring("layer7") && ContainsSubstring(shares ? "in shared memory" : "awaits ["));
    CHECK_THAT(error_of(WEIR_ERR_STATE, [&] { plan.run(gradient); }), ContainsSubstring("cannot run again"));
  }
  // The silent rank is alive but makes no call. All ranks leave together, after the deadline.
  if (comm.rank() == comm.size() - 1) sleep(2);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace weir::test
