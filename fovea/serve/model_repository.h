// The models of a server: loaded, unloaded, and found by their names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/serve/model_statistics.h"
#include "fovea/serve/serve_options.h"
#include "fovea/serve/worker_threads.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::serve {

class ServedModel;

// What a model is loaded from, as train::load_inference takes it.
struct ModelSource {
  std::string name;
  std::string target;
  train::InferenceOptions options = {};
};

struct ModelStatus {
  std::string name;
  std::string version;  // "1"; empty: not loaded
  std::string state;    // Triton's: "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
  std::string reason;   // why it is not there: "unloaded", or the error of its load
};

// Thread-safe.
class ModelRepository {
 public:
  explicit ModelRepository(const ServeOptions& options);
  ~ModelRepository();  // as drain()
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  // Makes a model known, which is not loaded yet. Throws ConfigError: a name that there already is,
  // or that no URL can hold.
  void add(ModelSource source);
  // Loads a model and warms it up, or loads it again: the former one answers until the new one is
  // ready. One after another; takes seconds. Throws StatusError: no such name, the server is about
  // to stop; or what load_inference throws, which then is the model's reason; ConfigError: it would
  // pass the budget of memory, or it is of a kind that is not served.
  void load(const std::string& name);
  // Finishes what was taken. Throws StatusError: no such name, or not loaded.
  void unload(const std::string& name);

  std::vector<ModelStatus> models() const;  // by name
  // Throws StatusError: 404 no such name or version, 503 not ready. version: empty: any.
  std::shared_ptr<ServedModel> find(const std::string& name, const std::string& version = {}) const;
  // Of models that were ever loaded; it goes on over another load. Throws StatusError: no such
  // name.
  StatisticsSnapshot statistics(const std::string& name) const;

  // Whether all models that should be there are, and requests are taken.
  bool is_ready() const;
  // Takes no more requests, and returns when those that were taken are answered.
  void drain();

 private:
  struct Entry;

  Entry& entry_of(const std::string& name) const;
  std::shared_ptr<ServedModel> load_model(const Entry& entry);
  int64_t loaded_bytes() const;
  void check_budget(const Entry& entry, int64_t bytes) const;

  const ServeOptions options_;
  WorkerThreads decoders_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  bool is_draining_ = false;
  std::mutex load_mutex_;  // one load or unload at a time
};

}  // namespace fovea::serve
