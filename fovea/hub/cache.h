// A repository's files on this machine, where huggingface_hub keeps them and as it does: what the
// one has fetched the other finds.
//
//   models--ORG--NAME/blobs/ETAG               contents
//   models--ORG--NAME/refs/REVISION            the commit that a branch or tag stood for
//   models--ORG--NAME/snapshots/COMMIT/FILE    links to contents
//   .locks/models--ORG--NAME/ETAG.lock         held by who fetches one
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fovea/core/file_lock.h"

namespace fovea::hub {

// All functions throw WriteError where a file or folder cannot be made.
class RepositoryCache {
 public:
  RepositoryCache(std::filesystem::path root, const std::string& repository);

  // Of a branch or tag, as it was when it was asked for last; a whole commit is its own. Nothing:
  // it is not known here.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void remember(const std::string& revision, const std::string& commit) const;

  // The file, where it is here.
  std::optional<std::string> find(const std::string& commit, const std::string& file) const;
  bool has_commit(const std::string& commit) const;

  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  // What is there of a content that is being fetched; its name is huggingface_hub's.
  std::filesystem::path incomplete(const std::string& etag) const;
  // Makes the blob a file of the commit. Returns its path there.
  std::string link(const std::string& etag, const std::string& commit,
                   const std::string& file) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path lock_file(const std::string& etag) const;
  // The folders that hold contents and locks.
  void make_folders() const;

 private:
  std::filesystem::path snapshot_file(const std::string& commit, const std::string& file) const;

  std::filesystem::path root_, folder_;
  std::string name_;
};

// Held while it lives, by one of all programs that use the cache: those of Python, too.
class CacheLock {
 public:
  // Waits for others, and says so. Throws WriteError.
  explicit CacheLock(const std::filesystem::path& file);

 private:
  FileLock file_;
};

}  // namespace fovea::hub
