#include "cli/trace_dumps.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::cli {
namespace {

using Json = nlohmann::json;

RecordedCall call_of(const Json& entry) {
  const Json& more = entry.at("weir");
  RecordedCall call;
  call.tag = entry.at("pg_id");
  call.name = more.at("name");
  call.algorithm = more.at("algorithm");
  call.type = more.at("type");
  call.run = more.at("run");
  call.count = entry.at("input_sizes").at(0).at(0);
  call.state = more.at("state");
  call.stage = more.at("stage");
  call.status = more.at("status");
  call.created_ns = entry.at("time_created_ns");
  call.timeout_ms = entry.at("timeout_ms");
  call.awaited_rank = more.at("awaited_rank");
  call.awaited_ms = more.at("awaited_ms");
  return call;
}

}  // namespace

RecordedRank parse_dump(std::string_view text) {
  const Json dump = Json::parse(text, nullptr, false);
  if (dump.is_discarded())
    throw std::runtime_error(text.empty() ? "it is empty" : "it is not JSON: cut short, or not written by Weir");
  try {
    const Json& more = dump.at("weir");
    RecordedRank rank;
    rank.version = more.at("version");
    rank.run = more.at("run");
    rank.host = more.at("host");
    rank.communicator = more.at("communicator");
    rank.rank = more.at("rank");
    rank.ranks = more.at("ranks");
    rank.unix_ns = more.at("unix_ns");
    rank.why = more.at("why");
    for (const Json& entry : dump.at("entries")) rank.calls.push_back(call_of(entry));
    return rank;
  } catch (const Json::exception& error) {
    throw std::runtime_error(fmt::format("it is not a dump that this version of Weir has written: {}", error.what()));
  }
}

Dumps read_dumps(const std::vector<RankFile>& files, Remarks& remarks) {
  Dumps dumps;
  std::vector<RecordedRank> all;
  for (const RankFile& file : files) {
    std::ifstream in(file.path);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    try {
      all.push_back(parse_dump(text));
      all.back().path = file.path;
    } catch (const std::runtime_error& error) {
      remarks.push_back(fmt::format("{} cannot be read: {}", file.path.filename().string(), error.what()));
      dumps.unreadable.push_back(file.rank);
    }
  }
  if (all.empty()) throw std::runtime_error(fmt::format("none of the dumps can be read; {}", remarks.back()));
  dumps.ranks = of_newest_run(all, remarks);
  return dumps;
}

}  // namespace weir::cli
