// Sends what a run folder holds to MLflow, from where it was left off: each value once, whatever
// ends the process or the connection in between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/track/metric_file.h"
#include "fovea/track/mlflow_client.h"
#include "fovea/track/mlflow_config.h"
#include "fovea/track/run_facts.h"
#include "fovea/track/tracked_run.h"

namespace fovea::track {

// Note [Each value once]
// Steps of a split rise along metrics.jsonl, and so do those of a metric that are sent. What was
// sent is known twice: mlflow_run.json has the last step of each split once a request was answered,
// and the server has the last step of each metric. A process that was killed, or got no answer,
// asks the server before it goes on; a value is sent where its step is beyond both. Lines that a
// resumed run cuts off and writes anew are not sent again. Of a run that was being made the mark,
// which was written before and is a tag of it there, is searched for.

enum class RunEnd { kFinished, kStopped, kFailed };

struct SentSoFar {
  int64_t values = 0, files = 0;
};

class MlflowSender {
 public:
  // facts: tags besides those of the run folder. is_live: the run goes on; MLflow is told.
  // warn: told what is left out. Throws ConfigError: no address; DataError: mlflow_run.json is
  // damaged; WriteError.
  MlflowSender(std::filesystem::path run_dir, MlflowConfig config, Facts facts, bool is_live,
               std::function<void(const std::string&)> warn);

  // Sends what has come to metrics.jsonl. Throws MlflowError; DataError, WriteError: of files.
  void send_metrics();
  // What is left, the files, and how the run has ended; none: that is not known.
  void finish(std::optional<RunEnd> end);

  // Values that were not sent, counted in metrics.jsonl. Not while another thread sends.
  int64_t num_waiting() const;
  // Files that are there and were not sent as they are: what is due at the end of a run.
  std::vector<std::string> files_waiting() const;
  const SentSoFar& sent() const { return sent_; }
  const std::string& uri() const { return client_.uri(); }
  // Of the run's page; empty: it is not made yet.
  std::string page() const { return run_ ? client_.page_of(*run_) : ""; }
  // From any thread: what is under way ends with an MlflowError, and so does all later on.
  void interrupt() { client_.interrupt(); }

 private:
  void open();
  void find_or_make_run();
  void describe_run();
  void send_pairs(const char* key, const Facts& facts, size_t max_value_bytes, size_t max_items);
  void send_lines();
  void send_files();
  bool is_sent(const MetricLine& line, const std::string& name) const;

  std::filesystem::path run_dir_;
  MlflowConfig config_;
  Facts facts_;
  bool is_live_;
  std::function<void(const std::string&)> warn_;
  MlflowClient client_;
  SenderLock lock_;
  TrackedRun state_;
  std::optional<MlflowRun> run_;  // as the server had it last
  bool is_open_ = false;          // and has it still: nothing has failed since
  bool is_described_ = false;
  MetricFile file_;
  std::vector<MetricLine> lines_;  // taken out of the file, and not sent yet
  SentSoFar sent_;
};

}  // namespace fovea::track
