#include "fovea/recipe_import/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>

#include "fovea/core/error.h"

namespace fovea::recipe_import {
namespace {

// timm's, T2T-ViT's, JABAS's and t5x's.
const std::set<std::string> kTrainers = {"t5x.train",  // a module
                                         "train.py",
                                         "legacy_train.py",
                                         "main.py",
                                         "transfer_learning.py",
                                         "distributed_train.sh",
                                         "legacy_distributed_train.sh",
                                         "distributed_run.sh"};
// Flags that take no value, so that what stands behind them is an argument of its own.
const std::set<std::string> kSwitches = {"amp",
                                         "apex_amp",
                                         "bce_loss",
                                         "bce_sum",
                                         "bn_tf",
                                         "channels_last",
                                         "dataset_download",
                                         "dataset_trust_remote_code",
                                         "fast_norm",
                                         "grad_checkpointing",
                                         "is_elastic_training",
                                         "jsd",
                                         "jsd_loss",
                                         "log_wandb",
                                         "model_ema",
                                         "model_ema_force_cpu",
                                         "model_ema_warmup",
                                         "naflex_loader",
                                         "naflex_patchify_channels_first",
                                         "native_amp",
                                         "no_aug",
                                         "no_ddp_bb",
                                         "no_prefetcher",
                                         "no_resume_opt",
                                         "no_validate",
                                         "pin_mem",
                                         "pretrained",
                                         "resplit",
                                         "save_images",
                                         "sched_on_updates",
                                         "split_bn",
                                         "sync_bn",
                                         "synchronize_step",
                                         "torchscript",
                                         "use_multi_epochs_loader",
                                         "warmup_prefix"};

std::string flag_name(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  std::string name(word.substr(0, word.find('=')));
  for (auto& c : name) c = c == '-' ? '_' : c;
  return name;
}

// Settings out of words, in their order; the last of a name counts, as with argparse.
class CommandReader {
 public:
  explicit CommandReader(const std::string& source)
      : origin_{std::make_shared<const std::string>(source), 0} {
    settings_.values.kind = ConfigNode::Kind::kMap;
  }

  void put(const std::string& name, const ShellWords& words) {
    std::string shown, unknown;
    for (const auto& word : words) {
      shown += (shown.empty() ? "" : " ") + word.text;
      if (unknown.empty()) unknown = word.unknown;
    }
    std::erase_if(settings_.unknown, [&](const auto& setting) { return setting.key == name; });
    if (!unknown.empty()) {
      forget(name);
      settings_.unknown.push_back({name, shown, unknown});
    } else if (auto* known = settings_.values.find(name)) {
      *known = value_of(words);
    } else {
      settings_.values.add(name, value_of(words));
    }
  }

  // positional: its first argument without a flag; "" leaves them out.
  void read(const ShellWord* first, const ShellWord* last, const std::string& prefix,
            const std::string& positional) {
    size_t arguments = 0;
    while (first != last) {
      if (!is_flag(*first)) {
        ++arguments;
        if (!positional.empty()) {
          put(arguments == 1 ? positional : fmt::format("{}_{}", positional, arguments), {*first});
        }
        ++first;
        continue;
      }
      const auto& flag = *first++;
      auto name = flag_name(flag.text);
      ShellWords values;
      const auto equals = flag.text.find('=');
      const bool is_short = flag.text[1] != '-';
      if (equals != std::string::npos) {
        values.push_back({flag.text.substr(equals + 1), flag.unknown});
      } else if (is_short && name.size() > 1 &&
                 std::isdigit(static_cast<unsigned char>(name[1])) != 0) {  // -b128
        values.push_back({name.substr(1), flag.unknown});
        name = name.substr(0, 1);
      }
      const size_t most = prefix.empty() ? SIZE_MAX : 1;  // behind a launcher's stands a program
      const bool takes_values = values.empty() && !(prefix.empty() && kSwitches.contains(name));
      while (takes_values && first != last && values.size() < most && !is_flag(*first)) {
        values.push_back(*first++);
      }
      put(prefix + name, values);
    }
  }

  Settings settings() && {
    if (settings_.values.keys.empty() && settings_.unknown.empty()) {
      fail<ConfigError>("{}: found no flags (--name value)", *origin_.source);
    }
    return std::move(settings_);
  }

 private:
  void forget(const std::string& name) {
    auto& map = settings_.values;
    const auto at = std::find(map.keys.begin(), map.keys.end(), name) - map.keys.begin();
    if (at == static_cast<std::ptrdiff_t>(map.keys.size())) return;
    map.keys.erase(map.keys.begin() + at);
    map.children.erase(map.children.begin() + at);
  }

