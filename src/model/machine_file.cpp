// Reads and writes machines as JSON.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/regular_file.hpp"
#include "model/machine.hpp"

namespace weir {
namespace {

constexpr double least_figure = 1e-18, most_figure = 1e18;  // with such figures no cost is infinite or NaN
constexpr int deepest = 8;                                  // a machine file needs 3; printing a value recurses

template <class Object>
struct Field {
  const char* name;
  double Object::*member;
  bool may_be_zero;
  const char* unit;
};

constexpr std::array link_fields = {
    Field<Link>{"latency", &Link::latency, true, "seconds"},      Field<Link>{"overhead", &Link::overhead, true, "seconds"},
    Field<Link>{"bandwidth", &Link::bandwidth, false, "bytes/s"}, Field<Link>{"exchange", &Link::exchange, false, "bytes/s"},
    Field<Link>{"shared", &Link::shared, false, "bytes/s"},
};
constexpr std::array rate_fields = {
    Field<Rates>{"add", &Rates::add, false, "bytes/s"},           Field<Rates>{"select", &Rates::select, false, "elements/s"},
    Field<Rates>{"cut", &Rates::cut, false, "entries/s"},         Field<Rates>{"fill", &Rates::fill, false, "elements/s"},
    Field<Rates>{"scatter", &Rates::scatter, false, "entries/s"}, Field<Rates>{"merge", &Rates::merge, false, "entries/s"},
    Field<Rates>{"encode", &Rates::encode, false, "entries/s"},   Field<Rates>{"decode", &Rates::decode, false, "entries/s"},
};
constexpr std::array machine_fields = {
    Field<Machine>{"mpi_allreduce_factor", &Machine::mpi_allreduce_factor, false, "relative to dense_ring"},
};

constexpr std::array text_fields = {
    std::pair{"host", &Provenance::host}, std::pair{"date", &Provenance::date},       std::pair{"mpi", &Provenance::mpi},
    std::pair{"weir", &Provenance::weir}, std::pair{"command", &Provenance::command},
};
constexpr std::array count_fields = {std::pair{"ranks", &Provenance::ranks}, std::pair{"nodes", &Provenance::nodes}};

std::string level_names() {
  std::string names;
  for (int level = 1; level < level_count; ++level)
    names += fmt::format("{}{}", level == 1 ? "" : ", ", level_name(static_cast<Level>(level)));
  return names;
}

/// One JSON object of the file, with what its error texts need.
class Reader {
 public:
  Reader(JsonView object, std::string_view origin, std::string path) : object_(object), origin_(origin), path_(std::move(path)) {
    if (!object.is_object()) complain("", "is {}: it must be an object", object.dump());
  }

  [[nodiscard]] JsonView member(const char* name, std::string_view wanted) const {
    const auto found = object_.find(name);
    if (!found) complain(name, "is missing: it must be {}", wanted);
    return *found;
  }
  [[nodiscard]] Reader child(const char* name, std::string_view wanted) const {
    return Reader(member(name, wanted), origin_, full(name));
  }

  template <class Object, std::size_t size>
  void numbers(const std::array<Field<Object>, size>& fields, Object& out) const {
    for (const Field<Object>& field : fields) {
      const std::string wanted =
          fmt::format("{}a number from {:g} to {:g} ({})", field.may_be_zero ? "0 or " : "", least_figure, most_figure, field.unit);
      const JsonView value = member(field.name, wanted);
      if (!value.is_number()) complain(field.name, "is {}: it must be {}", value.dump(), wanted);
      const auto number = value.number();
      const bool in_range = number >= least_figure && number <= most_figure;
      if (!in_range && !(number == 0 && field.may_be_zero)) complain(field.name, "is {}: it must be {}", number, wanted);
      out.*field.member = number;
    }
  }
  void text(const char* name, std::string& out) const {
    const JsonView value = member(name, "a text");
    if (!value.is_string()) complain(name, "is {}: it must be a text", value.dump());
    value.to(out);
  }
  void count(const char* name, int& out) const {
    const JsonView value = member(name, "a whole number");
    if (!value.is_integer() || value.integer() < 0 || value.integer() > (1 << 30))
      complain(name, "is {}: it must be a whole number of at least 0", value.dump());
    value.to(out);
  }

  /// Refuses all other keys: they are typing errors.
  template <class Known>
  void only(Known known) const {
    for (const auto& [name, value] : object_.members()) {
      if (!known(name)) complain(name, "is not known in schema {}: remove it, or correct its name", Machine::schema);
    }
  }
  template <class... Args>
  [[noreturn]] void complain(std::string_view name, fmt::format_string<Args...> what, Args&&... args) const {
    const std::string key = full(name);
    const std::string text = fmt::format(what, std::forward<Args>(args)...);
    fail(WEIR_ERR_ARGUMENT, "machine file '{}': {}{} {}", origin_, key.empty() ? "its content" : "key ", key, text);
  }
  [[nodiscard]] JsonView object() const { return object_; }

