// weir checkpoint reshard: makes the file that a job with other ranks would have. Virtual ranks of this process restore and save.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>
#include <weir/checkpoint.hpp>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/standard_error.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/whole_file.hpp"
#include "cli/checkpoint_files.hpp"
#include "cli/temporary_folder.hpp"
#include "communicator/communicator.hpp"
#include "fusion/fusion_config.hpp"
#include "optim/layer_optimizer.hpp"
#include "topology/topology.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::Dataset;
using checkpoint::Index;
using checkpoint::Subject;

/// Sets an enumerator by its name.
template <class Enum>
Enum enumerator(const std::string& name, std::string_view field, const Subject& subject) {
  const auto& names = names_of<Enum>;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    fail(WEIR_ERR_MISMATCH, "{}: {} is '{}', which this version does not know: it knows {}", subject.words(), field, name,
         choices_of<Enum>());
  return static_cast<Enum>(found - names.begin());
}

/// Returns a subject's configuration. Fields that the file lacks, because an older Weir has written it, keep their defaults.
template <class Config>
Config config_of(const Subject& subject) {
  Config config;
  visit_fields(config, [&](const FieldInfo& field, const auto& there) {
    using V = std::remove_cvref_t<decltype(there)>;
    V& to = const_cast<V&>(there);  // `config` is not const
    const auto found = subject.about.find(std::string(field.name));
    if (found == subject.about.end()) return;
    using Stored = std::conditional_t<std::is_same_v<V, std::string> || std::is_enum_v<V>, std::string,
                                      std::conditional_t<std::is_floating_point_v<V>, double, std::int64_t>>;
    const auto* const value = std::get_if<Stored>(&found->second);
    if (value == nullptr) return;
    if constexpr (std::is_enum_v<V>)
      to = enumerator<V>(*value, field.name, subject);
    else
      to = static_cast<V>(*value);
  });
  return config;
}

template <class... Args>
void note(fmt::format_string<Args...> text, Args&&... args) {
  print_error("weir: {}\n", fmt::format(text, std::forward<Args>(args)...));
}

/// Moves what was in CUDA memory to host memory. Returns whether it was there.
template <class Config>
bool move_to_host(const Subject& subject, Config& config) {
  if (config.memory != MemorySpace::cuda) return false;
  config.memory = MemorySpace::host;
  note("{} was in CUDA memory: it is divided in host memory, and what is saved says so", subject.words());
  return true;
}

AllreduceConfig plan_config(const Subject& subject) {
  auto config = config_of<AllreduceConfig>(subject);
  // In CUDA memory, residuals of 16-bit types are floats.
  if (move_to_host(subject, config) && (config.type == DataType::float16 || config.type == DataType::bfloat16))
    config.type = DataType::float32;
  if (subject.find("trials/candidates") != nullptr)
    note("{} was choosing its algorithm: the new file has it with '{}', and fits plans that ask for that", subject.words(),
         config.algorithm);
  return config;
}

EmbeddingConfig table_config(const Subject& subject) {
  auto config = config_of<EmbeddingConfig>(subject);
  move_to_host(subject, config);
  return config;
}

/// Returns rank 0's text of a field, or an empty text if the subject has no such field.
std::string_view text_in(const Subject& subject, std::string_view field) {
  const Dataset* const dataset = subject.find(field);
  return dataset == nullptr ? std::string_view() : text_of(*dataset, 0);
}

StepSchedule schedule_of(const Subject& subject) {
  std::vector<std::string> blocks;
  std::istringstream lines{std::string(text_in(subject, "blocks"))};
  for (std::string line; std::getline(lines, line);) blocks.push_back(line);
  return StepSchedule(std::move(blocks));
}

/// The caller's array on all new ranks.
struct WholeArray {
  struct Part {
    std::int64_t first = 0;
    std::vector<std::byte> bytes;
  };
  std::string name;
  ElementType type{};
  Distribution distribution{};
  std::int64_t total = 0, element_bytes = 1;
  std::vector<Part> parts;  // by rank
};

