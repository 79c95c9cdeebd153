#include "fovea/serve/served_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/inference/ready_input.h"
#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/serve/answers.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

bool needs_decoding(const Question& question) {
  return !std::holds_alternative<at::Tensor>(question.inputs.front().content);
}

Clock::time_point after_microseconds(Clock::time_point begin, int64_t count) {
  constexpr int64_t kMost = int64_t{3'600'000'000};
  return begin + std::chrono::microseconds(std::min(count, kMost));
}

// The earliest moment at which the client, the server's default or the connection gives up.
Clock::time_point deadline_of(const Question& question, const ServeOptions& options,
                              Clock::time_point now, Clock::time_point connection) {
  auto deadline = connection;
  if (options.default_timeout_microseconds > 0)
    deadline = std::min(deadline, after_microseconds(now, options.default_timeout_microseconds));
  if (question.timeout_microseconds.value_or(0) > 0)
    deadline = std::min(deadline, after_microseconds(now, *question.timeout_microseconds));
  return deadline;
}

}  // namespace

struct ServedModel::Job : BatchItem {
  Question question;
  Done done;
  Clock::time_point arrived;
  RequestTimes times;
  int64_t decoded_bytes = 0;  // of the budget
};

ServedModel::ServedModel(std::string name, inference::Predictor predictor,
                         const ServeOptions& options, WorkerThreads& decoders,
                         std::shared_ptr<ModelStatistics> statistics)
    : name_(std::move(name)),
      predictor_(std::move(predictor)),
      options_(options),
      interface_(predictor_, options),
      decoders_(decoders),
      statistics_(std::move(statistics)),
      batcher_(
          options, is_on_cpu() ? at::get_num_threads() : 1,
          [this](Batch&& batch, int64_t threads) { compute(std::move(batch), threads); },
          [this](Batch&& batch) { expire(std::move(batch)); }) {}

ServedModel::~ServedModel() { drain(); }

void ServedModel::drain() {
  batcher_.hurry();
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  answered_.wait(lock, [&] { return num_taken_ == 0; });
}

bool ServedModel::is_taking() const {
  const std::lock_guard lock(mutex_);
  return !is_draining_;
}

int64_t ServedModel::weight_bytes() const {
  const auto& loaded = predictor_.loaded();
  size_t bytes = 0;
  for (const auto& weight : loaded.model->parameters()) bytes += weight.nbytes();
  for (const auto& buffer : loaded.model->buffers()) bytes += buffer.nbytes();
  if (const auto copies = loaded.copies->flat(); copies.defined()) bytes += copies.nbytes();
  return static_cast<int64_t>(bytes);
}

void ServedModel::warm_up() const {
  for (const int64_t size : {int64_t{1}, options_.max_batch_size}) {
    const auto question = interface_.blank_question(size);
    const Question* const questions[] = {&question};
    AnswerTimes times;
    const auto answers = answer(predictor_, questions, times);
    if (!answers.front().error) continue;
    try {
      std::rethrow_exception(answers.front().error);
    } catch (const DataError& error) {  // a client's own images may still be what it takes
      log_warning(fmt::format("{}: not warmed up: {}", name_, error.what()));
      return;
    }
  }
}

void ServedModel::take_place() {
  const std::lock_guard lock(mutex_);
  if (is_draining_)
    fail_with(503, "the model '{}' is about to be unloaded; ask again later", name_);
  if (!statistics_->begin_pending(options_.max_queue_size)) {
    fail_with(503,
              "{} requests wait for the model '{}', which is all that its queue holds "
              "(max_queue_size); ask again later",
              options_.max_queue_size, name_);
  }
  ++num_taken_;
}

// Under the lock to the end: whoever drains may take the model away behind it.
void ServedModel::give_place(const Job& job) {
  const std::lock_guard lock(mutex_);
  decoded_bytes_ -= job.decoded_bytes;
  --num_taken_;
  answered_.notify_all();
}

