#include "fovea/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include "fovea/core/input_file.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/core/progress_line.h"
#include "fovea/core/stop_signals.h"
#include "fovea/core/write_error.h"
#include "fovea/files/sha256.h"
#include "fovea/hub/hub_error.h"

namespace fovea::hub {
namespace {

constexpr int kMostTries = 5;  // in a row that bring nothing
constexpr uint64_t kMostBytesUnpromised = uint64_t{64} << 20;

// What is over at once needs no line that moves.
constexpr uint64_t kLeastBytesShown = uint64_t{1} << 20;

double mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The file that grows.
class Incomplete {
 public:
  explicit Incomplete(std::string path)
      : path_(std::move(path)),
        descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    struct stat status {};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) refuse("made");
    if (!S_ISREG(status.st_mode)) fail<WriteError>("{}: not a regular file", printable(path_));
    size_ = static_cast<uint64_t>(status.st_size);
  }
  ~Incomplete() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Incomplete(const Incomplete&) = delete;
  Incomplete& operator=(const Incomplete&) = delete;

  uint64_t size() const { return size_; }
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written =
          pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse("written");
      bytes.remove_prefix(static_cast<size_t>(written));
      size_ += static_cast<uint64_t>(written);
    }
  }
  void start_again() {
    if (ftruncate(descriptor_, 0) != 0) refuse("written");
    size_ = 0;
  }
  void check_room(uint64_t whole) const {
    struct statvfs disk {};
    if (whole <= size_ || fstatvfs(descriptor_, &disk) != 0) return;
    const auto free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (free >= whole - size_) return;
    fail<WriteError>(
        "{}: {:.0f} MiB are to come, and the disk has room for {:.0f} MiB; make room, or name "
        "another place for the hub's files with HF_HOME",
        printable(path_), mebibytes(whole - size_), mebibytes(free));
  }
  void take_name(const std::filesystem::path& name) {
    if (fsync(descriptor_) != 0 || rename(path_.c_str(), name.c_str()) != 0) refuse("kept");
  }
  void remove() { unlink(path_.c_str()); }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail<WriteError>(
        "{}: cannot be {}: {}; free space, or name another place for the hub's files "
        "with HF_HOME",
        printable(path_), what, std::strerror(errno));
  }

  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  std::vector<uint8_t> buffer(size_t{1} << 20);
  Sha256 hash;
  for (uint64_t offset = 0; offset < file.size();) {
    const auto got = file.read_some(offset, buffer);
    if (got == 0) break;
    hash.update(buffer.data(), got);
    offset += got;
  }
  return hash.finish();
}

// One download, try by try.
class Fetch {
 public:
  Fetch(HubClient& client, const Download& task)
      : client_(client),
        task_(task),
        url_(task.head.url),
        file_(task.incomplete.string()),
        line_(is_log_verbose() ? ProgressLine::Mode::kAuto : ProgressLine::Mode::kSilent) {}

  void run() {
    // Of an unknown size nobody can tell whether what is here is all; and more than there should
    // be is of another content.
    if (!size() || file_.size() > *size()) file_.start_again();
    if (size()) file_.check_room(*size());
    const bool has_gone_on = file_.size() > 0;
    fetch_all();
    if (!has_content() && has_gone_on) {
      log_warning(shown() + ": what an earlier try left is damaged; fetching all of it again");
      file_.start_again();
      fetch_all();
    }
    if (!has_content()) {
      file_.remove();
      fail<DataError>(
          "{}: its SHA-256 is not {}, which the hub says it is; nothing of it is kept, "
          "so that the same command fetches it anew",
          shown(), task_.head.sha256());
    }
    file_.take_name(task_.blob);
  }

 private:
  const std::optional<uint64_t>& size() const { return task_.head.size; }
  HubName at_commit() const { return {task_.name.repository, task_.head.commit}; }
  std::string shown() const { return task_.name.text() + ": " + task_.file; }

