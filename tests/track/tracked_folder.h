// A run folder with metrics, for tests of what sends them.
#pragma once

#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "tests/support/temp_dir.h"
#include "tests/track/fake_mlflow.h"

namespace fovea::track {

class TrackedFolder {
 public:
  TrackedFolder() {
    dir_.write("run/config.yaml", "model: {name: vit, depth: 2}\noptim: {betas: [0.9, 0.99]}\n");
    dir_.write("run/machine.json", R"({"version": "0.1.0", "device": "cpu"})");
    dir_.write("run/report.html", "<html>");
    dir_.write("run/metrics.jsonl", "");
  }
  std::string path() const { return dir_.path() + "/run"; }
  std::string file(const std::string& name) const { return path() + "/" + name; }

  void add_steps(int64_t first, int64_t last) {
    std::ofstream file(path() + "/metrics.jsonl", std::ios::app);
    for (int64_t step = first; step <= last; ++step) {
      file << R"({"step": )" << step << R"(, "epoch": 0.25, "split": "train", "loss": )"
           << (step == 2 ? "null" : "0.1") << "}\n";
      expected_.insert({"train/epoch", step});
      expected_.insert({"train/loss", step});
    }
  }
  // The names and steps of all values, which a server should have once each.
  const std::set<std::pair<std::string, int64_t>>& expected() const { return expected_; }
  bool is_all_there_once(const FakeMlflow& server) const {
    const auto runs = server.runs();
    if (runs.size() != 1) return false;
    const auto& metrics = runs[0].metrics;
    return metrics.size() == expected_.size() &&
           std::set(metrics.begin(), metrics.end()) == expected_;
  }

 private:
  support::TempDir dir_;
  std::set<std::pair<std::string, int64_t>> expected_;
};

}  // namespace fovea::track
