// An MLflow server as small as it can be: one experiment, its runs, and what goes wrong on request.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/net/scripted_server.h"

namespace fovea::track {

class FakeMlflow {
 public:
  // What becomes of a request. kTakenButCut: it is done, and no answer comes.
  enum class Mood { kWell, kError500, kTakenButCut, kCut, kDenied, kHangs };

  FakeMlflow();
  std::string url() const { return server_->url(); }

  std::atomic<Mood> mood = Mood::kWell;
  std::atomic<int> num_well = -1;  // requests that are answered before the mood counts; -1: it does

  struct Run {
    std::string name, status;
    std::map<std::string, std::string> tags, params;
    // In the order in which they came: what came twice stands there twice.
    std::vector<std::pair<std::string, int64_t>> metrics;
    std::map<std::pair<std::string, int64_t>, std::string> values;  // as JSON
  };
  // Copies, while the server goes on.
  std::vector<Run> runs() const;
  std::map<std::string, std::string> files() const;
  size_t largest_batch() const;
  bool is_experiment_deleted = false, is_run_deleted = false;

 private:
  std::string answer(const std::string& request);
  std::string reply_to(const std::string& call, const std::string& body);
  std::string run_text(size_t index) const;
  void log_batch(Run& run, const std::string& body);

  mutable std::mutex mutex_;
  bool has_experiment_ = false;
  std::vector<Run> runs_;
  std::map<std::string, std::string> files_;
  size_t largest_batch_ = 0;
  std::unique_ptr<net::ScriptedServer> server_;  // the last member: it asks the others
};

}  // namespace fovea::track