  ConfigNode scalar(const std::string& text) const {
    ConfigNode node;
    node.kind = ConfigNode::Kind::kScalar;
    node.scalar = text;
    node.origin = origin_;
    return node;
  }

  ConfigNode value_of(const ShellWords& words) const {
    if (words.empty()) return scalar("true");
    if (words.size() == 1) return scalar(words.front().text);
    ConfigNode list;
    list.kind = ConfigNode::Kind::kList;
    list.origin = origin_;
    for (const auto& word : words) list.children.push_back(scalar(word.text));
    return list;
  }

  ConfigOrigin origin_;
  Settings settings_;
};

// JABAS's script takes these in order, and has the rest in it.
void read_jabas_run(const ShellWords& words, size_t at, CommandReader& reader) {
  const char* const kArguments[] = {"rank",       "local_batch_size",   "num_models",
                                    "accum_step", "weight_sync_method", "jabas_config_file"};
  for (const auto* name : kArguments) {
    if (++at < words.size()) reader.put(name, {words[at]});
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"model", "t2t_vit_14"},
                                                        {"lr", "0.0005"},
                                                        {"weight_decay", "0.05"},
                                                        {"img_size", "224"},
                                                        {"epochs", "90"}}) {
    reader.put(name, {{value}});
  }
}

// `python -m jabas.elastic.launch --cmd "python main.py ..." ...`: the command with all flags that
// its launcher adds.
ShellWords without_jabas_launcher(const ShellWords& words, const std::string& source,
                                  CommandReader& reader) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const ShellWord& word) { return word.text == "--cmd"; });
  if (flag == words.end() || flag + 1 == words.end()) return words;
  reader.read(words.data(), words.data() + (flag - words.begin()), "launch.", "");
  ShellWords all;
  for (const auto& part : run_shell((flag + 1)->text, source).commands) {
    std::copy(part.words.begin(), part.words.end(), std::back_inserter(all));
  }
  std::copy(flag + 2, words.end(), std::back_inserter(all));
  return all;
}

// With srun alone the batch script says how many processes there are.
void read_batch(const ShellWords& words, size_t script, const ShellScript& lines,
                CommandReader& reader) {
  bool has_srun = false, has_other = false;
  for (size_t i = 0; i < script; ++i) {
    const auto name = file_name(words[i]);
    has_srun = has_srun || name == "srun";
    has_other = has_other || name == "torchrun" || name.starts_with("torch.distributed");
  }
  if (!has_srun || has_other) return;
  for (const auto* key : {"nodes", "ntasks", "ntasks_per_node"}) {
    if (const auto found = lines.batch.find(key); found != lines.batch.end()) {
      reader.put(std::string("launch.") + key, {{found->second}});
    }
  }
}

}  // namespace

std::string file_name(const ShellWord& word) {
  return std::filesystem::path(word.text).filename().string();
}

bool is_trainer(const ShellWord& word) { return kTrainers.contains(file_name(word)); }

bool is_flag(const ShellWord& word) {
  const auto& text = word.text;
  return text.size() > 1 && text[0] == '-' &&
         (text[1] == '-' || std::isalpha(static_cast<unsigned char>(text[1])) != 0);
}

Settings command_settings(const ShellCommand& command, const ShellScript& script,
                          const std::string& source) {
  CommandReader reader(source);
  const auto words = without_jabas_launcher(command.words, source, reader);
  const auto* const first = words.data();
  const auto* const last = first + words.size();
  const auto at =
      static_cast<size_t>(std::find_if(first, last,
                                       [](const ShellWord& word) {
                                         return word.text.ends_with(".py") || is_trainer(word);
                                       }) -
                          first);
  if (at == words.size()) {
    reader.read(first, last, "", "positional");
    return std::move(reader).settings();
  }
  const auto name = file_name(words[at]);
  read_batch(words, at, script, reader);
  reader.read(first, first + at, "launch.", "");
  if (name == "distributed_run.sh") {
    read_jabas_run(words, at, reader);
  } else if (name.ends_with("distributed_train.sh") && at + 1 < words.size()) {
    reader.put("launch.nproc_per_node", {words[at + 1]});
    reader.read(first + at + 2, last, "", "positional");
  } else {
    reader.read(first + at + 1, last, "", "positional");
  }
  if (name == "transfer_learning.py") reader.put("script", {{name}});
  return std::move(reader).settings();
}

}  // namespace fovea::recipe_import
