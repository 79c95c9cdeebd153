#include "fovea/weights/weights_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/pickle.h"
#include "fovea/files/zip.h"
#include "fovea/weights/dcp_folder.h"
#include "fovea/weights/npz_file.h"
#include "fovea/weights/optimizer_state.h"
#include "fovea/weights/t5x_folder.h"
#include "fovea/weights/torch_file.h"

namespace fovea::weights {
namespace {

constexpr std::array<std::string_view, 9> kWrappers = {
    "state_dict", "model",   "model_state_dict", "module",        "network",
    "net",        "teacher", "model_ema",        "state_dict_ema"};
constexpr std::array<std::string_view, 4> kPrefixes = {"module.", "_orig_mod.", "model.",
                                                       "backbone."};
constexpr int kMaxRounds = 16;  // a model within a model within ...: nobody has more
constexpr std::array<std::string_view, 2> kSelfDistillationHeads = {"dino_head.", "ibot_head."};

// What a file holds, before its numbers are read.
struct Listed {
  std::string name, top;
  std::function<at::Tensor()> read;
};

std::string tops_text(const std::vector<Listed>& listed) {
  std::vector<std::string> tops;
  for (const auto& item : listed) {
    const auto& top = item.top.empty() ? item.name : item.top;
    if (std::find(tops.begin(), tops.end(), top) == tops.end() && tops.size() < 20)
      tops.push_back(shown(top));
  }
  return fmt::format("{}", fmt::join(tops, ", "));
}

bool holds_tensors(const std::vector<Listed>& listed, std::string_view top) {
  return std::any_of(listed.begin(), listed.end(),
                     [&](const Listed& item) { return item.top == top; });
}

// Rules 1 to 4; empty: the outermost dict.
std::string choose_key(const std::vector<Listed>& listed, const std::string& key,
                       const std::string& path) {
  if (listed.empty()) fail<CheckpointError>("{}: no tensors; expected weights", path);
  if (!key.empty()) return key;
  if (holds_tensors(listed, "")) return "";
  for (const auto wrapper : kWrappers) {
    if (holds_tensors(listed, wrapper)) return std::string(wrapper);
  }
  const auto& only = listed.front().top;
  const bool is_only = std::all_of(listed.begin(), listed.end(),
                                   [&](const Listed& item) { return item.top == only; });
  if (is_only) return only;
  fail<CheckpointError>(
      "{}: none of its keys is one that weights usually lie under; name it with --key: {}", path,
      tops_text(listed));
}

// Moments are no weights, wherever they lie; under a key that is asked for they come all the same.
void leave_out_optimizer(std::vector<Listed>& listed, WeightsFile& file) {
  std::erase_if(listed, [&](const Listed& item) {
    if (!is_optimizer_tensor(item.name)) return false;
    file.left_out.push_back(item.name);
    return true;
  });
}

void take(std::vector<Listed> listed, const std::string& key, const std::string& path,
          WeightsFile& file) {
  if (key.empty()) leave_out_optimizer(listed, file);
  const auto chosen = choose_key(listed, key, path);
  const auto prefix = chosen.empty() ? "" : chosen + ".";
  for (const auto& item : listed) {
    if (item.name.starts_with(prefix)) {
      file.tensors.emplace_back(item.name.substr(prefix.size()), item.read());
    } else {
      file.left_out.push_back(item.name);
    }
  }
  if (file.tensors.empty()) {
    fail<CheckpointError>("{}: no tensors under \"{}\"; it has {}", path, shown(chosen),
                          tops_text(listed));
  }
  file.key = chosen;
  if (!chosen.empty()) file.notes.push_back(fmt::format("the tensors under \"{}\"", chosen));
}

void read_torch(const std::string& path, const std::string& key, WeightsFile& file) {
  file.format = "torch";
  const auto torch_file = std::make_shared<TorchFile>(path);
  std::vector<Listed> listed;
  for (const auto& tensor : torch_file->tensors()) {
    listed.push_back({tensor.name, tensor.top, [&] { return torch_file->read(tensor); }});
  }
  take(std::move(listed), key, path, file);
}

void read_dcp(const std::string& path, const std::string& key, WeightsFile& file) {
  file.format = "DCP";
  const DcpFolder folder(path);
  std::vector<Listed> listed;
  for (const auto& tensor : folder.tensors())
    listed.push_back({tensor.name, tensor.top, [&] { return folder.read(tensor); }});
  take(std::move(listed), key, path, file);
}

// The weights of the tree; state is left out as that of torch's optimizers is.
void read_t5x(const std::string& path, WeightsFile& file) {
  constexpr std::string_view kTarget = "target/";
  file.format = "t5x";
  const T5xFolder folder(path);
  for (const auto& array : folder.arrays()) {
    if (array.name.starts_with(kTarget)) {
      file.tensors.emplace_back(array.name.substr(kTarget.size()), folder.read(array));
    } else {
      file.left_out.push_back(array.name);
    }
  }
  if (file.tensors.empty())
    fail<CheckpointError>("{}: no arrays under \"target\"; expected weights", folder.path());
  if (folder.path() != path)
    file.notes.push_back(fmt::format("{}, the latest checkpoint in the folder", folder.path()));
}

void read_safetensors(const std::string& path, WeightsFile& file) {
  file.format = "safetensors";
  const auto mapped = SafetensorsFile::open(path);
  file.metadata = mapped.metadata();
  file.tensors = nn::mapped_tensors(mapped);
  file.mapped = mapped.mapping();
}

bool is_npz(const std::string& path) {
  const ZipFile zip(path);
  return !zip.members().empty() && zip.members().front().name.ends_with(".npy");
}

std::string first_bytes(const std::string& path) { return read_start(path, 9); }

bool all_start_with(const nn::NamedTensors& tensors, std::string_view prefix) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const auto& item) { return item.first.starts_with(prefix); });
}

