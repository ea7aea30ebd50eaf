// Outlines and indices as bytes that travel between ranks: CBOR.
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {
namespace {

using Json = nlohmann::json;

Json from(const Values& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) std::visit([&, &key = name](const auto& x) { json[key] = x; }, value);
  return json;
}
Values values_of(const Json& json) {
  Values values;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string())
      values[name] = value.get<std::string>();
    else if (value.is_number_float())
      values[name] = value.get<double>();
    else
      values[name] = value.get<std::int64_t>();
  }
  return values;
}

Json from(const Region& r) { return {r.whole_rows, r.whole_columns, r.first_row, r.rows, r.first_column, r.columns}; }
Region region_of(const Json& j) {
  return {j.at(0).get<std::int64_t>(), j.at(1).get<std::int64_t>(), j.at(2).get<std::int64_t>(),
          j.at(3).get<std::int64_t>(), j.at(4).get<std::int64_t>(), j.at(5).get<std::int64_t>()};
}

Json from(const Dataset& d) {
  Json pieces = Json::array(), chunks = Json::array();
  for (const Piece& piece : d.pieces) pieces.push_back({piece.count, from(piece.region)});
  for (const Chunk& chunk : d.chunks) chunks.push_back({chunk.address, chunk.bytes, chunk.checksum});
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(d.values.data());
  return {{"name", d.name},
          {"type", static_cast<int>(d.type)},
          {"share", static_cast<int>(d.share)},
          {"chunked", d.chunked},
          {"chunk_elements", d.chunk_elements},
          {"pieces", std::move(pieces)},
          {"chunks", std::move(chunks)},
          {"values", Json::binary({bytes, bytes + d.values.size()})}};
}
Dataset dataset_of(const Json& json) {
  Dataset d;
  json.at("name").get_to(d.name);
  d.type = static_cast<StateType>(json.at("type").get<int>());
  d.share = static_cast<Share>(json.at("share").get<int>());
  json.at("chunked").get_to(d.chunked);
  json.at("chunk_elements").get_to(d.chunk_elements);
  for (const Json& piece : json.at("pieces")) d.pieces.push_back({piece.at(0).get<std::int64_t>(), region_of(piece.at(1))});
  for (const Json& chunk : json.at("chunks"))
    d.chunks.push_back({chunk.at(0).get<std::int64_t>(), chunk.at(1).get<std::int64_t>(), chunk.at(2).get<std::uint64_t>()});
  for (const std::uint8_t byte : json.at("values").get_binary()) d.values.push_back(std::byte{byte});
  return d;
}

}  // namespace

std::vector<std::uint8_t> encode(const Outline& outline) {
  Json all = Json::array();
  for (const OutlinedSubject& subject : outline) {
    Json fields = Json::array();
    for (const OutlinedField& field : subject.fields)
      fields.push_back({field.visit.name, static_cast<int>(field.visit.type), field.visit.count,
                        static_cast<int>(field.visit.placement.share), from(field.visit.placement.region), field.array});
    all.push_back({static_cast<int>(subject.kind), subject.name, from(subject.about), std::move(fields)});
  }
  return Json::to_cbor(all);
}

Outline decode_outline(std::span<const std::uint8_t> bytes) {
  Outline outline;
  for (const Json& json : Json::from_cbor(bytes.begin(), bytes.end())) {
    OutlinedSubject& subject = outline.emplace_back();
    subject.kind = static_cast<Kind>(json.at(0).get<int>());
    json.at(1).get_to(subject.name);
    subject.about = values_of(json.at(2));
    for (const Json& f : json.at(3))
      subject.fields.push_back({{f.at(0).get<std::string>(),
                                 static_cast<StateType>(f.at(1).get<int>()),
                                 f.at(2).get<std::int64_t>(),
                                 {static_cast<Share>(f.at(3).get<int>()), region_of(f.at(4))}},
                                f.at(5).get<bool>(),
                                {}});
  }
  return outline;
}

std::vector<std::uint8_t> encode(const Index& index) {
  Json subjects = Json::array();
  for (const Subject& subject : index.subjects) {
    Json datasets = Json::array();
    for (const Dataset& dataset : subject.datasets) datasets.push_back(from(dataset));
    subjects.push_back({static_cast<int>(subject.kind), subject.name, from(subject.about), std::move(datasets)});
  }
  return Json::to_cbor({{"step", index.step},
                        {"compression", index.compression},
                        {"run", index.run},
                        {"written", index.written},
                        {"weir", index.weir},
                        {"nodes", index.nodes},
                        {"switches", index.switches},
                        {"values", from(index.values)},
                        {"subjects", std::move(subjects)}});
}

Index decode_index(std::span<const std::uint8_t> bytes) {
  const Json json = Json::from_cbor(bytes.begin(), bytes.end());
  Index index;
  json.at("step").get_to(index.step);
  json.at("compression").get_to(index.compression);
  json.at("run").get_to(index.run);
  json.at("written").get_to(index.written);
  json.at("weir").get_to(index.weir);
  json.at("nodes").get_to(index.nodes);
  json.at("switches").get_to(index.switches);
  index.values = values_of(json.at("values"));
  for (const Json& subject : json.at("subjects")) {
    index.subjects.push_back(
        {static_cast<Kind>(subject.at(0).get<int>()), subject.at(1).get<std::string>(), values_of(subject.at(2)), {}});
    for (const Json& dataset : subject.at(3)) index.subjects.back().datasets.push_back(dataset_of(dataset));
  }
  return index;
}

}  // namespace weir::checkpoint
