#include "fovea/hub/repository.h"

#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/hub/download.h"
#include "fovea/hub/hub_error.h"

namespace fovea::hub {
namespace {

constexpr int kHeadTries = 4;

}  // namespace

Repository::Repository(HubName name, HubSettings settings)
    : name_(std::move(name)),
      settings_(std::move(settings)),
      cache_(settings_.cache, name_.repository),
      commit_(cache_.commit_of(name_.revision)),
      is_current_(commit_ == name_.revision) {
  if (settings_.is_offline) why_not_ = "HF_HUB_OFFLINE is set";
}

std::optional<std::string> Repository::find_kept(const std::string& file) const {
  return commit_ ? cache_.find(*commit_, file) : std::nullopt;
}

std::optional<std::string> Repository::find(const std::string& file) {
  auto kept = find_kept(file);
  if (!why_not_.empty()) {
    if (kept || (commit_ && cache_.has_commit(*commit_))) return kept;
    fail_without(file);
  }
  if (kept && is_current_) return kept;
  if (!client_) client_ = std::make_unique<HubClient>(settings_);
  auto asked = name_;
  if (is_current_) asked.revision = *commit_;
  FileHead head;
  try {
    head = client_->head(asked, file, kept ? 1 : kHeadTries);
  } catch (const HubError& error) {
    if (error.kind() == HubError::Kind::kNoEntry) return std::nullopt;
    const bool is_kept =
        kept &&
        (error.kind() == HubError::Kind::kNoAnswer || error.kind() == HubError::Kind::kDenied ||
         error.kind() == HubError::Kind::kGated || error.kind() == HubError::Kind::kNoRepository);
    if (!is_kept) throw;
    log_warning(fmt::format("{}\nWhat was fetched before is taken", error.what()));
    why_not_ = error.what();
    return kept;
  }
  return keep(file, head);
}

std::string Repository::keep(const std::string& file, const FileHead& head) {
  commit_ = head.commit;
  is_current_ = true;
  if (const auto kept = cache_.find(head.commit, file)) {
    try {
      cache_.remember(name_.revision, head.commit);
    } catch (const Error&) {  // a cache that others fill may be read
    }
    return *kept;
  }
  cache_.make_folders();
  cache_.remember(name_.revision, head.commit);
  const CacheLock lock(cache_.lock_file(head.etag));
  if (!is_there(cache_.blob(head.etag))) {
    download(*client_, {.name = name_,
                        .file = file,
                        .head = head,
                        .incomplete = cache_.incomplete(head.etag),
                        .blob = cache_.blob(head.etag)});
  }
  return cache_.link(head.etag, head.commit, file);
}

void Repository::fail_without(const std::string& file) const {
  throw HubError(
      HubError::Kind::kNoAnswer,
      fmt::format("{}: {}, and {} is not among what was fetched before ({}); fetch it where there "
                  "is a network, and copy that folder here or name its place with HF_HUB_CACHE",
                  text(), why_not_, file, printable(cache_.folder().string())));
}

std::string find_weights(Repository& repository) {
  if (auto path = repository.find("model.safetensors")) return *path;
  if (auto path = repository.find("pytorch_model.bin")) return *path;
  for (const auto* index : {"model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    if (!repository.find(index)) continue;
    fail<DataError>(
        "{}: its weights lie in several files ({}); expected one, model.safetensors: load them in "
        "Python and save them with safetensors.torch.save_file",
        repository.text(), index);
  }
  if (repository.is_kept_alone()) repository.fail_without("model.safetensors");
  fail<DataError>(
      "{}: no weights in it; expected model.safetensors or pytorch_model.bin. Weights of another "
      "name or format can be fetched by hand and given as a file: --weights FILE",
      repository.text());
}

}  // namespace fovea::hub
