#include "fovea/elastic/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/write_error.h"
#include "fovea/files/lines.h"

namespace fovea::elastic {
namespace {

constexpr uint64_t kMostBytesOfEvent = 1 << 20;

[[noreturn]] void refuse_to_append(const std::string& path) {
  fail<WriteError>("{}: cannot be written: {}; free space, or choose another run.dir", path,
                   std::strerror(errno));
}

// In one piece: who reads along sees whole lines.
void append_line(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) refuse_to_append(path);
  const auto text = line + "\n";
  const auto written = write(file, text.data(), text.size());
  const bool is_whole = written == static_cast<ssize_t>(text.size());
  if (close(file) != 0 || !is_whole) refuse_to_append(path);
}

}  // namespace

int64_t last_generation(const std::filesystem::path& folder) {
  const auto path = (folder / kEventsFile).string();
  int64_t last = 0;
  if (!is_there(path)) return last;
  each_whole_line(path, kMostBytesOfEvent, [&](const std::string& line, const std::string&) {
    last = std::max(last, from_json<Event>(line, path).generation);
  });
  return last;
}

Journal::Journal(std::filesystem::path folder, const std::string& worker, bool log_samples,
                 std::function<checkpoint::Publishing()> may_publish)
    : events_file_((folder / kEventsFile).string()), may_publish_(std::move(may_publish)) {
  if (!log_samples) return;
  std::filesystem::create_directories(folder / "samples");
  samples_file_ = (folder / "samples" / (worker + ".jsonl")).string();
}

void Journal::add(const Event& event) {
  waiting_.push_back(to_json(event));
  publish();
}

bool Journal::publish() {
  if (waiting_.empty()) return true;
  if (may_publish_() != checkpoint::Publishing::kYes) return false;
  for (const auto& line : waiting_) append_line(events_file_, line);
  waiting_.clear();
  return true;
}

void Journal::add(const SampleLine& samples) const { append_line(samples_file_, to_json(samples)); }

}  // namespace fovea::elastic
