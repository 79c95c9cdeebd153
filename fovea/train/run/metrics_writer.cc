#include "fovea/train/run/metrics_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/write_all.h"
#include "fovea/core/write_error.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/lines.h"

namespace fovea::train {
namespace {

[[noreturn]] void fail_write(const std::string& path) {
  fail<WriteError>("{}: cannot be written: {}; free space, or choose another run.dir", path,
                   std::strerror(errno));
}

struct LinePlace {
  int64_t step = -1;  // of a line that is no record
  std::string split;
};

LinePlace place_of(const std::string& line) {
  const auto record = parse_json(line);
  if (!record.is_object() || !record.contains("step")) return {};
  const auto& step = record["step"];
  if (!step.is_number_integer()) return {};
  const auto split = record.find("split");
  const bool has_split = split != record.end() && split->is_string();
  return {step.get<int64_t>(), has_split ? split->get<std::string>() : ""};
}

// Writes the lines of steps up to `last_step` to `to`, each with its end. last: of each split.
void copy_lines(const std::string& path, int64_t last_step, AtomicFile& to,
                std::map<std::string, int64_t>& last) {
  constexpr size_t kBlockBytes = size_t{1} << 16;
  LineReader lines(path, kMaxMetricsLine);
  std::string kept;
  const auto flush = [&] {
    to.write(kept);
    kept.clear();
  };
  try {
    for (std::string line; lines.next(line);) {
      const auto [step, split] = place_of(line);
      if (lines.is_whole() && step >= 0 && step <= last_step) {
        kept += line + "\n";
        last[split] = step;
      }
      if (kept.size() > kBlockBytes) flush();
    }
  } catch (const DataError&) {
    flush();
    throw;
  }
  flush();
}

// A second name for the old file, so that nothing of it is lost when the new one takes its place.
void set_aside(const std::string& path, const std::string& aside) {
  unlink(aside.c_str());
  if (link(path.c_str(), aside.c_str()) == 0 || rename(path.c_str(), aside.c_str()) == 0) return;
  fail_write(aside);
}

}  // namespace

MetricsWriter::MetricsWriter(std::string path) : path_(std::move(path)) { open_file(); }

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) close(fd_);
}

void MetricsWriter::open_file() {
  check_output_file(path_);
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_write(path_);
}

void MetricsWriter::write(const MetricsRecord& record) {
  nlohmann::ordered_json line = {
      {"step", record.step}, {"epoch", record.epoch}, {"split", record.split}};
  for (const auto& [name, value] : record.values) line[name] = value;
  const off_t end = lseek(fd_, 0, SEEK_END);
  try {
    const auto text = json_text(line) + "\n";
    if (!write_all(fd_, std::as_bytes(std::span(text)))) fail_write(path_);
  } catch (const Error&) {
    if (ftruncate(fd_, end) != 0) fail_write(path_);
    throw;
  }
}

std::map<std::string, int64_t> MetricsWriter::cut_after(int64_t step) {
  AtomicFile kept(path_);
  std::map<std::string, int64_t> last;
  try {
    copy_lines(path_, step, kept, last);
  } catch (const DataError& error) {
    const auto aside = path_ + ".damaged";
    set_aside(path_, aside);
    log_warning(fmt::format("{}; the lines before it are kept, all of the file is in {}",
                            error.what(), aside));
  }
  kept.commit();
  close(fd_);
  open_file();
  return last;
}

}  // namespace fovea::train
