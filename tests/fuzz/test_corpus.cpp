// test_corpus.cpp: every file of the corpus, replayed with any compiler.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/wire_input.hpp"
#include "support/catch.hpp"

TEST_CASE("the codec keeps its contract on the fuzzer's corpus", "[fuzz]") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_FUZZ_CORPUS "/wire")) {
    INFO(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    REQUIRE(weir::fuzz::wire_contract_holds(bytes));
    ++files;
  }
  REQUIRE(files > 0);
}
