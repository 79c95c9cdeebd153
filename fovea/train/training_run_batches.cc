// The sizes of a run's batches: that change by a request, or follow the gradients.
#include <fmt/format.h>

#include "fovea/core/error.h"
#include "fovea/data/order/batch_schedule.h"
#include "fovea/train/training_run.h"

namespace fovea::train {
namespace {

nlohmann::json state_of(const elastic::AdaptiveBatch& adaptive) {
  const auto& state = adaptive.state();
  return {{"batch", state.batch},
          {"count", state.count},
          {"similarity", state.similarity},
          {"signal", state.signal},
          {"noise", state.noise}};
}

// Nothing: batches have had one size.
std::optional<data::BatchSchedule> schedule_of(const JsonValue& scalars) {
  const auto found = scalars.find("batch_schedule");
  if (!found) return {};
  data::BatchSchedule schedule;
  for (const auto& change : found->items()) {
    const auto numbers = change.integers();
    if (numbers.size() != 2) change.refuse("[position, size]");
    schedule.push_back({numbers[0], numbers[1], {}});
  }
  return schedule;
}

}  // namespace

// What a checkpoint has of them.
nlohmann::json TrainingRun::batch_scalars() const {
  auto scalars = nlohmann::json::object();
  if (adaptive) scalars["adaptive_batch"] = state_of(*adaptive);
  if (!batch_request.empty()) scalars["batch_request"] = batch_request;
  // It was taken, and no batch has it yet: who goes on from here does not take it again.
  if (requested_change.size > 0 && requested_change.position >= position) {
    scalars["requested_change"] = {requested_change.position, requested_change.size};
  }
  if (!order().has_changes()) return scalars;
  auto& sizes = scalars["batch_schedule"] = nlohmann::json::array();
  for (const auto& change : data::schedule_before(order().batch_schedule(), position)) {
    sizes.push_back({change.position, change.size});
  }
  return scalars;
}

// At a step that is a look the host has the numbers of all steps so far.
void TrainingRun::follow_gradients(const StepOutcome& outcome, LogPosition& led_to) {
  if (outcome.halves && !outcome.is_skipped) adaptive->add(*outcome.halves);
  led_to.similarity = adaptive->similarity();
  if (config.elastic.metric == "noise") led_to.noise_scale = adaptive->noise_scale();
  const bool is_over = led_to.step >= length.steps;
  if (!adaptive->is_look_due(led_to.step) || is_over) return;
  FOVEA_CHECK(led_to.step == step, "step {}: a look at the batch, at step {}", led_to.step, step);
  change_batch(adaptive->next_batch());
}

void TrainingRun::append_change(const data::BatchSizeChange& change) {
  if (order().batch_size_at(change.position) == change.size) return;
  length = changed_length(config, order(), change);
  training.loader->append(change);
}

void TrainingRun::change_batch(int64_t size) {
  append_change({change_position(), size, "the plan of the run"});
  if (!adaptive || adaptive->batch() == size) return;
  log->say(fmt::format("step {}: batches of {} samples, {} before", step, size, adaptive->batch()));
  adaptive->change_to(size);
  write_batch_sizes();
}

void TrainingRun::take_batch_request(const std::string& request, int64_t size) {
  if (request.empty() || request == batch_request) return;
  batch_request = request;
  requested_change = {change_position(), size, {}};
  training.loader->seek(position);  // a step that broke off has taken its batch
  change_batch(size);
}

// For data.batch_schedule of another run.
void TrainingRun::write_batch_sizes() const {
  if (!is_writer() || !order().has_changes()) return;
  if (hooks.may_publish && hooks.may_publish() != checkpoint::Publishing::kYes) return;
  data::write_batch_schedule(folder.file(kBatchScheduleFile).string(), order().batch_schedule());
}

double TrainingRun::lr(int64_t steps) const {
  const double scheduled = schedule.lr(order().first_size_steps(steps));
  if (!adaptive) return scheduled;
  return scheduled * adaptive->lr_factor(order().batch_size_at(order().position_of(steps)));
}

// Of members that were there before this one came.
void TrainingRun::adopt_batch_schedule(const JsonValue& scalars) {
  const auto schedule = schedule_of(scalars);
  if (!schedule) return;
  for (const auto& change : *schedule) append_change({change.position, change.size, "the run"});
}

// A checkpoint of a run whose batch did not follow its gradients has nothing of it.
void TrainingRun::restore_batch(const JsonValue& scalars) {
  if (const auto request = scalars.find("batch_request")) batch_request = request->text();
  if (const auto change = scalars.find("requested_change")) {
    const auto numbers = change->integers();
    if (numbers.size() != 2) change->refuse("[position, size]");
    requested_change = {numbers[0], numbers[1], {}};
    append_change({numbers[0], numbers[1], "the run"});
  }
  const auto found = scalars.find("adaptive_batch");
  if (!adaptive || !found) return;
  adaptive->restore({.batch = static_cast<int64_t>(found->at("batch").count()),
                     .count = static_cast<int64_t>(found->at("count").count()),
                     .similarity = found->at("similarity").number(),
                     .signal = found->at("signal").number(),
                     .noise = found->at("noise").number()});
  // The change that the last step brought, which no batch has seen yet.
  if (adaptive->batch() > 0) append_change({change_position(), adaptive->batch(), "the run"});
}

// Position and schedule are one state: what lies before the position is done.
void TrainingRun::check_batches_done(const JsonValue& scalars) const {
  const auto done =
      schedule_of(scalars).value_or(data::BatchSchedule{{0, config.data.global_batch_size, {}}});
  const auto now = data::schedule_before(order().batch_schedule(), position);
  if (now == done) return;
  fail<ConfigError>(
      "{}: the run has taken its {} samples so far in batches of the sizes\n{}and "
      "data.batch_schedule has\n{}for them; expected the same before position {}: change only what "
      "lies behind it, or choose another run.dir",
      folder.path().string(), position, data::batch_schedule_text(done),
      data::batch_schedule_text(now), position);
}

}  // namespace fovea::train
