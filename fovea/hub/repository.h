// A repository of the hub: its files, fetched once and kept.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fovea/hub/cache.h"
#include "fovea/hub/hub_client.h"
#include "fovea/hub/hub_name.h"
#include "fovea/hub/settings.h"

namespace fovea::hub {

// All of its files are of one commit: that which the revision stands for when the first is asked
// for. Where the hub does not answer, what was fetched before counts, with a warning.
class Repository {
 public:
  explicit Repository(HubName name, HubSettings settings = hub_settings_of_environment());

  // The file on this machine; nothing: the repository has none of this name. Throws HubError: it
  // cannot be asked and the file is not here, there is no such repository, or it is for others;
  // DataError: the hub says what cannot be; WriteError.
  std::optional<std::string> find(const std::string& file);

  std::string text() const { return name_.text(); }  // its name, for messages

  // Whether files that are not here may be in the repository all the same: nobody can be asked.
  bool is_kept_alone() const { return !why_not_.empty(); }
  [[noreturn]] void fail_without(const std::string& file) const;

 private:
  std::optional<std::string> find_kept(const std::string& file) const;
  std::string keep(const std::string& file, const FileHead& head);

  HubName name_;
  HubSettings settings_;
  RepositoryCache cache_;
  std::unique_ptr<HubClient> client_;  // null: nobody is asked
  std::string why_not_;                // asked
  std::optional<std::string> commit_;
  bool is_current_;  // the revision stands for that commit now
};

// The weights of a repository: model.safetensors, or pytorch_model.bin, of which nothing is ever
// executed. Throws as find, and DataError: it has none of them; says what it has, as far as that is
// known.
std::string find_weights(Repository& repository);

}  // namespace fovea::hub
