// Encodes outlines and indices as CBOR, to send them between ranks.
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {
namespace {

JsonValue from(const Values& values) {
  JsonValue json = JsonValue::object();
  for (const auto& [name, value] : values) std::visit([&, &key = name](const auto& x) { json.set(key, x); }, value);
  return json;
}
Values values_of(JsonView json) {
  Values values;
  for (const auto& [name, value] : json.members()) {
    if (value.is_string())
      values[name] = value.string();
    else if (value.is_float())
      values[name] = value.number();
    else
      values[name] = value.integer();
  }
  return values;
}

/// Converts an enumerator from its number.
template <class Enum>
void enumerator(JsonView json, Enum& value) {
  int number = 0;
  json.to(number);
  value = static_cast<Enum>(number);
}

JsonValue from(const Region& r) {
  return std::vector<std::int64_t>{r.whole_rows, r.whole_columns, r.first_row, r.rows, r.first_column, r.columns};
}
Region region_of(JsonView j) {
  return {j.at(0).integer(), j.at(1).integer(), j.at(2).integer(), j.at(3).integer(), j.at(4).integer(), j.at(5).integer()};
}

/// Names must ascend, here and below.
JsonValue from(const Dataset& d) {
  JsonValue pieces = JsonValue::array(), chunks = JsonValue::array();
  for (const Piece& piece : d.pieces) pieces.push_back(JsonValue::array({piece.count, from(piece.region)}));
  for (const Chunk& chunk : d.chunks) chunks.push_back(JsonValue::array({chunk.address, chunk.bytes, chunk.checksum}));
  JsonValue json;
  json.set("chunk_elements", d.chunk_elements);
  json.set("chunked", d.chunked);
  json.set("chunks", std::move(chunks));
  json.set("name", d.name);
  json.set("pieces", std::move(pieces));
  json.set("share", static_cast<int>(d.share));
  json.set("type", static_cast<int>(d.type));
  json.set("values", JsonValue::bytes(d.values));
  return json;
}
Dataset dataset_of(JsonView json) {
  Dataset d;
  json.at("name").to(d.name);
  enumerator(json.at("type"), d.type);
  enumerator(json.at("share"), d.share);
  json.at("chunked").to(d.chunked);
  json.at("chunk_elements").to(d.chunk_elements);
  for (const JsonView piece : json.at("pieces").elements()) d.pieces.push_back({piece.at(0).integer(), region_of(piece.at(1))});
  for (const JsonView chunk : json.at("chunks").elements()) {
    Chunk& c = d.chunks.emplace_back();
    chunk.at(0).to(c.address);
    chunk.at(1).to(c.bytes);
    chunk.at(2).to(c.checksum);
  }
  const std::span<const std::byte> values = json.at("values").bytes();
  d.values.assign(values.begin(), values.end());
  return d;
}

}  // namespace

std::vector<std::uint8_t> encode(const Outline& outline) {
  JsonValue all = JsonValue::array();
  for (const OutlinedSubject& subject : outline) {
    JsonValue fields = JsonValue::array();
    for (const OutlinedField& field : subject.fields)
      fields.push_back(
          JsonValue::array({field.visit.name, static_cast<int>(field.visit.type), field.visit.count,
                            static_cast<int>(field.visit.placement.share), from(field.visit.placement.region), field.array}));
    all.push_back(JsonValue::array({static_cast<int>(subject.kind), subject.name, from(subject.about), std::move(fields)}));
  }
  return all.cbor();
}

Outline decode_outline(std::span<const std::uint8_t> bytes) {
  Outline outline;
  const JsonValue all = JsonValue::from_cbor(bytes);
  for (const JsonView json : all.view().elements()) {
    OutlinedSubject& subject = outline.emplace_back();
    enumerator(json.at(0), subject.kind);
    json.at(1).to(subject.name);
    subject.about = values_of(json.at(2));
    for (const JsonView f : json.at(3).elements()) {
      OutlinedField& field = subject.fields.emplace_back();
      f.at(0).to(field.visit.name);
      enumerator(f.at(1), field.visit.type);
      f.at(2).to(field.visit.count);
      enumerator(f.at(3), field.visit.placement.share);
      field.visit.placement.region = region_of(f.at(4));
      f.at(5).to(field.array);
    }
  }
  return outline;
}

std::vector<std::uint8_t> encode(const Index& index) {
  JsonValue subjects = JsonValue::array();
  for (const Subject& subject : index.subjects) {
    JsonValue datasets = JsonValue::array();
    for (const Dataset& dataset : subject.datasets) datasets.push_back(from(dataset));
    subjects.push_back(JsonValue::array({static_cast<int>(subject.kind), subject.name, from(subject.about), std::move(datasets)}));
  }
  JsonValue json;
  json.set("compression", index.compression);
  json.set("nodes", index.nodes);
  json.set("run", index.run);
  json.set("step", index.step);
  json.set("subjects", std::move(subjects));
  json.set("switches", index.switches);
  json.set("values", from(index.values));
  json.set("weir", index.weir);
  json.set("written", index.written);
  return json.cbor();
}

Index decode_index(std::span<const std::uint8_t> bytes) {
  const JsonValue whole = JsonValue::from_cbor(bytes);
  const JsonView json = whole.view();
  Index index;
  json.at("step").to(index.step);
  json.at("compression").to(index.compression);
  json.at("run").to(index.run);
  json.at("written").to(index.written);
  json.at("weir").to(index.weir);
  json.at("nodes").to(index.nodes);
  json.at("switches").to(index.switches);
  index.values = values_of(json.at("values"));
  for (const JsonView subject : json.at("subjects").elements()) {
    Subject& s = index.subjects.emplace_back();
    enumerator(subject.at(0), s.kind);
    subject.at(1).to(s.name);
    s.about = values_of(subject.at(2));
    for (const JsonView dataset : subject.at(3).elements()) s.datasets.push_back(dataset_of(dataset));
  }
  return index;
}

}  // namespace weir::checkpoint
