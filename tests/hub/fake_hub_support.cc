#include <fmt/format.h>

#include "fovea/files/sha256.h"
#include "tests/hub/fake_hub.h"

namespace fovea::hub {
namespace {

std::string sha256_text(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

std::string target_of(const std::string& request) {
  const auto from = request.find(' ') + 1;
  return request.substr(from, request.find(' ', from) - from);
}

size_t first_byte_of(const std::string& request) {
  constexpr std::string_view kName = "Range: bytes=";
  const auto at = request.find(kName);
  return at == request.npos ? 0 : std::stoul(request.substr(at + kName.size()));
}

std::string head_of(std::string answer) { return answer.substr(0, answer.find("\r\n\r\n") + 4); }

}  // namespace

FakeHub::FakeHub()
    : content_([this](const std::string& request) { return answer_with_content(request); }),
      hub_([this](const std::string& request) { return answer(request); }) {}

HubSettings FakeHub::settings(const std::string& cache) const {
  return {.endpoint = hub_.url(), .cache = cache, .first_wait = std::chrono::milliseconds(1)};
}

std::string FakeHub::answer(const std::string& request) {
  const auto target = target_of(request);
  const auto headers = fmt::format("X-Repo-Commit: {}\r\n", kFakeCommit);
  const auto refused = [&](const std::string& code, int64_t status) {
    return head_of(net::whole_answer(fmt::format("{} Refused", status),
                                     headers + "X-Error-Code: " + code + "\r\n", ""));
  };
  if (!error_code.empty()) return refused(error_code, error_status);
  if (!token.empty() && request.find("Authorization: Bearer " + token + "\r\n") == request.npos)
    return refused("GatedRepo", 401);
  if (target.starts_with("/org/old-name/")) {
    return head_of(net::whole_answer(
        "307 Temporary Redirect",
        "Location: /" + repository + target.substr(std::string("/org/old-name").size()) + "\r\n",
        ""));
  }
  for (const auto* revision : {"main", "v1", kFakeCommit.c_str()}) {
    const auto start = fmt::format("/{}/resolve/{}/", repository, revision);
    if (!target.starts_with(start)) continue;
    const auto file = target.substr(start.size());
    if (const auto found = small.find(file); found != small.end()) {
      const auto name =
          etag.empty() ? std::string("ab12") + std::to_string(found->second.size()) : etag;
      const auto whole =
          net::whole_answer("200 OK", headers + "ETag: \"" + name + "\"\r\n", found->second);
      return request.starts_with("HEAD") ? head_of(whole) : whole;
    }
    if (const auto found = large.find(file); found != large.end()) {
      return net::whole_answer(
          "302 Found",
          fmt::format("{}ETag: \"redirect\"\r\nX-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\n"
                      "Location: {}/signed/{}\r\n",
                      headers, etag.empty() ? sha256_text(found->second) : etag,
                      found->second.size(), content_.url(), file),
          "");
    }
    return refused("EntryNotFound", 404);
  }
  return refused(target.starts_with("/" + repository + "/") ? "RevisionNotFound" : "RepoNotFound",
                 target.starts_with("/" + repository + "/") ? 404 : 401);
}

std::string FakeHub::answer_with_content(const std::string& request) {
  const auto delivery = deliveries.empty() ? Delivery::kWell : deliveries.front();
  if (!deliveries.empty()) deliveries.erase(deliveries.begin());
  auto whole = large.at(target_of(request).substr(std::string("/signed/").size()));
  const auto size = whole.size();
  const auto first = first_byte_of(request);
  if (delivery == Delivery::kUnavailable) return net::whole_answer("503 Busy", "", "later");
  if (delivery == Delivery::kExpired) return net::whole_answer("403 Forbidden", "", "expired");
  if (delivery == Delivery::kOtherBytes) whole.assign(size, '?');
  if (delivery == Delivery::kMore) whole += '!';
  if (first > size) return net::whole_answer("416 Range Not Satisfiable", "", "");
  if (first == 0 || delivery == Delivery::kAll) {
    const auto answer = net::whole_answer("200 OK", "", whole);
    return delivery == Delivery::kCut ? answer.substr(0, answer.size() - whole.size() / 2) : answer;
  }
  const auto named = delivery == Delivery::kOtherRange ? first - 1 : first;
  const auto part = whole.substr(first);
  const auto answer = net::whole_answer(
      "206 Partial Content",
      fmt::format("Content-Range: bytes {}-{}/{}\r\n", named, named + part.size() - 1, size), part);
  return delivery == Delivery::kCut ? answer.substr(0, answer.size() - part.size() / 2) : answer;
}

}  // namespace fovea::hub
