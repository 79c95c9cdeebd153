// A model that answers requests, in batches.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/inference/predictor.h"
#include "fovea/serve/batcher.h"
#include "fovea/serve/model_interface.h"
#include "fovea/serve/model_statistics.h"
#include "fovea/serve/protocol/infer_response.h"
#include "fovea/serve/worker_threads.h"

namespace fovea::serve {

// Note [A request's way]
// A thread of the server reads the request and takes a place in the queue, or refuses it. A thread
// of `decoders`, which all models share, decodes and transforms its images or volumes (tensors have
// no need of that). A thread of the batcher puts it through the model, perhaps with others, and
// calls what waits for the answer. So images are decoded while a batch is computed, and a bad one
// is known before any batch holds it. What waits decoded is held to decoded_budget, for a volume
// may take a hundred times what its file does: once it is spent, inputs go to their batch as they
// came.
class ServedModel {
 public:
  // Called once, with the response or with the error that took its place.
  using Done = std::function<void(InferResponse&& response, std::exception_ptr error)>;

  // `decoders` outlives it. Throws ConfigError: a model that answers no requests.
  ServedModel(std::string name, inference::Predictor predictor, const ServeOptions& options,
              WorkerThreads& decoders, std::shared_ptr<ModelStatistics> statistics);
  ~ServedModel();  // as drain()
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // Blank inputs through all of it, of one request and of a whole batch. Throws what the model
  // does.
  void warm_up() const;

  // Throws StatusError: 400 the model does not take this, 503 the queue is full, or the model is
  // about to go; then `done` is not called. Else it is called later, from another thread.
  void infer(InferRequest&& request, Clock::time_point deadline, Done done);

  // Takes no more requests, and returns when those that were taken are answered.
  void drain();
  bool is_taking() const;

  const inference::Predictor& predictor() const { return predictor_; }
  nlohmann::ordered_json metadata() const { return interface_.metadata(name_); }
  nlohmann::ordered_json config() const { return interface_.config(name_); }
  // Of its parameters, buffers and their copies in another dtype.
  int64_t weight_bytes() const;

 private:
  struct Job;

  bool is_on_cpu() const;
  void take_place();
  void give_place(const Job& job);
  void decode(std::unique_ptr<Job> job);
  void prepare(Job& job);
  void compute(Batch&& batch, int64_t threads);
  void expire(Batch&& batch);
  void succeed(Job& job, std::vector<OutputTensor>&& outputs);
  void fail_job(Job& job, std::exception_ptr error);

  const std::string name_;
  const inference::Predictor predictor_;
  const ServeOptions options_;
  const ModelInterface interface_;
  WorkerThreads& decoders_;
  const std::shared_ptr<ModelStatistics> statistics_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::atomic<int64_t> decoded_bytes_ = 0;  // of requests that are not answered yet
  int64_t num_taken_ = 0;                   // these
  bool is_draining_ = false;
  Batcher batcher_;
};

}  // namespace fovea::serve
