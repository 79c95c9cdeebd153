#include "fovea/hub/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/core/write_error.h"
#include "fovea/files/atomic_file.h"
#include "fovea/hub/hub_name.h"

namespace fovea::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRefBytes = 256;

void make_folder(const fs::path& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (!fault) return;
  fail<WriteError>(
      "{}: the folder cannot be made: {}; HF_HOME names another place for the hub's files",
      printable(folder.string()), fault.message());
}

std::string folder_name(const std::string& repository) {
  std::string name = "models--";
  for (const char c : repository) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

}  // namespace

RepositoryCache::RepositoryCache(fs::path root, const std::string& repository)
    : root_(std::move(root)),
      folder_(root_ / folder_name(repository)),
      name_(folder_name(repository)) {}

std::optional<std::string> RepositoryCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const auto file = folder_ / "refs" / revision;
  if (!is_there(file) || is_folder(file)) return std::nullopt;
  auto text = read_file(file.string(), kMaxRefBytes);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!is_commit(text)) return std::nullopt;
  return text;
}

void RepositoryCache::remember(const std::string& revision, const std::string& commit) const {
  if (revision == commit || commit_of(revision) == commit) return;
  const auto file = folder_ / "refs" / revision;
  make_folder(file.parent_path());
  write_file_atomic(file.string(), commit);
}

fs::path RepositoryCache::snapshot_file(const std::string& commit, const std::string& file) const {
  return folder_ / "snapshots" / commit / file;
}

std::optional<std::string> RepositoryCache::find(const std::string& commit,
                                                 const std::string& file) const {
  std::error_code ignored;
  const auto path = snapshot_file(commit, file);
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  return path.string();
}

bool RepositoryCache::has_commit(const std::string& commit) const {
  return is_folder(folder_ / "snapshots" / commit);
}

fs::path RepositoryCache::incomplete(const std::string& etag) const {
  return folder_ / "blobs" / (etag + ".incomplete");
}

fs::path RepositoryCache::lock_file(const std::string& etag) const {
  return root_ / ".locks" / name_ / (etag + ".lock");
}

void RepositoryCache::make_folders() const {
  make_folder(folder_ / "blobs");
  make_folder(root_ / ".locks" / name_);
}

std::string RepositoryCache::link(const std::string& etag, const std::string& commit,
                                  const std::string& file) const {
  const auto path = snapshot_file(commit, file);
  make_folder(path.parent_path());
  // Relative, so that the cache may be moved; put in place whole, for others read it meanwhile.
  const auto target = fs::path(blob(etag)).lexically_relative(path.parent_path());
  const auto temporary = path.string() + "." + std::to_string(getpid());
  std::error_code fault;
  fs::create_symlink(target, temporary, fault);
  if (!fault) fs::rename(temporary, path, fault);
  if (fault) {
    const auto reason = fault.message();
    fs::remove(temporary, fault);
    fail<WriteError>(
        "{}: cannot be made a link to its content: {}; HF_HOME names another place for "
        "the hub's files",
        printable(path.string()), reason);
  }
  return path.string();
}

CacheLock::CacheLock(const fs::path& file) : file_(file, O_RDWR | O_CREAT, 0664) {
  if (file_.is_open() && file_.try_lock()) return;
  if (file_.is_open() && errno == EWOULDBLOCK)
    log_info("another program fetches the same file; waiting for it");
  if (file_.is_open() && file_.lock()) return;
  fail<WriteError>("{}: cannot be locked: {}", printable(file.string()), std::strerror(errno));
}

}  // namespace fovea::hub
