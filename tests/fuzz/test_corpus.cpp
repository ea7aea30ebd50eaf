// test_corpus.cpp: every file of the corpora, replayed with any compiler.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "fuzz/config_input.hpp"
#include "fuzz/encoded_input.hpp"
#include "fuzz/wire_input.hpp"
#include "support/catch.hpp"

namespace {

void replay(const std::string& corpus, const std::function<bool(std::span<const std::uint8_t>)>& contract_holds) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_FUZZ_CORPUS "/" + corpus)) {
    INFO(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    REQUIRE(contract_holds(bytes));
    ++files;
  }
  REQUIRE(files > 0);
}

}  // namespace

TEST_CASE("the codec keeps its contract on the fuzzer's corpus", "[fuzz]") {
  replay("wire", [](std::span<const std::uint8_t> bytes) { return weir::fuzz::wire_contract_holds(bytes); });
}

TEST_CASE("configurations of the C interface keep theirs", "[fuzz]") { replay("config", weir::fuzz::config_contract_holds); }

TEST_CASE("encoded gradients are refused, or decoded, whatever their bytes are", "[fuzz]") {
  replay("encoded", weir::fuzz::encoded_contract_holds);
}

TEST_CASE("payloads of every compressor that have been tampered with, under a checksum that fits", "[fuzz]") {
  std::uint64_t bits = 1;
  const auto next = [&] { return static_cast<std::uint8_t>((bits = bits * 6364136223846793005 + 1442695040888963407) >> 56); };
  const auto rows = weir::compress::compressor_registry().size();
  for (std::size_t i = 0; i < 400 * rows; ++i) {
    std::vector<std::uint8_t> input(weir::fuzz::encoded_header + next() * std::size_t{1 + i % 3});
    for (std::uint8_t& byte : input) byte = i % 5 == 0 ? static_cast<std::uint8_t>(next() & next() & next()) : next();
    input[0] = static_cast<std::uint8_t>(next() & 6);
    input[1] = static_cast<std::uint8_t>(i % rows);
    input[4] = static_cast<std::uint8_t>(1 + i / rows % 2);
    input[8] &= 3;
    input[10] &= 1;
    INFO("input " << i);
    REQUIRE(weir::fuzz::encoded_contract_holds(input));
  }
}
