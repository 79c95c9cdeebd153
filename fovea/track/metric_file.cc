#include "fovea/track/metric_file.h"

#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/json.h"
#include "fovea/core/text.h"
#include "fovea/track/mlflow_wire.h"

namespace fovea::track {
namespace {

// A line has no more of them; see train/run/metrics_writer.h.
constexpr size_t kBlockBytes = size_t{1} << 20;

}  // namespace

std::optional<MetricLine> read_metric_line(std::string_view text, int64_t otherwise_ms) {
  const auto record = parse_json(text);
  if (!record.is_object() || !record.contains("step") || !record.contains("split"))
    return std::nullopt;
  const auto &step = record["step"], &split = record["split"];
  if (!step.is_number_integer() || !split.is_string()) return std::nullopt;
  if (step.is_number_unsigned() ? step.get<uint64_t>() > std::numeric_limits<int64_t>::max()
                                : step.get<int64_t>() < 0) {
    return std::nullopt;
  }
  MetricLine line{.step = step.get<int64_t>(),
                  .split = split.get<std::string>(),
                  .time_ms = otherwise_ms,
                  .values = {}};
  for (const auto& [name, value] : record.items()) {
    if (name == "step" || !(value.is_number() || value.is_null())) continue;
    const double number =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    if (name == "time" && number > 0 && number < 1e11) {
      line.time_ms = std::llround(number * 1000);
    }
    line.values.emplace_back(mlflow_name(line.split + "/" + name), number);
  }
  return line;
}

std::vector<MetricLine> MetricFile::next() {
  const InputFile file(path_);
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) fail<DataError>("{}: cannot be read", path_);
  if (status.st_ino != inode_ || file.size() < offset_) {
    inode_ = status.st_ino;
    offset_ = 0;
    is_within_long_line_ = false;
  }
  const int64_t changed_ms =
      int64_t{1000} * status.st_mtim.tv_sec + status.st_mtim.tv_nsec / 1'000'000;
  std::vector<MetricLine> lines;
  while (lines.empty()) {
    std::string block(kBlockBytes, '\0');
    block.resize(file.read_some(offset_, {reinterpret_cast<uint8_t*>(block.data()), block.size()}));
    const auto end = block.rfind('\n');
    if (end == block.npos) {
      if (block.size() < kBlockBytes) return lines;  // not a whole line yet
      is_within_long_line_ = true;
      offset_ += block.size();
      continue;
    }
    offset_ += end + 1;
    std::string_view left(block.data(), end + 1);
    while (!left.empty()) {
      const auto text = take_line(left);
      const bool is_rest = std::exchange(is_within_long_line_, false);
      if (!is_rest && text.find_first_not_of(" \t\r") == text.npos) continue;
      auto line = is_rest ? std::nullopt : read_metric_line(text, changed_ms);
      if (line) {
        lines.push_back(std::move(*line));
      } else {
        ++num_damaged_;
      }
    }
  }
  return lines;
}

}  // namespace fovea::track