  void fetch_all() {
    for (int tries = 0; !size() || file_.size() < *size();) {
      const auto before = file_.size();
      const auto fault = ask();
      if (fault.empty()) break;
      tries = file_.size() > before ? 0 : tries + 1;
      if (tries >= kMostTries) give_up(fault);
      log_info(fmt::format("{}: {}; going on at byte {}", shown(), fault, file_.size()));
      client_.wait(tries);
    }
    line_.clear();
  }

  // Asks for what is missing. Returns why the connection ended before all was there; empty: it did
  // not.
  std::string ask() {
    is_placed_ = false;
    const auto from = file_.size();
    net::HttpReply reply;
    try {
      reply = client_.get(url_, from, [&](const net::HttpReply& head, std::string_view bytes) {
        return take(head, from, bytes);
      });
    } catch (const net::HttpError& error) {
      return error.what();
    }
    if (StopSignals::received() != 0) {
      throw FetchStopped(fmt::format("{}: told to stop; the same command goes on at byte {}",
                                     shown(), file_.size()));
    }
    if (reply.status == 416) {  // there is nothing behind what is here
      file_.start_again();
      return "HTTP 416";
    }
    if (reply.status != 200 && reply.status != 206) {
      // An address that was signed for a while may have run out. Where it did not, the hub says
      // what else there is.
      if (!is_passing(reply.status)) url_ = client_.head(at_commit(), task_.file, 1).url;
      return fmt::format("HTTP {}", reply.status);
    }
    if (size() && file_.size() < *size()) return "the answer ended too early";
    return {};
  }

  bool take(const net::HttpReply& head, uint64_t from, std::string_view bytes) {
    if (StopSignals::received() != 0) return false;
    if (head.status != 200 && head.status != 206) return false;
    if (!is_placed_) begin(head, from);
    is_placed_ = true;
    const auto most = size().value_or(kMostBytesUnpromised);
    if (bytes.size() > most - std::min(most, file_.size())) {
      file_.remove();
      fail<DataError>("{}: more than the {} bytes that it should have; nothing of it is kept",
                      shown(), most);
    }
    file_.append(bytes);
    show();
    return true;
  }

  // Where the first byte of an answer belongs.
  void begin(const net::HttpReply& head, uint64_t from) {
    const bool is_part = head.status == 206;
    const auto range = read_content_range(head.header("content-range"));
    const bool is_ours = is_part && range && range->first == from &&
                         (!range->size || !size() || *range->size == *size());
    if (is_ours || (!is_part && from == 0)) return;
    if (is_part) {
      file_.remove();
      fail<DataError>(
          "{}: asked for bytes from {} on, found '{}'; nothing of it is kept, so that "
          "the same command fetches all of it",
          shown(), from, printable_start(head.header("content-range")));
    }
    file_.start_again();  // all of it, though a part was asked for
  }

  void show() {
    if (file_.size() < kLeastBytesShown) return;
    const auto done = mebibytes(file_.size());
    line_.update(size() ? fmt::format("{}  {:.1f}/{:.1f} MiB", shown(), done, mebibytes(*size()))
                        : fmt::format("{}  {:.1f} MiB", shown(), done));
  }

  [[noreturn]] void give_up(const std::string& fault) {
    line_.clear();
    throw HubError(HubError::Kind::kNoAnswer,
                   fmt::format("{}: {}, {} times in a row; what has come, {} bytes, is kept, and "
                               "the same command goes on there",
                               shown(), fault, kMostTries, file_.size()));
  }

  bool has_content() const {
    const auto expected = task_.head.sha256();
    return expected.empty() || sha256_of_file(task_.incomplete.string()) == expected;
  }

  HubClient& client_;
  const Download& task_;
  std::string url_;
  Incomplete file_;
  ProgressLine line_;
  bool is_placed_ = false;  // the first byte of the answer
};

}  // namespace

void download(HubClient& client, const Download& task) {
  const auto size = task.head.size.value_or(0);
  log_info(
      fmt::format("fetching {}: {}{}", task.name.text(), task.file,
                  size < kLeastBytesShown ? "" : fmt::format(" ({:.1f} MiB)", mebibytes(size))));
  Fetch(client, task).run();
}

}  // namespace fovea::hub
