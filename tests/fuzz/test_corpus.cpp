// test_corpus.cpp: every file of the corpora, replayed with any compiler.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "fuzz/config_input.hpp"
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
