#include "fovea/kernels/measured_choices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"

namespace fovea::kernels {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;  // some thousand shapes

}  // namespace

std::optional<std::string> ChoiceTable::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto known = choices_.find(name);
  return known == choices_.end() ? std::nullopt : std::optional(known->second);
}

std::string ChoiceTable::keep(const std::string& name, const std::string& choice) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = choices_.try_emplace(name, choice);
  if (is_new && !path_.empty()) {
    nlohmann::json table = nlohmann::json::object();
    for (const auto& [each, taken] : choices_) table[each] = taken;
    write_file_atomic(path_, json_text(table, 2) + "\n");
  }
  return known->second;
}

// What keep() wrote.
std::map<std::string, std::string> ChoiceTable::read(const std::string& path) const {
  const auto table = parse_json(read_file(path, kMaxBytes), path, /*max_depth=*/1);
  std::map<std::string, std::string> choices;
  for (const auto& [name, choice] : JsonValue(table, path).members()) {
    if (!is_choice_(choice.text())) choice.refuse(expected_);
    choices[name] = choice.text();
  }
  return choices;
}

void ChoiceTable::keep_in(const std::string& path) {
  std::map<std::string, std::string> choices;
  try {
    if (is_there(path)) choices = read(path);
  } catch (const DataError& error) {
    log_warning(
        fmt::format("{}; {} are measured again: where others are the fastest now, a run that goes "
                    "on is rounded "
                    "otherwise from here on, and no longer bit for bit what it would have been",
                    error.what(), what_));
  }
  const std::lock_guard lock(mutex_);
  choices_ = std::move(choices);
  path_ = path;
}

void ChoiceTable::stop_keeping() {
  const std::lock_guard lock(mutex_);
  path_.clear();
}

}  // namespace fovea::kernels
