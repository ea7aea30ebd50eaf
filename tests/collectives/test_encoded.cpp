// A plan's contribution as bytes. The bytes of P plans, decoded and summed in rank order, equal the update that their runs would
// have delivered, and the residuals are equal, too. Damaged or impossible bytes are refused with a text that says why.
#include <cstring>
#include <numeric>
#include <tuple>

#include "compress/compressor.hpp"
#include "plan/encoded.hpp"
#include "plan/plan_config.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

using compress::Carriage;
using compress::CompressorRow;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t n = 6007;
constexpr int iterations = 4;

std::vector<float> gradient_of(Input input, std::int64_t count, int rank, int ranks, int t) {
  return make_input<float>(input, count, rank, ranks, t);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

Bytes encoded_by(AllreducePlan& plan, std::span<const float> gradient) {
  Bytes bytes(static_cast<std::size_t>(plan.encoded_bytes()));
  bytes.resize(static_cast<std::size_t>(plan.encode(gradient, bytes)));
  return bytes;
}

/// Decodes a copy of the bytes at an odd address.
std::vector<float> decoded_from(const Bytes& bytes, std::int64_t count) {
  Bytes shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  std::vector<float> values(static_cast<std::size_t>(count), 3);
  weir::decode(std::span(shifted).subspan(1), values);
  return values;
}

bool qualifies(const CompressorRow& row) { return row.carriage != Carriage::linear; }

AllreduceConfig config_of(const CompressorRow& row, const std::string& parameters = "", std::int64_t count = n) {
  return {.count = count,
          .density = 0.02,
          .algorithm = row.carriage == Carriage::sparse ? "topk_allgather" : "packed_allgather",
          .compressor = std::string(row.name),
          .compressor_parameters = parameters,
          .average = false};
}

/// Runs plans, and lets other plans encode. On up to 3 ranks, a tree over the ranks sums in their order, too.
void check(const AllreduceConfig& config, int ranks, Input input = Input::heavy_tailed) {
  INFO(config.compressor << " (" << config.compressor_parameters << ") on " << ranks << " ranks, " << input_name(input) << ", n "
                         << config.count);
  const auto p = static_cast<std::size_t>(ranks);
  std::vector<std::vector<Bytes>> sent(p, std::vector<Bytes>(iterations));
  std::vector<std::vector<std::vector<float>>> delivered(p), residual = delivered, kept = delivered;
  run_ranks(ranks, [&](Communicator& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    AllreducePlan runs(comm, config), encodes(comm, config), resumed(comm, config);
    for (int t = 0; t < iterations; ++t) {
      std::vector<float> g = gradient_of(input, config.count, comm.rank(), ranks, t);
      AllreducePlan& plan = t < iterations / 2 ? encodes : resumed;
      if (t == iterations / 2) {
        Bytes state(static_cast<std::size_t>(encodes.state_bytes()));
        encodes.save_state(state);
        resumed.restore_state(state);
      }
      sent[me][static_cast<std::size_t>(t)] = encoded_by(plan, g);
      kept[me].emplace_back(plan.residual<float>().begin(), plan.residual<float>().end());
      if (plan.statistics().iteration != t + 1) throw std::runtime_error("another iteration");
      runs.run(g);
      delivered[me].push_back(g);
      residual[me].emplace_back(runs.residual<float>().begin(), runs.residual<float>().end());
    }
  });
  const std::unique_ptr<PackedCodec> codec = [&]() -> std::unique_ptr<PackedCodec> {
    const compress::Compressor compressor = compressor_of(config);
    return compressor.row->codec != nullptr ? compressor.row->codec(compressor.parameters) : nullptr;
  }();
  const bool transformed = config.compressor_parameters.find("dct") != std::string::npos;
  for (std::size_t t = 0; t < iterations; ++t) {
    std::vector<float> sum(static_cast<std::size_t>(config.count));
    for (std::size_t r = 0; r < p; ++r) {
      const EncodedInfo info = inspect(sent[r][t]);
      REQUIRE(info.version == 1);
      REQUIRE(info.count == config.count);
      REQUIRE(info.bytes == std::ssize(sent[r][t]));
      REQUIRE(info.compressor == config.compressor);
      const std::vector<float> values = decoded_from(sent[r][t], config.count);
      std::vector<float> added = sum;
      decode(sent[r][t], added, true);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = r == 0 ? values[i] : sum[i] + values[i];
      REQUIRE(std::equal(sum.begin(), sum.end(), added.begin()));
      REQUIRE(same_bits(kept[r][t], residual[r][t]));
    }
    if (codec && codec->votes()) codec->finish(sum.data(), config.count);
    if (codec && codec->counts_senders()) continue;  // a mean over senders needs their number
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float right = delivered[0][t][i];
      if (transformed ? std::abs(sum[i] - right) > 1e-4F * (1 + std::abs(right)) : sum[i] != right)
        FAIL("iteration " << t << ", element " << i << ": " << sum[i] << " is not " << right);
    }
  }
}