void ServedModel::infer(InferRequest&& request, Clock::time_point deadline, Done done) {
  auto job = std::make_unique<Job>();
  job->arrived = Clock::now();
  job->question = interface_.read(std::move(request));
  job->deadline = deadline_of(job->question, options_, job->arrived, deadline);
  job->size = static_cast<int64_t>(job->question.inputs.size());
  job->done = std::move(done);
  take_place();
  if (!needs_decoding(job->question)) {
    batcher_.push(std::move(job));
    return;
  }
  decoders_.post([this, held = std::make_shared<std::unique_ptr<Job>>(std::move(job))] {
    decode(std::move(*held));
  });
}

void ServedModel::decode(std::unique_ptr<Job> job) {
  const auto begin = Clock::now();
  job->times.queue += begin - job->arrived;
  if (begin >= job->deadline) {
    Batch late;
    late.push_back(std::move(job));
    return expire(std::move(late));
  }
  try {
    if (decoded_bytes_ < options_.decoded_budget << 20) prepare(*job);
    job->times.compute_input = Clock::now() - begin;
  } catch (...) {
    statistics_->end_pending();
    return fail_job(*job, std::current_exception());
  }
  batcher_.push(std::move(job));
}

void ServedModel::prepare(Job& job) {
  auto prepared = predictor_.prepared(job.question.inputs);
  for (auto& one : prepared) one.get();
  for (size_t i = 0; i < prepared.size(); ++i) {
    job.question.inputs[i] = std::move(*prepared[i].value);
    job.decoded_bytes += inference::ready_bytes(job.question.inputs[i]);
  }
  decoded_bytes_ += job.decoded_bytes;
}

bool ServedModel::is_on_cpu() const { return predictor_.loaded().compute.device.is_cpu(); }

void ServedModel::compute(Batch&& batch, int64_t threads) {
  std::optional<kernels::cpu::OwnThreadsScope> own_threads;
  if (is_on_cpu()) own_threads.emplace(static_cast<int>(threads));
  const auto begin = Clock::now();
  std::vector<Job*> jobs;
  std::vector<const Question*> questions;
  RequestTimes all;
  int64_t size = 0;
  for (const auto& item : batch) {
    statistics_->end_pending();
    jobs.push_back(static_cast<Job*>(item.get()));
    questions.push_back(&jobs.back()->question);
    jobs.back()->times.queue += begin - item->queued;
    all.compute_input += jobs.back()->times.compute_input;
    size += item->size;
  }
  std::vector<Answer> answers;
  AnswerTimes times;
  try {
    answers = answer(predictor_, questions, times);
  } catch (...) {  // memory that there is not
    answers.assign(jobs.size(), {.outputs = {}, .error = std::current_exception()});
  }
  all.compute_infer = times.compute;
  all.compute_output = times.output;
  const auto is_answered = [](const Answer& one) { return !one.error; };
  if (std::any_of(answers.begin(), answers.end(), is_answered)) statistics_->add_batch(size, all);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->times.compute_infer = times.compute;
    jobs[i]->times.compute_output = times.output;
    if (answers[i].error) {
      fail_job(*jobs[i], answers[i].error);
    } else {
      succeed(*jobs[i], std::move(answers[i].outputs));
    }
  }
}

void ServedModel::expire(Batch&& batch) {
  const auto now = Clock::now();
  for (const auto& item : batch) {
    statistics_->end_pending();
    auto& job = static_cast<Job&>(*item);
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - job.arrived);
    fail_job(
        job,
        std::make_exception_ptr(StatusError(
            503, fmt::format("the request has waited for {} microseconds, longer than its timeout; "
                             "ask again later",
                             waited.count()))));
  }
}

void ServedModel::succeed(Job& job, std::vector<OutputTensor>&& outputs) {
  job.times.whole = Clock::now() - job.arrived;
  statistics_->add_success(job.times, job.size);
  job.done({.model_name = name_,
            .model_version = kModelVersion,
            .id = job.question.id,
            .outputs = std::move(outputs)},
           nullptr);
  give_place(job);
}

void ServedModel::fail_job(Job& job, std::exception_ptr error) {
  statistics_->add_failure(Clock::now() - job.arrived);
  job.done({}, std::move(error));
  give_place(job);
}

}  // namespace fovea::serve
