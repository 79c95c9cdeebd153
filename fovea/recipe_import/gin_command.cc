// The commands of t5x's programs as settings: the gin files that they name, with their bindings.
#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/recipe_import/gin_files.h"

namespace fovea::recipe_import {
namespace {

struct Binding {
  std::string key, value, unknown;  // unknown: what in it only the shell knows
};

struct GinCommand {
  std::vector<std::string> files, search_paths;
  std::vector<Binding> bindings;
  ConfigNode flags;  // others, by their names with dashes
};

// What the value of an unknown binding is, so that what refers to it is found.
std::string stand_in(size_t binding) { return fmt::format("__only_the_shell_knows_{}__", binding); }

class GinCommandReader {
 public:
  GinCommandReader(const ShellWords& words, const std::string& source)
      : words_(words), source_(source) {
    command_.flags.kind = ConfigNode::Kind::kMap;
  }

  GinCommand read() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const auto& word = words_[at_];
      if (!word.text.starts_with("--")) continue;  // python3 -u -m t5x.train
      const auto equals = word.text.find('=');
      const auto flag = word.text.substr(0, equals);
      if (flag.starts_with("--gin.")) {
        bind(flag.substr(6), value_of(equals));
      } else if (flag == "--gin_bindings") {
        const auto value = value_of(equals);
        const auto middle = value.text.find('=');
        bind(trimmed(value.text.substr(0, middle)),
             {middle == std::string::npos ? "" : value.text.substr(middle + 1), value.unknown});
      } else if (flag == "--gin_file") {
        command_.files.push_back(known(flag, value_of(equals)));
      } else if (flag == "--gin_search_paths") {
        add_paths(known(flag, value_of(equals)));
      } else {
        ConfigNode value;
        value.scalar = equals == std::string::npos ? "true" : word.text.substr(equals + 1);
        command_.flags.add(flag, value);
      }
    }
    return std::move(command_);
  }

 private:
  static std::string trimmed(std::string text) {
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    text.erase(std::min(text.find_last_not_of(' ') + 1, text.size()));
    return text;
  }

  ShellWord value_of(size_t equals) {
    const auto& word = words_[at_];
    if (equals != std::string::npos) return {word.text.substr(equals + 1), word.unknown};
    return at_ + 1 < words_.size() ? words_[++at_] : ShellWord{};
  }

  std::string known(const std::string& flag, const ShellWord& value) const {
    if (value.unknown.empty()) return value.text;
    fail<ConfigError>(
        "{}: {} is {}, of which only the shell knows {}; give the .gin file itself, or a script "
        "that says it",
        source_, flag, printable_start(value.text), printable_start(value.unknown));
  }

  void add_paths(const std::string& list) {
    for (size_t start = 0; start <= list.size();) {
      const auto end = std::min(list.find(',', start), list.size());
      if (end > start) command_.search_paths.push_back(list.substr(start, end - start));
      start = end + 1;
    }
  }

  void bind(const std::string& key, const ShellWord& value) {
    if (key.empty() || (key + value.text).find('\n') != std::string::npos)
      fail<ConfigError>("{}: {} is no binding; expected --gin.KEY=VALUE", source_,
                        printable_start(words_[at_].text));
    command_.bindings.push_back({key, value.text, value.unknown});
  }

  const ShellWords& words_;
  const std::string& source_;
  size_t at_ = 0;
  GinCommand command_;
};

// gin takes the end of a name for all of it: train.model_dir for train_script.train.model_dir.
std::string whole_key(const std::string& key, const ConfigNode& values) {
  const auto dot = key.rfind('.');
  if (dot == std::string::npos) return key;
  const auto selector = key.substr(0, dot);
  for (const auto& other : values.keys) {
    const auto end = other.rfind('.');
    if (end != std::string::npos && other.substr(0, end).ends_with("." + selector))
      return other.substr(0, end) + key.substr(dot);
  }
  return key;
}

// The binding whose value stands somewhere in a node; nothing: none does.
const Binding* binding_in(const ConfigNode& node, const std::vector<Binding>& bindings) {
  for (size_t i = 0; i < bindings.size() && !node.scalar.empty(); ++i) {
    if (!bindings[i].unknown.empty() && node.scalar.find(stand_in(i)) != std::string::npos)
      return &bindings[i];
  }
  for (const auto& child : node.children) {
    if (const auto* found = binding_in(child, bindings)) return found;
  }
  return nullptr;
}

}  // namespace

Settings gin_command(const ShellCommand& shell, const std::string& source,
                     std::vector<std::string> search_paths) {
  const auto command = GinCommandReader(shell.words, source).read();
  if (command.files.empty()) {
    fail<ConfigError>(
        "{}: found no command of t5x with --gin_file; expected python3 -m t5x.train "
        "--gin_file=FILE --gin.KEY=VALUE, or a .gin file",
        source);
  }
  search_paths.insert(search_paths.end(), command.search_paths.begin(), command.search_paths.end());
  std::string text;
  for (const auto& file : command.files) text += fmt::format("include '{}'\n", file);
  const auto files = read_gin_file(source, text, search_paths);
  for (size_t i = 0; i < command.bindings.size(); ++i) {
    const auto& binding = command.bindings[i];
    text += fmt::format("{} = {}\n", whole_key(binding.key, files),
                        binding.unknown.empty() ? binding.value : "'" + stand_in(i) + "'");
  }
  const auto all = read_gin_file(source, text, search_paths);
  Settings settings;
  settings.values.kind = ConfigNode::Kind::kMap;
  for (size_t i = 0; i < all.keys.size(); ++i) {
    if (const auto* binding = binding_in(all.children[i], command.bindings)) {
      settings.unknown.push_back({all.keys[i], binding->value, binding->unknown});
    } else {
      settings.values.add(all.keys[i], all.children[i]);
    }
  }
  for (size_t i = 0; i < command.flags.keys.size(); ++i)
    settings.values.add(command.flags.keys[i], command.flags.children[i]);
  return settings;
}

}  // namespace fovea::recipe_import