std::vector<std::string> parameters_of(const CompressorRow& row) {
  std::vector<std::string> list = {""};
  for (const ParameterInfo& info : row.parameters) {
    for (std::size_t word = 0; word < info.words.size(); ++word) {
      if (static_cast<double>(word) != info.value) list.push_back(fmt::format("{}={}", info.name, info.words[word]));
    }
  }
  return list;
}

/// Returns the text of the error that `call` throws.
template <class Call>
std::string refusal(Call&& call, weir_status status = WEIR_ERR_ARGUMENT) {
  try {
    call();
  } catch (const Error& error) {
    return error.status() == status ? error.what() : fmt::format("status {}: {}", static_cast<int>(error.status()), error.what());
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  WARN("'" << text << "' does not have '" << part << "'");
  return false;
}

Bytes one_message(const AllreduceConfig& config, Input input = Input::heavy_tailed) {
  Bytes bytes;
  run_ranks(1, [&](Communicator& comm) {
    AllreducePlan plan(comm, config);
    bytes = encoded_by(plan, gradient_of(input, config.count, 0, 1, 0));
  });
  return bytes;
}

/// Returns the bytes with a correct checksum.
Bytes sealed(Bytes bytes) {
  std::uint32_t begin = 0;
  std::int64_t count = 0;
  encoded::Payload payload;
  std::memcpy(&begin, &bytes[12], sizeof begin);
  std::memcpy(&count, &bytes[16], sizeof count);
  std::memcpy(&payload.entries, &bytes[32], sizeof payload.entries);
  payload.form = static_cast<encoded::Form>(bytes[40]);
  payload.wire.format = static_cast<WireFormat>(bytes[41]);
  payload.wire.values = static_cast<WireValues>(bytes[42]);
  payload.bytes = std::ssize(bytes) - begin - 8;
  std::uint16_t lengths[2];
  std::memcpy(lengths, &bytes[44], sizeof lengths);
  const std::string texts(reinterpret_cast<const char*>(&bytes[48]), std::size_t{lengths[0]} + lengths[1]);
  const std::string_view name = std::string_view(texts).substr(0, lengths[0]),
                         parameters = std::string_view(texts).substr(lengths[0]);
  encoded::seal(bytes.data(), count, payload, name, parameters);
  return bytes;
}

}  // namespace

TEST_CASE("what ranks encode adds up to what their runs deliver, and they remember the same", "[encoded]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    if (!qualifies(*row)) continue;
    for (const int ranks : {1, 2, 3}) check(config_of(*row), ranks);
    for (const std::string& parameters : parameters_of(*row)) check(config_of(*row, parameters), 3);
    for (const Input input : all_inputs()) check(config_of(*row), 2, input);
    for (const std::int64_t count : {0, 1, 2, 33, 257}) check(config_of(*row, "", count), 2);
    for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
      AllreduceConfig rounded = config_of(*row);
      rounded.wire_values = values;
      if (row->carriage == Carriage::sparse) check(rounded, 3);
    }
    if (row->why_no_feedback != nullptr) continue;
    AllreduceConfig decaying = config_of(*row);
    decaying.error_feedback = Feedback::residual;
    decaying.feedback_decay = 0.9;
    decaying.feedback_gain = 0.5;
    check(decaying, 2);
    AllreduceConfig forgetting = config_of(*row);
    forgetting.error_feedback = Feedback::none;
    check(forgetting, 2);
  }
}

TEST_CASE("schedules of density move on, and thresholds are reused", "[encoded]") {
  AllreduceConfig config = config_of(compress::top_k_row);
  config.warmup_iterations = 3;
  check(config, 3);
  for (const std::string threshold : {"reuse", "mstopk", "sampled", "gaussian", "sidco"}) {
    set_threshold(config, threshold);
    check(config, 3);
  }
}

TEST_CASE("ranks that have encoded unequally often run together", "[encoded]") {
  for (const char* algorithm : {"oktopk", "topk_dsa", "gtopk"}) {
    for (const std::string threshold : {"exact", "reuse"}) {
      std::vector<std::vector<float>> updates(4);
      std::vector<std::vector<std::int64_t>> k(4);
      run_ranks(4, [&](Communicator& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        AllreducePlan plan(comm, {.count = n,
                                  .density = 0.01,
                                  .algorithm = algorithm,
                                  .algorithm_parameters = parameters_for(algorithm, "boundary_period=3"),
                                  .threshold = threshold,
                                  .threshold_parameters = period_of(threshold, 3),
                                  .warmup_iterations = 6});
        for (int t = 0; t < 12; ++t) {
          std::vector<float> g = gradient_of(Input::heavy_tailed, n, comm.rank(), 4, t);
          for (int e = 0; e < comm.rank(); ++e) (void)encoded_by(plan, g);
          plan.run(std::span<float>(g));
          k[me].push_back(plan.statistics().k);
          updates[me].insert(updates[me].end(), g.begin(), g.end());
        }
      });
      INFO(algorithm);
      for (const auto& update : updates) REQUIRE(same_bits(update, updates[0]));
      for (const auto& of_rank : k) REQUIRE(of_rank == k[0]);
      REQUIRE(k[0].front() > k[0].back());
    }
  }
}

