#include "cli/trace_dumps.hpp"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "base/json.hpp"

namespace weir::cli {
namespace {

RecordedCall call_of(const JsonView& entry) {
  const JsonView more = entry.at("weir");
  RecordedCall call;
  entry.at("pg_id").to(call.tag);
  more.at("name").to(call.name);
  more.at("algorithm").to(call.algorithm);
  more.at("type").to(call.type);
  more.at("run").to(call.run);
  entry.at("input_sizes").at(0).at(0).to(call.count);
  more.at("state").to(call.state);
  more.at("stage").to(call.stage);
  more.at("status").to(call.status);
  entry.at("time_created_ns").to(call.created_ns);
  entry.at("timeout_ms").to(call.timeout_ms);
  more.at("awaited_rank").to(call.awaited_rank);
  more.at("awaited_ms").to(call.awaited_ms);
  return call;
}

}  // namespace

RecordedRank parse_dump(std::string_view text) {
  const std::optional<JsonValue> whole = JsonValue::parse_if_whole(text);
  if (!whole) throw std::runtime_error(text.empty() ? "it is empty" : "it is not JSON: cut short, or not written by Weir");
  try {
    const JsonView dump = whole->view();
    const JsonView more = dump.at("weir");
    RecordedRank rank;
    more.at("version").to(rank.version);
    more.at("run").to(rank.run);
    more.at("host").to(rank.host);
    more.at("communicator").to(rank.communicator);
    more.at("rank").to(rank.rank);
    more.at("ranks").to(rank.ranks);
    more.at("unix_ns").to(rank.unix_ns);
    more.at("why").to(rank.why);
    for (const JsonView& entry : dump.at("entries").elements()) rank.calls.push_back(call_of(entry));
    return rank;
  } catch (const JsonError& error) {
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
