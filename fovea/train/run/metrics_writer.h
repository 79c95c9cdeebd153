// metrics.jsonl: one line of JSON for each record,
//   {"step": 20, "epoch": 0.09, "split": "train", "loss": ..., "lr": ..., <further metrics by
//   name>}
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fovea::train {

struct MetricsRecord {
  int64_t step = 0;
  double epoch = 0;
  std::string split;                     // "train" or "val"
  std::map<std::string, double> values;  // what is not finite becomes null
};

// The most bytes of a line: a few hundred metrics with their names are some ten thousand.
inline constexpr uint64_t kMaxMetricsLine = 1 << 20;

class MetricsWriter {
 public:
  // Appends to the file. Throws Error where it cannot be opened.
  explicit MetricsWriter(std::string path);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // One line, in one piece: a reader that follows the file never sees half of it. Throws Error
  // where the system refuses; no part of a line is left then.
  void write(const MetricsRecord& record);

  // Takes away the lines of steps after `step`, and a last line cut off by a crash: a run that goes
  // on from `step` then writes the file that it would have written uninterrupted. A crash meanwhile
  // leaves the old file or the new one. Where the file is damaged so that it cannot be read to its
  // end, what comes before stays, and the whole is kept beside it. -> the last step that is left of
  // each split.
  std::map<std::string, int64_t> cut_after(int64_t step);

 private:
  void open_file();

  std::string path_;
  int fd_ = -1;
};

}  // namespace fovea::train
