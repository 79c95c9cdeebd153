#include "fovea/train/run/training_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/log.h"
#include "fovea/core/memory.h"
#include "fovea/core/wall_clock.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/train/run/bad_samples_file.h"

namespace fovea::train {
namespace {

// Lines, for when nothing may be written for a while: minutes of short steps with a line each.
constexpr int64_t kMostRecent = 4096;

bool has(const std::deque<MetricsRecord>& records, const MetricsRecord& wanted) {
  return std::any_of(records.begin(), records.end(), [&](const MetricsRecord& record) {
    return record.step == wanted.step && record.split == wanted.split;
  });
}

}  // namespace

TrainingLog::TrainingLog(const std::string& run_dir, const LogConfig& config,
                         ProgressLine::Mode mode, Role role)
    : run_dir_(run_dir),
      config_(config),
      mode_(mode),
      progress_(role == Role::kSilent ? ProgressLine::Mode::kSilent : mode) {
  if (role == Role::kWriter) open_files();
}

void TrainingLog::open_files() {
  metrics_ = std::make_unique<MetricsWriter>(run_dir_ + "/metrics.jsonl");
  if (config_.tensorboard) tensorboard_ = std::make_unique<TensorboardWriter>(run_dir_);
}

void TrainingLog::set_role(Role role) {
  const bool is_writer = role == Role::kWriter;
  if (is_writer == (metrics_ != nullptr)) return;
  progress_.clear();
  progress_ = ProgressLine(is_writer ? mode_ : ProgressLine::Mode::kSilent);
  if (is_writer) return open_files();
  metrics_.reset();
  tensorboard_.reset();
  wandb_.reset();
  mlflow_.reset();
}

bool TrainingLog::is_line_due(int64_t steps, const LogPosition& position) const {
  return window_.steps + steps >= steps_of_a_line(config_, position.first_size_steps) ||
         position.step == position.num_steps;
}

void TrainingLog::add(const StepOutcome& outcome, const StepCost& cost,
                      const LogPosition& position) {
  window_.steps += 1;
  window_.loss_scale = outcome.loss_scale;
  if (outcome.is_skipped) {  // the lines are of what was learned from
    window_.skipped_steps += 1;
  } else {
    window_.loss_sum += outcome.loss * outcome.weight;
    window_.weight += outcome.weight;
    window_.grad_norm_sum += outcome.grad_norm;
    for (const auto& [name, sum] : outcome.sums) window_.sums[name] += sum;
  }
  window_.cost.images += cost.images;
  window_.cost.seconds += cost.seconds;
  window_.cost.wait_seconds += cost.wait_seconds;
  window_.cost.comm_seconds += cost.comm_seconds;
  const double rate = static_cast<double>(cost.images) / std::max(cost.seconds, 1e-9);
  images_per_second_ = images_per_second_ == 0 ? rate : 0.95 * images_per_second_ + 0.05 * rate;
  const auto text = progress_text(position);
  progress_.update(text);
  if (!is_line_due(0, position)) return;
  log_to_file(text);
  write_line(position);
}

void TrainingLog::write_line(const LogPosition& position) {
  const double seconds = std::max(window_.cost.seconds, 1e-9);
  MetricsRecord record{
      .step = position.step, .epoch = position.epoch, .split = "train", .values = {}};
  record.values["lr"] = position.lr;
  if (position.batch_size > 0) {
    record.values["global_batch"] = static_cast<double>(position.batch_size);
  }
  if (position.generation > 0) {
    record.values["generation"] = static_cast<double>(position.generation);
    record.values["time"] = seconds_since_1970();  // not all of it is in steps
  }
  if (position.similarity) record.values["similarity"] = *position.similarity;
  if (position.noise_scale) record.values["noise_scale"] = *position.noise_scale;
  if (const auto good = window_.steps - window_.skipped_steps; good > 0) {
    record.values["loss"] = window_.loss_sum / window_.weight;
    record.values["grad_norm"] = window_.grad_norm_sum / static_cast<double>(good);
    for (const auto& [name, sum] : window_.sums) record.values[name] = sum / window_.weight;
  }
  if (window_.loss_scale > 0) {
    record.values["loss_scale"] = window_.loss_scale;
    record.values["skipped_steps"] = static_cast<double>(window_.skipped_steps);
  }
  record.values["images_per_second"] = static_cast<double>(window_.cost.images) / seconds;
  record.values["data_wait"] = window_.cost.wait_seconds / seconds;
  record.values["memory_bytes"] = static_cast<double>(peak_memory_bytes());
  if (flops_per_image_ > 0) {
    record.values["mfu"] =
        flops_per_image_ * record.values["images_per_second"] / (1e12 * *config_.peak_tflops);
  }
  std::exception_ptr lost;
  try {
    if (ranks_) add_rank_times(record);
  } catch (const parallel::RankError&) {
    if (!may_publish_) throw;
    lost = std::current_exception();  // others may have written the line: here it is written too
  }
  write(record);
  window_ = {};
  if (lost) std::rethrow_exception(lost);
}

void TrainingLog::add_rank_times(MetricsRecord& record) {
  const auto times = gather_times({.seconds = window_.cost.seconds,
                                   .data = window_.cost.wait_seconds,
                                   .comm = window_.cost.comm_seconds},
                                  *ranks_);
  times_.resize(times.size());
  for (size_t rank = 0; rank < times.size(); ++rank) times_[rank].add(times[rank]);
  const auto straggler = find_straggler(times);
  record.values["comm_wait"] = straggler.comm_share;
  record.values["slowest_rank"] = static_cast<double>(straggler.rank);
  record.values["slowest_rank_wait"] = straggler.waited_share;
}

void TrainingLog::count_flops(double flops_per_image, int64_t num_ranks) {
  flops_per_image_ = flops_per_image / static_cast<double>(num_ranks);
}

void TrainingLog::say_ranks() {
  if (!times_.empty()) say("ranks: " + text_of(find_straggler(times_)));
}

void TrainingLog::add_evaluation(const std::map<std::string, double>& metrics, int64_t num_left_out,
                                 const LogPosition& position) {
  num_left_out_ = num_left_out;
  MetricsRecord record{
      .step = position.step, .epoch = position.epoch, .split = "val", .values = metrics};
  if (position.generation > 0) record.values["time"] = seconds_since_1970();
  if (num_left_out_ > 0) {
    record.values["num_left_out"] = static_cast<double>(num_left_out_);
    say(fmt::format("evaluation: {} bad samples are left out", num_left_out_));
  }
  write(std::move(record));
}

void TrainingLog::watch(const std::string& split, data::Loader& loader) {
  loaders_[split] = &loader;
}

// "bad_samples": different ones so far. The file has their names.
void TrainingLog::write_bad_samples() {
  BadSamplesFile file;
  int64_t times = 0;
  for (const auto& [split, loader] : loaders_) {
    file[split] = {data::name_of(loader->bad_sample_policy()), loader->bad_samples()};
    for (const auto& sample : file[split].samples) times += sample.times;
  }
  if (times == times_written_) return;
  write_bad_samples_file(run_dir_ + "/bad_samples.json", file);
  times_written_ = times;
}

void TrainingLog::write(MetricsRecord record) {
  if (!metrics_ && !may_publish_) return;
  if (const auto loader = loaders_.find(record.split); loader != loaders_.end()) {
    const auto count = loader->second->bad_samples().size();
    if (count > 0) record.values["bad_samples"] = static_cast<double>(count);
  }
  if (may_publish_ && has(recent_, record)) return;  // of an evaluation that was done again
  recent_.push_back(std::move(record));
  num_unwritten_ = std::min(num_unwritten_ + 1, kMostRecent);
  if (recent_.size() > static_cast<size_t>(kMostRecent)) recent_.pop_front();
  publish();
}

bool TrainingLog::publish() {
  if (!metrics_ || num_unwritten_ == 0) return true;
  if (may_publish_ && may_publish_() != checkpoint::Publishing::kYes) return false;
  write_bad_samples();
  for (; num_unwritten_ > 0; --num_unwritten_) {
    write_to_files(recent_[recent_.size() - static_cast<size_t>(num_unwritten_)]);
  }
  return true;
}

void TrainingLog::write_to_files(const MetricsRecord& record) {
  metrics_->write(record);
  if (!tensorboard_) return;
  for (const auto& [name, value] : record.values) {
    tensorboard_->add_scalar(record.split + "/" + name, value, record.step);
  }
  tensorboard_->flush();
}

void TrainingLog::say(const std::string& text) {
  progress_.print(text);
  log_to_file(text);
}

// Ranks are not told from other programs.
void TrainingLog::watch_machine() {
  if (ranks_ && ranks_->size() > 1) return;
  const auto load = meter_.read(std::chrono::seconds(2));
  if (!load) return;
  remark_ = load->is_busy() ? load->text() : "";
  if (remark_.empty() || is_told_of_load_) return;
  is_told_of_load_ = true;
  log_to_file(fmt::format("the machine is busy: {}; steps take longer", remark_));
}

std::string TrainingLog::progress_text(const LogPosition& position) {
  watch_machine();
  const auto top1 = window_.sums.find("top1");
  const double done = position.first_size_step / static_cast<double>(position.steps_per_epoch);
  const int64_t rounded_up = position.first_size_steps + position.steps_per_epoch - 1;
  return format_progress({
      .epoch = static_cast<int64_t>(done) + 1,
      .num_epochs = rounded_up / position.steps_per_epoch,
      .step = position.step,
      .num_steps = position.num_steps,
      .loss = window_.weight > 0 ? window_.loss_sum / window_.weight
                                 : std::numeric_limits<double>::quiet_NaN(),
      .accuracy = top1 == window_.sums.end() ? -1 : top1->second / window_.weight,
      .images_per_second = images_per_second_,
      .data_wait = window_.cost.wait_seconds / std::max(window_.cost.seconds, 1e-9),
      .memory_bytes = peak_memory_bytes(),
      .seconds_left = static_cast<double>(position.samples_left) / images_per_second_,
      .remark = remark_,
  });
}

nlohmann::json TrainingLog::state() const {
  nlohmann::json bad_samples = nlohmann::json::object();
  for (const auto& [split, loader] : loaders_)
    bad_samples[split] = bad_samples_to_json(loader->bad_samples());
  return {{"bad_samples", bad_samples}, {"loss_sum", window_.loss_sum},
          {"weight", window_.weight},   {"grad_norm_sum", window_.grad_norm_sum},
          {"steps", window_.steps},     {"skipped_steps", window_.skipped_steps},
          {"sums", window_.sums}};
}

void TrainingLog::restore(const JsonValue& state) {
  window_ = {};
  window_.loss_sum = state.at("loss_sum").number();
  window_.weight = state.at("weight").number();
  window_.grad_norm_sum = state.at("grad_norm_sum").number();
  window_.steps = state.at("steps").integer();
  state.read("skipped_steps", window_.skipped_steps);  // not in earlier versions
  for (const auto& [name, sum] : state.at("sums").members()) window_.sums[name] = sum.number();
  const auto bad_samples = state.find("bad_samples");
  if (!bad_samples) return;  // of an earlier version
  for (const auto& [split, list] : bad_samples->members()) {
    if (const auto loader = loaders_.find(split); loader != loaders_.end())
      loader->second->restore_bad_samples(bad_samples_from_json(list));
  }
}

void TrainingLog::start(int64_t step) {
  std::erase_if(recent_, [&](const MetricsRecord& record) { return record.step > step; });
  num_unwritten_ = std::min(num_unwritten_, static_cast<int64_t>(recent_.size()));
  if (!metrics_) return;
  const auto last = metrics_->cut_after(step);
  times_written_ = -1;  // what an interrupted run has written after its checkpoint does not count
  write_bad_samples();
  if (tensorboard_ && step > 0) tensorboard_->restart_at(step + 1);
  num_unwritten_ = std::count_if(recent_.begin(), recent_.end(), [&](const auto& record) {
    const auto of_split = last.find(record.split);
    return of_split == last.end() || record.step > of_split->second;
  });
  publish();
  start_followers();
}

void TrainingLog::start_followers() {
  if (!wandb_ && config_.wandb && config_.wandb->mode != "disabled") {
    wandb_ =
        std::make_unique<WandbFollower>(run_dir_, WandbOptions{.project = config_.wandb->project,
                                                               .entity = config_.wandb->entity,
                                                               .name = config_.wandb->name,
                                                               .mode = config_.wandb->mode});
  }
  if (!mlflow_ && config_.mlflow) {
    mlflow_ = std::make_unique<track::MlflowFollower>(run_dir_, *config_.mlflow, facts_);
  }
}

void TrainingLog::end_following(track::RunEnd end) {
  if (mlflow_) mlflow_->stop(end);
}

}  // namespace fovea::train
