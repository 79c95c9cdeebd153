#include "fovea/hub/hub_error.h"

#include "fovea/core/printable.h"

namespace fovea::hub {
namespace {

constexpr const char* kLogIn =
    "put a token of yours (https://huggingface.co/settings/tokens) into HF_TOKEN, or log in with "
    "`hf auth login`";

[[noreturn]] void refuse_repository(const std::string& repository, bool has_token) {
  throw HubError(
      HubError::Kind::kNoRepository,
      fmt::format("{}: there is no such repository, or it is private; check its name{}", repository,
                  has_token ? ", and whether the token that is sent may read it"
                            : fmt::format("; for a private one {}", kLogIn)));
}

}  // namespace

bool is_passing(int64_t status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

void refuse(const net::HttpReply& reply, const std::string& repository, const std::string& file,
            bool has_token) {
  const auto code = reply.header("x-error-code");
  if (code == "RevisionNotFound") {
    throw HubError(HubError::Kind::kNoRevision,
                   fmt::format("{}: the repository has no such revision; name one of its branches, "
                               "tags or commits, or none for its main branch",
                               repository));
  }
  if (code == "EntryNotFound") {
    throw HubError(HubError::Kind::kNoEntry,
                   fmt::format("{}: the repository has no file '{}'", repository, file));
  }
  if (code == "GatedRepo") {
    throw HubError(
        HubError::Kind::kGated,
        fmt::format("{}: its owner lets only those in who have agreed to terms; open its page, "
                    "agree, and {}",
                    repository,
                    has_token ? "use a token of that account: the one that is sent may not read it"
                              : kLogIn));
  }
  const auto told = reply.header("x-error-message");
  const auto reason = told.empty() ? "" : fmt::format(" ({})", printable_start(told, 200));
  if (reply.status == 401 && told.find("Invalid credentials") != std::string::npos) {
    throw HubError(HubError::Kind::kDenied,
                   fmt::format("{}: the token is refused{}; {}", repository, reason, kLogIn));
  }
  if (code == "RepoNotFound" || reply.status == 401 || reply.status == 404)
    refuse_repository(repository, has_token);
  if (reply.status == 403) {
    throw HubError(HubError::Kind::kDenied,
                   fmt::format("{}: access is refused{}; {}", repository, reason, kLogIn));
  }
  throw HubError(HubError::Kind::kNoAnswer,
                 fmt::format("{}: the hub answers HTTP {}{}; try again later", repository,
                             reply.status, reason));
}

}  // namespace fovea::hub
