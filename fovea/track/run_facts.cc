#include "fovea/track/run_facts.h"

#include <algorithm>
#include <cstdlib>

#include "fovea/config/node.h"
#include "fovea/core/environment.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/text.h"

namespace fovea::track {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostFactBytes = 1 << 20;

bool is_plain_list(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::kList &&
         std::all_of(node.children.begin(), node.children.end(), [](const ConfigNode& child) {
           return child.kind == ConfigNode::Kind::kScalar || child.kind == ConfigNode::Kind::kNull;
         });
}

void add_node(const ConfigNode& node, const std::string& key, Facts& facts) {
  const bool is_scalar = node.kind == ConfigNode::Kind::kScalar;
  if (is_scalar || node.children.empty() || is_plain_list(node)) {
    facts[key] = is_scalar && !node.scalar.empty() ? node.scalar : emit_yaml_flow(node);
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    const auto name = node.kind == ConfigNode::Kind::kMap ? node.keys[i] : fmt::format("{}", i);
    add_node(node.children[i], key.empty() ? name : key + "." + name, facts);
  }
}

std::string first_line_of(const fs::path& file) {
  try {
    const auto text = read_file(file.string(), kMostFactBytes);
    std::string_view left = text;
    auto line = take_line(left);
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    return std::string(line);
  } catch (const DataError&) {
    return {};
  }
}

bool is_commit(std::string_view text) { return text.size() >= 40 && is_hexadecimal(text); }

// Of refs that git has put together: "COMMIT refs/heads/main" in a line each.
std::string packed_commit(const fs::path& git, std::string_view ref) {
  try {
    const auto text = read_file((git / "packed-refs").string(), 64 << 20);
    for (std::string_view left = text; !left.empty();) {
      auto line = take_line(left);
      const auto commit = take_word(line);
      if (take_word(line) == ref && is_commit(commit)) return std::string(commit);
    }
  } catch (const DataError&) {
  }
  return {};
}

}  // namespace

Facts recipe_facts(const fs::path& run_dir) {
  const auto path = (run_dir / "config.yaml").string();
  Facts facts;
  add_node(parse_config_yaml(read_file(path, kMaxConfigBytes), path), "", facts);
  return facts;
}

Facts machine_facts(const fs::path& run_dir) {
  Facts facts;
  try {
    const auto path = (run_dir / "machine.json").string();
    const auto parsed = parse_json(read_file(path, kMostFactBytes), path);
    const JsonValue machine(parsed, path);
    const auto take = [&](const char* key, const char* name) {
      std::string value;
      machine.read(key, value);
      if (!value.empty()) facts[name] = value;
    };
    take("version", "fovea.version");
    take("torch_version", "fovea.libtorch");
    take("device", "fovea.device");
    take("dtype", "fovea.dtype");
    take("hostname", "fovea.host");
    take("cpu", "fovea.cpu");
    take("command", "mlflow.source.name");
    std::vector<std::string> gpus;
    machine.read("gpus", gpus);
    if (!gpus.empty()) facts["fovea.gpu"] = fmt::format("{} x {}", gpus.size(), gpus.front());
  } catch (const DataError&) {  // nothing of the run hangs on that file
  }
  return facts;
}

Facts process_facts(const fs::path& folder) {
  Facts facts{{"mlflow.source.type", "LOCAL"}};
  if (auto user = environment_variable("USER"); !user.empty()) {
    facts["mlflow.user"] = std::move(user);
  }
  if (auto commit = git_commit(folder); !commit.empty()) {
    facts["mlflow.source.git.commit"] = std::move(commit);
  }
  return facts;
}

std::string git_commit(const fs::path& folder) {
  std::error_code error;
  auto above = fs::absolute(folder, error).lexically_normal();
  while (!is_there(above / ".git") && above.has_relative_path()) above = above.parent_path();
  auto git = above / ".git";
  if (!is_there(git)) return {};
  constexpr std::string_view kElsewhere = "gitdir: ", kRef = "ref: ";
  if (!is_folder(git)) {  // of a second work tree, or of a submodule
    const auto line = first_line_of(git);
    if (!line.starts_with(kElsewhere)) return {};
    git = above / line.substr(kElsewhere.size());
  }
  const auto head = first_line_of(git / "HEAD");
  if (!head.starts_with(kRef)) return is_commit(head) ? head : "";
  const auto ref = head.substr(kRef.size());
  const auto common = first_line_of(git / "commondir");  // where a second work tree's refs are
  for (const auto& place : {git, common.empty() ? git : git / common}) {
    if (const auto commit = first_line_of(place / ref); is_commit(commit)) return commit;
    if (auto commit = packed_commit(place, ref); !commit.empty()) return commit;
  }
  return {};
}

}  // namespace fovea::track