WholeArray array_of(const Subject& subject, std::size_t ranks) {
  const auto text = [&](const char* name) {
    const auto found = subject.about.find(name);
    const auto* const value = found == subject.about.end() ? nullptr : std::get_if<std::string>(&found->second);
    if (value == nullptr) fail(WEIR_ERR_MISMATCH, "{}: the file does not say its {}", subject.words(), name);
    return *value;
  };
  WholeArray array{.name = subject.name,
                   .type = enumerator<ElementType>(text("type"), "type", subject),
                   .distribution = enumerator<Distribution>(text("distribution"), "distribution", subject),
                   .parts = {}};
  const Dataset* const dataset = subject.find("elements");
  if (dataset == nullptr) fail(WEIR_ERR_MISMATCH, "{}: the file has no elements of it", subject.words());
  array.element_bytes = dataset->element_bytes();
  for (const checkpoint::Piece& piece : dataset->pieces) array.total = std::max(array.total, piece.region.whole_rows);
  const auto count = static_cast<std::int64_t>(ranks);
  for (std::int64_t rank = 0; rank < count; ++rank) {
    std::int64_t first = 0, elements = array.total;
    if (array.distribution == Distribution::block) {
      first = array.total * rank / count;
      elements = array.total * (rank + 1) / count - first;
    } else if (array.distribution == Distribution::local) {
      const auto old = static_cast<std::size_t>(rank);
      elements = old < dataset->pieces.size() ? std::max<std::int64_t>(0, dataset->pieces[old].count) : 0;
    }
    array.parts.push_back({first, std::vector<std::byte>(static_cast<std::size_t>(elements * array.element_bytes))});
  }
  if (array.distribution == Distribution::local && dataset->pieces.size() > ranks)
    note("{} is local: what ranks {} to {} have of it is not in the new file", subject.words(), ranks, dataset->pieces.size() - 1);
  if (array.distribution == Distribution::local && dataset->pieces.size() < ranks)
    note("{} is local: it is empty on ranks {} to {}", subject.words(), dataset->pieces.size(), ranks - 1);
  return array;
}

/// Makes an object of a new rank, and adds it to the checkpoint. The result must live until the checkpoint has been saved.
using Maker = std::function<std::shared_ptr<void>(const Communicator&, Checkpoint&)>;

/// Returns the maker of an object that is constructed from `make(comm)`.
template <class Make>
Maker maker(const std::string& name, Make make) {
  return [=](const Communicator& comm, Checkpoint& checkpoint) {
    const auto object = std::make_shared<decltype(make(comm))>(make(comm));
    checkpoint.add(name, *object);
    return object;
  };
}

Maker maker_of(const Subject& subject, std::size_t ranks) {
  switch (subject.kind) {
    case checkpoint::Kind::plan:
      return maker(subject.name, [config = plan_config(subject)](const auto& comm) { return AllreducePlan(comm, config); });
    case checkpoint::Kind::table:
      return maker(subject.name, [config = table_config(subject)](const auto& comm) { return EmbeddingTable(comm, config); });
    case checkpoint::Kind::fused:
      return maker(subject.name,
                   [config = config_of<FusionConfig>(subject), tensors = fusion::tensors_of(text_in(subject, "tensors"))](
                       const auto& comm) { return FusedAllreduce(comm, config, tensors); });
    case checkpoint::Kind::optimizer:
      if (subject.find("layers") == nullptr)
        return maker(subject.name, [config = config_of<SparseAdamConfig>(subject)](const auto&) { return SparseAdam(config); });
      return maker(subject.name,
                   [config = config_of<OptimizerConfig>(subject), layers = optim::layers_of(text_in(subject, "layers"))](
                       const auto& comm) { return LayerOptimizer(comm, config, layers); });
    case checkpoint::Kind::schedule:
      return maker(subject.name, [schedule = schedule_of(subject)](const auto&) { return schedule; });
    case checkpoint::Kind::array:
      break;
  }
  return [array = std::make_shared<WholeArray>(array_of(subject, ranks))](const Communicator& comm, Checkpoint& checkpoint) {
    WholeArray::Part& mine = array->parts[static_cast<std::size_t>(comm.rank())];
    checkpoint.add_array(array->name, mine.bytes.data(), array->type, array->distribution,
                         static_cast<std::int64_t>(mine.bytes.size()) / array->element_bytes, mine.first, array->total);
    return array;
  };
}