TEST_CASE("NaN and infinity in what is encoded", "[encoded]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    if (!qualifies(*row)) continue;
    INFO(row->name);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      run_ranks(2, [&](Communicator& comm) {
        for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) {
          AllreduceConfig config = config_of(*row, "", 400);
          config.non_finite = policy;
          AllreducePlan plan(comm, config);
          std::vector<float> g = gradient_of(Input::heavy_tailed, 400, comm.rank(), 2, 0);
          (void)encoded_by(plan, g);
          const std::vector<float> before(plan.residual<float>().begin(), plan.residual<float>().end());
          g[17] = bad;
          if (policy == NonFinite::error) {
            if (!contains(refusal([&] { (void)encoded_by(plan, g); }, WEIR_ERR_NON_FINITE),
                          fmt::format("rank {} holds NaN", comm.rank())))
              throw std::runtime_error("no error");
          } else {
            const Bytes bytes = encoded_by(plan, g);
            const std::vector<float> values = decoded_from(bytes, 400);
            const bool skipped = values == std::vector<float>(400) && inspect(bytes).entries == 0 && plan.statistics().skipped;
            if (skipped != (policy == NonFinite::skip)) throw std::runtime_error("skipped, or not");
          }
          if (policy == NonFinite::propagate) continue;
          const std::span<const float> after = plan.residual<float>();
          for (std::size_t i = 0; i < before.size(); ++i) {
            if (std::abs(after[i] - before[i]) > 1e-5F * (std::abs(before[i]) + (i == 17 ? 0 : std::abs(g[i])) + 1))
              throw std::runtime_error("another residual");
          }
        }
      });
    }
  }
}

TEST_CASE("encoding allocates nothing after its first call", "[encoded]") {
  run_ranks(1, [&](Communicator& comm) {
    for (const CompressorRow* row : compress::compressor_registry()) {
      if (!qualifies(*row)) continue;
      AllreducePlan plan(comm, config_of(*row));
      Bytes bytes(static_cast<std::size_t>(plan.encoded_bytes()) + 1);
      std::vector<std::vector<float>> gradients;
      for (int t = 0; t < 8; ++t) gradients.push_back(gradient_of(Input::heavy_tailed, n, 0, 1, t));
      std::int64_t before = 0;
      for (std::size_t t = 0; t < 8; ++t) {
        if (t == 2) before = allocations_of_this_thread();
        plan.encode(gradients[t], std::span(bytes).subspan(t % 2));
      }
      const std::int64_t allocations = allocations_of_this_thread() - before;
      if (allocations > 0) throw std::runtime_error(fmt::format("{} allocates {} times", row->name, allocations));
    }
  });
}

TEST_CASE("plans that cannot encode say so", "[encoded]") {
  const auto refuses = [](const AllreduceConfig& config, const std::string& text, const std::string& machine = "") {
    run_ranks(4,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, config);
                std::vector<float> g(static_cast<std::size_t>(config.count));
                Bytes room(4096);
                if (!contains(refusal([&] { (void)plan.encoded_bytes(); }, WEIR_ERR_STATE), text) ||
                    !contains(refusal([&] { plan.encode(g, room); }, WEIR_ERR_STATE), text))
                  throw std::runtime_error("no error: " + text);
              },
              {.machine = machine});
  };
  refuses({.count = 9, .algorithm = "dense_ring"}, "plan 'allreduce' cannot encode: its compressor has dense values summed");
  refuses({.count = 900, .algorithm = "dense_ring", .compressor = "power_sgd"}, "name one that is sparse or packed");
  refuses({.count = 9, .algorithm = "hi_oktopk"}, "its algorithm sums within nodes first", "node:2 rank:2");
  refuses({.count = 9, .type = DataType::float64}, "its type is float64; encode takes float32");
  refuses({.count = 9, .error_feedback = Feedback::ef21}, "error_feedback is ef21");
  refuses({.count = 9, .dense_iterations = 1}, "dense_iterations must be 0");
  refuses({.count = 900, .algorithm = "auto_sparse", .algorithm_parameters = "schedule=direct", .trial_iterations = 3},
          "candidates still take turns");
}