 private:
  [[nodiscard]] std::string full(std::string_view name) const {
    if (path_.empty() || name.empty()) return fmt::format("{}{}", path_, name);
    return fmt::format("{}.{}", path_, name);
  }

  JsonView object_;
  std::string_view origin_;
  std::string path_;
};

template <class Fields>
auto among(const Fields& fields) {
  return [&fields](std::string_view name) {
    for (const auto& field : fields) {
      if (name == field.name) return true;
    }
    return false;
  };
}

void read_links(const Reader& levels, Machine& machine) {
  levels.only([](std::string_view name) {
    for (int level = 1; level < level_count; ++level) {
      if (name == level_name(static_cast<Level>(level))) return true;
    }
    return false;
  });
  if (levels.object().members().empty()) levels.complain("", "is empty: it must have at least one of {}", level_names());
  for (int level = 1; level < level_count; ++level) {
    const std::string name(level_name(static_cast<Level>(level)));
    if (!levels.object().find(name.c_str())) continue;
    const Reader reader = levels.child(name.c_str(), "");
    Link link;
    reader.numbers(link_fields, link);
    reader.only(among(link_fields));
    machine.links[static_cast<std::size_t>(level)] = link;
  }
}

void read_provenance(const Reader& reader, Provenance& provenance) {
  for (const auto& [name, member] : text_fields) reader.text(name, provenance.*member);
  for (const auto& [name, member] : count_fields) reader.count(name, provenance.*member);
}

JsonValue parse_json(std::string_view text, std::string_view origin) {
  try {
    return JsonValue::parse(text, deepest);
  } catch (const JsonTooDeep&) {
    fail(WEIR_ERR_ARGUMENT, "machine file '{}' is nested more than {} deep; `weir calibrate` writes a right one", origin, deepest);
  } catch (const JsonError& error) {
    fail(WEIR_ERR_ARGUMENT, "machine file '{}' is not JSON: {}; `weir calibrate` writes a right one", origin, error.what());
  }
}

template <class Object, std::size_t size>
void write_numbers(const std::array<Field<Object>, size>& fields, const Object& in, JsonValue& out) {
  for (const Field<Object>& field : fields) out.set(field.name, in.*field.member);
}

}  // namespace

Machine parse_machine(std::string_view text, std::string_view origin) {
  const JsonValue json = parse_json(text, origin);
  const Reader reader(json.view(), origin, "");
  const JsonView schema = reader.member("schema", fmt::format("{}", Machine::schema));
  if (!(schema == JsonValue(Machine::schema).view()))
    reader.complain("schema", "is {}: it must be {}; run `weir calibrate` anew", schema.dump(), Machine::schema);
  reader.only([](std::string_view name) {
    return name == "schema" || name == "provenance" || name == "levels" || name == "rates" || among(machine_fields)(name);
  });
  Machine machine;
  read_provenance(reader.child("provenance", "an object"), machine.provenance);
  read_links(reader.child("levels", fmt::format("an object with at least one of {}", level_names())), machine);
  const Reader rates = reader.child("rates", "an object");
  rates.numbers(rate_fields, machine.rates);
  rates.only(among(rate_fields));
  reader.numbers(machine_fields, machine);
  return machine;
}

std::string format_machine(const Machine& machine) {
  JsonValue provenance, levels = JsonValue::object(), rates;
  for (const auto& [name, member] : text_fields) provenance.set(name, machine.provenance.*member);
  for (const auto& [name, member] : count_fields) provenance.set(name, machine.provenance.*member);
  for (int level = 1; level < level_count; ++level) {
    const auto& link = machine.links[static_cast<std::size_t>(level)];
    if (!link) continue;
    JsonValue figures;
    write_numbers(link_fields, *link, figures);
    levels.set(level_name(static_cast<Level>(level)), std::move(figures));
  }
  write_numbers(rate_fields, machine.rates, rates);
  JsonValue json;
  json.set("schema", Machine::schema);
  json.set("provenance", std::move(provenance));
  json.set("levels", std::move(levels));
  json.set("rates", std::move(rates));
  write_numbers(machine_fields, machine, json);
  const std::string text = json.view().dump(2) + '\n';
  static_cast<void>(parse_machine(text, machine.provenance.host));
  return text;
}

Machine read_machine(const std::string& file) {
  std::string wrong = why_no_regular_file(file);
  std::ostringstream text;
  if (wrong.empty()) {
    std::ifstream in(file, std::ios::binary);
    if (!in)
      wrong = std::strerror(errno);
    else if (!(text << in.rdbuf()))
      wrong = "it is empty, or reading it failed";
  }
  if (!wrong.empty())
    fail(WEIR_ERR_ARGUMENT, "machine file '{}' cannot be read: {}; name a file that `weir calibrate` has written", file, wrong);
  return parse_machine(text.str(), file);
}

void write_machine(const Machine& machine, const std::string& file) {
  const std::string text = format_machine(machine);
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) fail(WEIR_ERR_ARGUMENT, "machine file '{}' cannot be written: name a file in a folder that exists and is yours", file);
}

}  // namespace weir
