#include "fovea/elastic/control/audit.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/input_file.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{1} << 20, kMaxLineBytes = size_t{64} << 20;
constexpr int64_t kMaxSamples = std::numeric_limits<uint32_t>::max();

// Each whole line of a file; the last one counts only with its line feed.
template <class Record>
void each_line(const fs::path& path, const std::function<void(const Record&)>& take) {
  const InputFile file(path.string());
  std::vector<uint8_t> bytes(kBlockBytes);
  std::string rest;  // of a line whose end is in the next block
  int64_t number = 0;
  for (uint64_t offset = 0; const size_t size = file.read_some(offset, bytes); offset += size) {
    std::string_view block(reinterpret_cast<const char*>(bytes.data()), size);
    for (size_t end; (end = block.find('\n')) != block.npos; block.remove_prefix(end + 1)) {
      rest += block.substr(0, end);
      take(from_json<Record>(rest, fmt::format("{}:{}", file.name(), ++number)));
      rest.clear();
    }
    rest += block;
    if (rest.size() > kMaxLineBytes) {
      fail<DataError>("{}:{}: a line of more than {} MiB", file.name(), number + 1,
                      kMaxLineBytes >> 20);
    }
  }
}

std::vector<fs::path> sample_files(const fs::path& run_dir) {
  const auto folder = run_dir / "samples";
  if (!is_folder(folder)) {
    fail<DataError>("{}: no such folder; an elastic run writes it with elastic.log_samples=true",
                    folder.string());
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  if (files.empty()) fail<DataError>("{}: holds no .jsonl file", folder.string());
  std::sort(files.begin(), files.end());
  return files;
}

// Of one step, in one generation.
struct StepRows {
  int64_t position = 0;
  int64_t rows = 0;
};

class Auditor {
 public:
  Auditor(std::vector<fs::path> files, std::optional<int64_t> num_samples)
      : files_(std::move(files)), is_size_given_(num_samples.has_value()) {
    size_ = num_samples.value_or(0);
    for (const auto& file : files_) {
      each_line<SampleLine>(file, [&](const SampleLine& line) { look_at(line, file); });
    }
    if (!is_size_given_ && size_ > num_ids_ * 1000) {
      fail<DataError>(
          "{}: samples up to {}, of which {} were seen; they are damaged, or give "
          "--num-samples",
          files_.front().parent_path().string(), size_ - 1, num_ids_);
    }
    if (steps_.empty() || size_ == 0)
      fail<DataError>("no step in {}", files_.front().parent_path().string());
  }

  void count(Audit& audit) {
    audit.num_samples = size_;
    // From the last generation to the first: from which step on those before are void.
    int64_t void_from = std::numeric_limits<int64_t>::max();
    for (auto generation = steps_.rbegin(); generation != steps_.rend(); ++generation) {
      void_from_[generation->first] = void_from;
      void_from = std::min(void_from, generation->second.begin()->first);
    }
    for (const auto& file : files_) {
      each_line<SampleLine>(file, [&](const SampleLine& line) { add(line); });
    }
    const auto [last_epoch, expected] = last_rows();
    const auto first_epoch = epochs_.begin()->first;
    if (last_epoch - first_epoch > num_lines_) {
      fail<DataError>("{}: positions of {} epochs in {} lines; they are damaged",
                      files_.front().parent_path().string(), last_epoch - first_epoch, num_lines_);
    }
    for (int64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
      audit.epochs.push_back(counted(epoch, epoch < last_epoch ? size_ : expected));
    }
  }

 private:
  void look_at(const SampleLine& line, const fs::path& file) {
    const auto [at, is_new] = steps_[line.generation].try_emplace(line.step);
    auto& step = at->second;
    if (is_new) step.position = line.position;
    if (step.position != line.position) {
      fail<DataError>("{}: step {} of generation {} begins at {}, and at {} for another worker",
                      file.string(), line.step, line.generation, line.position, step.position);
    }
    step.rows += static_cast<int64_t>(line.ids.size());
    num_lines_ += 1;
    num_ids_ += static_cast<int64_t>(line.ids.size());
    if (line.position < 0) fail<DataError>("{}: a position of {}", file.string(), line.position);
    for (const auto id : line.ids) {
      if (id < 0 || id >= (is_size_given_ ? size_ : kMaxSamples)) {
        fail<DataError>("{}: step {} has the sample {}; expected 0 to {}", file.string(), line.step,
                        id, (is_size_given_ ? size_ : kMaxSamples) - 1);
      }
      if (!is_size_given_) size_ = std::max(size_, id + 1);
    }
  }

  bool counts(int64_t generation, int64_t step) const { return step < void_from_.at(generation); }

  void add(const SampleLine& line) {
    if (!counts(line.generation, line.step)) return;
    auto& seen = epochs_[line.position / size_];
    for (const auto id : line.ids) seen.push_back(static_cast<uint32_t>(id));
  }

  EpochAudit counted(int64_t epoch, int64_t num_expected) {
    EpochAudit result{.epoch = epoch, .is_whole = num_expected == size_};
    auto& seen = epochs_[epoch];
    std::sort(seen.begin(), seen.end());
    for (size_t i = 0; i < seen.size(); ++i) {
      const bool is_first = i == 0 || seen[i] != seen[i - 1];
      const bool is_second = !is_first && (i == 1 || seen[i] != seen[i - 2]);
      result.samples += is_first ? 1 : 0;
      result.doubled += is_second ? 1 : 0;
    }
    result.missing = std::max<int64_t>(0, num_expected - result.samples);
    return result;
  }

  // The epoch in which the last step is, and how many of its samples are due up to there.
  std::pair<int64_t, int64_t> last_rows() const {
    const auto& last = steps_.rbegin()->second;
    const auto& [step, rows] = *last.rbegin();
    const auto epoch = rows.position / size_, offset = rows.position % size_;
    auto due = rows.rows;
    if (const auto before = last.find(step - 1); before != last.end()) {
      if (before->second.position / size_ == epoch)
        due = std::max(due, offset - before->second.position % size_);
    }
    return {epoch, std::min(size_, offset + due)};
  }

  std::vector<fs::path> files_;
  bool is_size_given_;
  int64_t size_ = 0;
  std::map<int64_t, std::map<int64_t, StepRows>> steps_;  // by generation and step
  std::map<int64_t, int64_t> void_from_;             // by generation: steps that were done again
  std::map<int64_t, std::vector<uint32_t>> epochs_;  // ids that were seen
  int64_t num_lines_ = 0, num_ids_ = 0;
};

}  // namespace

bool Audit::is_ok() const {
  return std::all_of(epochs.begin(), epochs.end(), [](const EpochAudit& epoch) {
    return epoch.missing == 0 && epoch.doubled == 0;
  });
}

Audit audit_run(const fs::path& run_dir, std::optional<int64_t> num_samples) {
  check_input_folder(run_dir.string(), "the folder of an elastic run");
  Audit audit;
  Auditor(sample_files(run_dir), num_samples).count(audit);
  std::set<int64_t> generations;
  each_line<Event>(run_dir / "events.jsonl", [&](const Event& event) {
    generations.insert(event.generation);
    audit.steps_lost += event.steps_lost;
  });
  audit.num_generations = static_cast<int64_t>(generations.size());
  return audit;
}

}  // namespace fovea::elastic
