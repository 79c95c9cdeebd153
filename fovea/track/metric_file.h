// metrics.jsonl of a run folder, read while it grows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::track {

// A line, with names as a tracker has them: "train/loss".
struct MetricLine {
  int64_t step = 0;
  std::string split;
  int64_t time_ms = 0;                                 // since 1970
  std::vector<std::pair<std::string, double>> values;  // null there is NaN
};

// otherwise_ms: the time of a line that has none itself. Nothing: it is no line of metrics.
std::optional<MetricLine> read_metric_line(std::string_view text, int64_t otherwise_ms);

class MetricFile {
 public:
  explicit MetricFile(std::string path) : path_(std::move(path)) {}

  // The next whole lines, of at most a MiB; none: there are no more at the moment. A file that took
  // the place of the one before, as a resumed run leaves it, is read from its start. A line without
  // a time has that of the file's last change. Throws DataError where the file cannot be read.
  std::vector<MetricLine> next();
  // Lines that are none, which were passed over.
  int64_t num_damaged() const { return num_damaged_; }

 private:
  std::string path_;
  ino_t inode_ = 0;
  uint64_t offset_ = 0;
  bool is_within_long_line_ = false;
  int64_t num_damaged_ = 0;
};

}  // namespace fovea::track
