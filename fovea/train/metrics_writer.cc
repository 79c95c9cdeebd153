#include "fovea/train/metrics_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::train {
namespace {

[[noreturn]] void fail_write(const std::string& path) {
  fail<Error>("{}: cannot be written: {}; free space, or choose another run.dir", path,
              std::strerror(errno));
}

// -1 for a line that is not a record.
int64_t step_of(const std::string& line) {
  const auto record = parse_json(line);
  if (!record.is_object() || !record.contains("step")) return -1;
  const auto& step = record["step"];
  return step.is_number_integer() ? step.get<int64_t>() : -1;
}

// The lines to keep, each with its end.
std::string lines_until(const std::string& path, int64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::string kept, line;
  while (std::getline(file, line)) {
    const bool is_whole = !file.eof();
    const int64_t step = step_of(line);
    if (is_whole && step >= 0 && step <= last_step) kept += line + "\n";
  }
  return kept;
}

void write_all(int fd, const std::string& text, const std::string& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path);
    done += static_cast<size_t>(written);
  }
}

}  // namespace

MetricsWriter::MetricsWriter(std::string path) : path_(std::move(path)) { open_file(); }

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) close(fd_);
}

void MetricsWriter::open_file() {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_write(path_);
}

void MetricsWriter::write(const MetricsRecord& record) {
  nlohmann::ordered_json line = {
      {"step", record.step}, {"epoch", record.epoch}, {"split", record.split}};
  for (const auto& [name, value] : record.values) line[name] = value;
  const off_t end = lseek(fd_, 0, SEEK_END);
  try {
    write_all(fd_, json_text(line) + "\n", path_);
  } catch (const Error&) {
    if (ftruncate(fd_, end) != 0) fail_write(path_);
    throw;
  }
}

void MetricsWriter::cut_after(int64_t step) {
  const std::string kept = lines_until(path_, step);
  const std::string temporary = path_ + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_write(temporary);
  try {
    write_all(fd, kept, temporary);
    if (fsync(fd) != 0) fail_write(temporary);
  } catch (const Error&) {
    close(fd);
    unlink(temporary.c_str());
    throw;
  }
  close(fd);
  if (rename(temporary.c_str(), path_.c_str()) != 0) fail_write(path_);
  close(fd_);
  open_file();
}

}  // namespace fovea::train