/// Restores and saves on one new rank.
void restore_and_save(const Communicator& comm, const std::vector<Maker>& makers, const CheckpointConfig& config,
                      std::int64_t step) {
  std::vector<std::shared_ptr<void>> objects;
  Checkpoint checkpoint(comm, config);
  for (const Maker& make : makers) objects.push_back(make(comm, checkpoint));
  checkpoint.restore_step(step);
  checkpoint.save(step).wait();
}

/// Runs `body` on virtual ranks of this process, one thread each. Throws the error of the lowest rank that has failed.
void run_virtual_ranks(const std::vector<Location>& machine, const std::function<void(const Communicator&)>& body) {
  InprocJob job(static_cast<int>(machine.size()), 0);
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::size_t rank = 0; rank < machine.size(); ++rank) transports.push_back(job.transport(static_cast<int>(rank)));
  // Long timeout: ranks wait while one reads a large file. No node memory: all ranks are in one process.
  const Settings settings{.timeout_seconds = 86400, .shared_memory = false};
  std::vector<std::exception_ptr> errors(machine.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < machine.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Communicator comm(detail::make_communicator(std::move(transports[rank]), machine[rank], settings));
        body(comm);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Returns the machine on which every node but the last has `per_node` ranks.
std::vector<Location> machine_of(int ranks, int per_node) {
  std::string nodes;
  for (int rank = 0; rank < ranks; rank += per_node)
    nodes += fmt::format("{}{}", nodes.empty() ? "nodes:" : ",", std::min(per_node, ranks - rank));
  return synthetic_machine(nodes);
}

int fullest_node(const Index& index) {
  std::int64_t most = 1;
  for (const std::int64_t node : index.nodes)
    most = std::max<std::int64_t>(most, std::count(index.nodes.begin(), index.nodes.end(), node));
  return static_cast<int>(most);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

int reshard_checkpoint(const Resharding& wanted) {
  const Index index = checkpoint::read_whole(wanted.in);
  std::error_code none;
  if (fs::equivalent(wanted.in, wanted.out, none))
    give_up("{} and {} are the same file: name another one to write", wanted.in, wanted.out);
  if (fs::exists(wanted.out) && !wanted.force) give_up("{} exists: --force replaces it", wanted.out);
  const fs::path beside = fs::absolute(wanted.out).parent_path();
  if (!fs::is_directory(beside)) give_up("there is no folder {}", beside.string());

  const int per_node = std::min(wanted.ranks, wanted.per_node > 0 ? wanted.per_node : fullest_node(index));
  const std::vector<Location> machine = machine_of(wanted.ranks, per_node);
  std::vector<Maker> makers;
  for (const Subject& subject : index.subjects) makers.push_back(maker_of(subject, machine.size()));
  const TemporaryFolder workplace(make_folder((beside / ".reshard-").string()));
  if (workplace.path().empty()) give_up("cannot make a folder in {}: {}", beside.string(), std::generic_category().message(errno));
  const std::string aside = fmt::format("{}/checkpoint-{}.h5", workplace.path(), index.step);
  fs::create_symlink(fs::canonical(wanted.in), aside);
  const CheckpointConfig config{
      .folder = workplace.path(), .run = index.run, .keep = 1, .compression = index.compression, .name = "reshard"};
  try {
    run_virtual_ranks(machine, [&](const Communicator& comm) { restore_and_save(comm, makers, config, index.step); });
  } catch (const Error& error) {
    const std::string unfinished = fmt::format("{}/.checkpoint-{}.h5", workplace.path(), index.step);
    const std::string text = error.what();
    // The damaged file is not IN.
    if (text.find(unfinished) != std::string::npos) throw std::runtime_error(replaced(text, unfinished, wanted.out));
    throw Error(error.status(), replaced(text, aside, wanted.in));
  }
  checkpoint::rename_for_good(aside, fs::absolute(wanted.out).string());
  const std::size_t nodes = (machine.size() + static_cast<std::size_t>(per_node) - 1) / static_cast<std::size_t>(per_node);
  fmt::print("{}: step {}, of {} on {} now, of {} in {}\n", wanted.out, index.step, count_text(machine.size(), "rank"),
             count_text(nodes, "node"), index.ranks(), wanted.in);
  return 0;
}

}  // namespace weir::cli