TEST_CASE("calls of encode that are wrong change nothing", "[encoded]") {
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, config_of(compress::top_k_row, "", 500));
    std::vector<float> g = gradient_of(Input::heavy_tailed, 500, comm.rank(), 2, 0);
    Bytes room(static_cast<std::size_t>(plan.encoded_bytes()));
    const auto expect = [](bool holds, const char* what) {
      if (!holds) throw std::runtime_error(what);
    };
    expect(contains(refusal([&] { plan.encode(std::span(g).first(499), room); }),
                    "gave a gradient of 499 elements; the plan takes 500"),
           "another count");
    expect(contains(refusal([&] { plan.encode(g, std::span(room).first(room.size() - 1)); }), "encode needs encoded_bytes()"),
           "little room");
    Operation operation = plan.start(g);
    if (comm.size() > 1 && !operation.test())
      expect(contains(refusal([&] { plan.encode(g, room); }, WEIR_ERR_BUSY), "is running"), "in flight");
    operation.wait();
    expect(plan.statistics().iteration == 1, "one run");
  });
}

TEST_CASE("every flipped bit, every truncation is noticed", "[encoded]") {
  for (const CompressorRow* row : {&compress::top_k_row, &compress::qsgd_row, &compress::chunked_topk_row}) {
    const Bytes whole = one_message(config_of(*row, "", 300));
    std::vector<float> values(300, 5.0F);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      Bytes flipped = whole;
      flipped[bit / 8] ^= std::byte{1} << bit % 8;
      if (refusal([&] { decode(flipped, values, true); }).find("encoded gradient: ") != 0) FAIL("bit " << bit);
      if (refusal([&] { (void)inspect(flipped); }).find("encoded gradient: ") != 0) FAIL("bit " << bit);
    }
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      if (!contains(refusal([&] { decode(part, values, true); }), "truncated")) FAIL("first " << size << " bytes");
    }
    REQUIRE(values == std::vector<float>(300, 5.0F));
  }
}

TEST_CASE("what is no encoded gradient of the right kind is refused by what is wrong with it", "[encoded]") {
  const Bytes sparse = one_message(config_of(compress::top_k_row, "", 300)),
              packed = one_message(config_of(compress::qsgd_row, "", 300));
  std::vector<float> values(300);
  const auto says = [&](Bytes bytes, const std::string& text) { REQUIRE(contains(refusal([&] { decode(bytes, values); }), text)); };
  const auto with = [](Bytes bytes, std::size_t at, int value) {
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  says({}, "0 bytes are too few");
  says(Bytes(100), "does not begin with WEIRCODE");
  says(with(sparse, 8, 2), "it is of version 2: this library reads version 1");
  Bytes longer = sparse;
  longer.push_back({});
  says(longer, "give exactly those that encode has written");
  says(sealed(with(sparse, 48, 'x')), "there is no compressor 'xop_k': known are");
  says(sealed(with(packed, 48 + 4, 'x')), "qsgd has no parameter 'xevels'");
  says(sealed(with(packed, 40, 2)), "does not make a payload of kind 2");
  says(sealed(with(packed, 40, 3)), "its payload is of kind 3");
  says(sealed(with(sparse, 41, 9)), "wire format 9");
  says(sealed(with(sparse, 32, 7)), "which is not what 7 entries of 300 elements take");
  for (const int length : {300, 60000}) {  // lengths that match each other, but not the bytes
    Bytes lying = sparse;
    const std::int64_t begin = (48 + length + 7) / 8 * 8, payload = std::ssize(lying) - begin - 8;
    for (const auto& [at, size, value] :
         {std::tuple{12, 4, begin}, {24, 8, payload}, {44, 2, std::int64_t{length}}, {46, 2, std::int64_t{0}}})
      std::memcpy(&lying[static_cast<std::size_t>(at)], &value, static_cast<std::size_t>(size));
    const std::uint64_t sum = encoded::right_checksum(lying.data(), std::ssize(lying));
    std::memcpy(&lying[lying.size() - 8], &sum, sizeof sum);
    const std::string text = fmt::format("and its header alone {}", begin);
    says(lying, text);
    REQUIRE(contains(refusal([&] { (void)inspect(lying); }), text));
  }
  Bytes cut = packed;
  cut.resize(cut.size() - 9);
  says(sealed(cut), "which qsgd does not make of 300 elements");
  Bytes chunked = one_message(config_of(compress::chunked_topk_row, "", 300));
  std::uint32_t begin = 0;
  std::memcpy(&begin, &chunked[12], sizeof begin);
  std::fill(chunked.begin() + begin, chunked.end() - 8, std::byte{0xff});
  says(sealed(chunked), "the payload of compressor chunked_topk cannot be read");
  REQUIRE(
      contains(refusal([&] { decode(sparse, std::span(values).first(299)); }), "it is of 300 elements, and there is room for 299"));
}

}  // namespace weir::test