// Keeps the tensors whose names start with `prefix`, without it.
void keep_below(WeightsFile& file, std::string_view prefix) {
  nn::NamedTensors kept;
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) {
      kept.emplace_back(name.substr(prefix.size()), tensor);
    } else {
      file.left_out.push_back(name);
    }
  }
  file.tensors = std::move(kept);
  file.notes.push_back(fmt::format("\"{}\" taken off the names", prefix));
}

bool is_head_of_self_distillation(const std::string& name) {
  return std::any_of(kSelfDistillationHeads.begin(), kSelfDistillationHeads.end(),
                     [&](std::string_view head) { return name.starts_with(head); });
}

}  // namespace

void take_off_prefixes(WeightsFile& file) {
  bool is_found = true;
  for (int round = 0; is_found && round < kMaxRounds; ++round) {
    is_found = false;
    for (const auto prefix : kPrefixes) {
      if (file.tensors.empty() || !all_start_with(file.tensors, prefix)) continue;
      keep_below(file, prefix);
      is_found = true;
    }
    const auto has = [&](std::string_view prefix) {
      return std::any_of(file.tensors.begin(), file.tensors.end(),
                         [&](const auto& item) { return item.first.starts_with(prefix); });
    };
    if (has("teacher.backbone.")) {
      keep_below(file, "teacher.backbone.");
      is_found = true;
    } else if (has("backbone.") &&
               std::all_of(file.tensors.begin(), file.tensors.end(), [](const auto& item) {
                 return item.first.starts_with("backbone.") ||
                        is_head_of_self_distillation(item.first);
               })) {
      keep_below(file, "backbone.");
      is_found = true;
    }
  }
}

bool is_safetensors(const std::string& path) {
  if (is_folder(path)) return false;
  const auto start = first_bytes(path);
  return (start.size() == 9 && start[8] == '{') || path.ends_with(".safetensors");
}

bool is_weights_folder(const std::string& path) {
  return DcpFolder::is_one(path) || T5xFolder::is_one(path);
}

bool has_tensors_under(const std::string& path, std::string_view key) {
  const auto start = std::string(key) + ".";
  if (DcpFolder::is_one(path)) {
    const DcpFolder folder(path);
    return std::any_of(folder.tensors().begin(), folder.tensors().end(),
                       [&](const DcpTensor& tensor) { return tensor.name.starts_with(start); });
  }
  if (is_folder(path)) return false;
  if (!first_bytes(path).starts_with("PK\x03\x04") && !TorchFile::is_legacy(path)) return false;
  const TorchFile file(path);
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const StoredTensor& tensor) { return tensor.name.starts_with(start); });
}

WeightsFile read_weights_file(const std::string& path, const std::string& key) {
  WeightsFile file;
  if (T5xFolder::is_one(path)) {
    read_t5x(path, file);
  } else if (is_folder(path)) {
    if (!DcpFolder::is_one(path)) {
      fail<DataError>(
          "{}: a folder without .metadata; expected a weights file, a folder of "
          "torch.distributed.checkpoint, or a checkpoint of t5x (checkpoint_STEP)",
          path);
    }
    read_dcp(path, key, file);
  } else {
    const auto start = first_bytes(path);
    const bool is_zip = start.starts_with("PK\x03\x04");
    if (is_zip && is_npz(path)) {
      file.format = "npz";
      file.tensors = read_npz(path);
    } else if (is_zip || TorchFile::is_legacy(path)) {
      read_torch(path, key, file);
    } else if (is_safetensors(path)) {
      read_safetensors(path, file);
    } else {
      fail<DataError>(
          "{}: neither safetensors, nor .npz, nor a file of torch.save; nothing else is read as "
          "weights",
          path);
    }
  }
  const bool has_keys = file.format == "torch" || file.format == "DCP";
  if (!key.empty() && !has_keys) {
    fail<CheckpointError>("{}: a {} file has no keys; read it without \"{}\"", path, file.format,
                          shown(key));
  }
  if (file.format != "npz" && file.format != "t5x") take_off_prefixes(file);
  return file;
}

}  // namespace fovea::weights
