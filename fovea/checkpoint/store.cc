#include "fovea/checkpoint/store.h"

#include <fmt/format.h>

#include "fovea/checkpoint/checkpoint_folder.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_pointer(const std::string& which) { return which == "best" || which == "latest"; }

}  // namespace

Store::Store(std::string folder, StoreOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  FOVEA_CHECK(options_.keep >= 1, "checkpoint.keep={}; expected 1 or more", options_.keep);
  if (!options_.warn) {
    options_.warn = [](const std::string& message) { log_warning(message); };
  }
}

Store::~Store() {
  is_next_there_ = true;  // nothing waits for an answer any more
  try {
    wait();
  } catch (const std::exception& error) {
    options_.warn(error.what());
  }
}

std::map<int64_t, std::string> Store::folders() const {
  std::map<int64_t, std::string> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const auto name = entry.path().filename().string();
    if (const auto step = step_of(name)) result[*step] = name;
  }
  if (error && error != std::errc::no_such_file_or_directory) {  // no reason to start from step 0
    fail<CheckpointError>("{}: cannot be looked through: {}", folder_.string(), error.message());
  }
  return result;
}

std::vector<int64_t> Store::steps() const {
  std::vector<int64_t> result;
  for (const auto& [step, name] : folders()) result.push_back(step);
  return result;
}

std::string Store::pointer(const std::string& which) const {
  std::string name;
  try {
    if (is_there(folder_ / which)) name = first_line_of(folder_ / which);
  } catch (const DataError& error) {  // the checkpoints are found without it
    options_.warn(error.what());
  }
  return step_of(name) && name.find('/') == name.npos ? name : std::string();
}

std::optional<State> Store::load_latest(const WantedParts& wanted, const Agreement& agreement) {
  wait();
  for (;;) {
    const auto step = agreement.newest(agreement.is_first ? newest().value_or(-1) : -1);
    if (step < 0) return {};
    std::optional<State> found;
    std::string own;
    try {
      found = load(step, wanted);
    } catch (const CheckpointError& error) {
      own = error.what();
    }
    const auto fault = agreement.fault(own);
    if (fault.empty()) return found;
    if (agreement.is_first) refuse(step, fault);
  }
}

std::optional<int64_t> Store::newest() const {
  const auto all = folders();
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    if (!refused_.contains(item->first)) return item->first;
  }
  if (all.empty()) return {};
  std::string faults;
  for (auto item = all.rbegin(); item != all.rend(); ++item) {
    faults +=
        fmt::format("\n  {}: {}", (folder_ / item->second).string(), refused_.at(item->first));
  }
  fail<CheckpointError>(
      "{}: none of the {} checkpoints is whole:{}\nRestore one from a backup, or start again in "
      "another run.dir",
      folder_.string(), all.size(), faults);
}

void Store::refuse(int64_t step, const std::string& fault) {
  const auto all = folders();
  const auto found = all.find(step);
  const auto name = found == all.end() ? folder_name(step, "") : found->second;
  options_.warn(fmt::format("damaged checkpoint {}: {}; using the one before it",
                            (folder_ / name).string(), fault));
  refused_[step] = fault;
}

State Store::load(int64_t step, const WantedParts& wanted) const {
  const auto all = folders();
  const auto found = all.find(step);
  if (found == all.end()) {
    fail<CheckpointError>(
        "{}: no checkpoint of step {} here; expected a run folder that all processes see",
        folder_.string(), step);
  }
  try {
    return read_state(folder_ / found->second, wanted);
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

std::optional<int64_t> Store::step_named(const std::string& which) const {
  const auto step = step_of(is_pointer(which) ? pointer(which) : which);
  return step && folders().contains(*step) ? step : std::nullopt;
}

std::string Store::weights_file(const std::string& which) const {
  FOVEA_CHECK(is_pointer(which) || step_of(which), "checkpoint '{}'; expected best or latest",
              which);
  const auto name = is_pointer(which) ? pointer(which) : which;
  if (name.empty()) {
    fail<CheckpointError>("{}: no {} checkpoint yet", folder_.string(), which);
  }
  const auto path = folder_ / name;
  if (!is_folder(path)) {
    fail<CheckpointError>(
        "{}: found {}, which is not there; expected the name of a folder beside it",
        (folder_ / which).string(), name);
  }
  return weights_in(path);
}

}  // namespace fovea::checkpoint
