#include "fovea/serve/model_repository.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/serve/protocol/status_error.h"
#include "fovea/serve/served_model.h"
#include "fovea/train/recipe/inference_source.h"

namespace fovea::serve {
namespace {

constexpr size_t kMaxModelName = 128;

void check_model_name(const std::string& name) {
  const auto may_stand = [](char c) {
    return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.';
  };
  const bool is_good = !name.empty() && name.size() <= kMaxModelName && name.front() != '.' &&
                       std::all_of(name.begin(), name.end(), may_stand);
  if (is_good) return;
  fail<ConfigError>(
      "model name '{}'; expected letters, digits, _, - and ., at most {} of them: "
      "TARGET=NAME gives a model a name",
      printable_start(name), kMaxModelName);
}

// Of the file of weights, where it is one; what else weights come as is known when it is loaded.
int64_t bytes_of_file(const ModelSource& source) {
  const auto weights = train::find_source(source.target, source.options).weights;
  std::error_code error;
  if (weights.empty() || !std::filesystem::is_regular_file(weights, error)) return 0;
  const auto bytes = std::filesystem::file_size(weights, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

}  // namespace

struct ModelRepository::Entry {
  enum class State { kNew, kLoading, kReady, kUnloading, kUnloaded, kFailed };

  ModelSource source;
  State state = State::kNew;
  std::string reason = "not loaded yet";
  std::shared_ptr<ServedModel> model = {};
  std::shared_ptr<ModelStatistics> statistics = std::make_shared<ModelStatistics>();

  const char* state_text() const {
    switch (state) {
      case State::kReady:
        return "READY";
      case State::kLoading:
        return model ? "READY" : "LOADING";
      case State::kUnloading:
        return "UNLOADING";
      default:
        return "UNAVAILABLE";
    }
  }
};

ModelRepository::ModelRepository(const ServeOptions& options)
    : options_(options), decoders_(options.decode_threads) {}

ModelRepository::~ModelRepository() { drain(); }

void ModelRepository::add(ModelSource source) {
  check_model_name(source.name);
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[source.name];
  if (entry) {
    fail<ConfigError>(
        "two models are called '{}': {} and {}; expected names of their own: TARGET=NAME gives "
        "a model a name",
        source.name, entry->source.target, source.target);
  }
  entry = std::make_unique<Entry>();
  entry->source = std::move(source);
}

// Under the lock.
ModelRepository::Entry& ModelRepository::entry_of(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) names.push_back(known);
  fail_with(404, "no model is called '{}'; POST /v2/repository/index lists those that there are{}",
            printable_start(name), or_did_you_mean(name, names));
}

int64_t ModelRepository::loaded_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry->model) bytes += entry->model->weight_bytes();
  }
  return bytes;
}

void ModelRepository::check_budget(const Entry& entry, int64_t bytes) const {
  const int64_t budget = options_.memory_budget << 20, held = loaded_bytes();
  if (budget == 0 || bytes + held <= budget) return;
  const auto mebibytes = [](int64_t count) { return static_cast<double>(count) / (1 << 20); };
  fail<ConfigError>(
      "model '{}': its weights take {:.1f} MiB, and those that are loaded {:.1f}; expected at most "
      "{} together (memory_budget): unload a model, or raise the budget",
      entry.source.name, mebibytes(bytes), mebibytes(held), options_.memory_budget);
}

std::shared_ptr<ServedModel> ModelRepository::load_model(const Entry& entry) {
  if (options_.memory_budget > 0) check_budget(entry, bytes_of_file(entry.source));
  auto model = std::make_shared<ServedModel>(
      entry.source.name, inference::Predictor(entry.source.target, entry.source.options), options_,
      decoders_, entry.statistics);
  check_budget(entry, model->weight_bytes());
  if (options_.warm_up) model->warm_up();
  return model;
}

void ModelRepository::load(const std::string& name) {
  const std::lock_guard one_at_a_time(load_mutex_);
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_) fail_with(503, "the server is about to stop; it loads no model any more");
    entry = &entry_of(name);
    entry->state = Entry::State::kLoading;
    entry->reason.clear();
  }
  std::shared_ptr<ServedModel> model;  // then the former one, which ends when it has answered
  try {
    model = load_model(*entry);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    entry->state = entry->model ? Entry::State::kReady : Entry::State::kFailed;
    entry->reason = error.what();
    throw;
  }
  const std::lock_guard lock(mutex_);
  std::swap(entry->model, model);
  entry->state = Entry::State::kReady;
}

void ModelRepository::unload(const std::string& name) {
  const std::lock_guard one_at_a_time(load_mutex_);
  std::shared_ptr<ServedModel> model;
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = &entry_of(name);
    if (!entry->model)
      fail_with(400, "the model '{}' is not loaded; there is nothing to unload", name);
    entry->state = Entry::State::kUnloading;
    model = std::move(entry->model);
  }
  model->drain();
  model.reset();
  const std::lock_guard lock(mutex_);
  entry->state = Entry::State::kUnloaded;
  entry->reason = "unloaded";
}

std::vector<ModelStatus> ModelRepository::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelStatus> all;
  for (const auto& [name, entry] : entries_) {
    all.push_back({name, entry->model ? kModelVersion : "", entry->state_text(), entry->reason});
  }
  return all;
}

std::shared_ptr<ServedModel> ModelRepository::find(const std::string& name,
                                                   const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto& entry = entry_of(name);
  if (!version.empty() && version != kModelVersion) {
    fail_with(404, "model '{}' has no version '{}'; expected {}", name, printable_start(version),
              kModelVersion);
  }
  if (entry.model) return entry.model;
  fail_with(503, "the model '{}' is not ready: {}", name,
            entry.reason.empty() ? "it is being loaded" : entry.reason);
}

StatisticsSnapshot ModelRepository::statistics(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return entry_of(name).statistics->snapshot();
}

bool ModelRepository::is_ready() const {
  const std::lock_guard lock(mutex_);
  const auto is_as_wanted = [](const auto& named) {
    return named.second->model || named.second->state == Entry::State::kUnloaded ||
           named.second->state == Entry::State::kUnloading;
  };
  return !is_draining_ && std::all_of(entries_.begin(), entries_.end(), is_as_wanted);
}

void ModelRepository::drain() {
  std::vector<std::shared_ptr<ServedModel>> models;
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
  }
  const std::lock_guard one_at_a_time(load_mutex_);  // what is being loaded, too
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->model) models.push_back(entry->model);
    }
  }
  for (const auto& model : models) model->drain();
}

}  // namespace fovea::serve
