#include "fovea/hub/hub_client.h"

#include <thread>
#include <utility>

#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/hub/hub_error.h"
#include "fovea/net/url.h"

namespace fovea::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostRedirectBytes = 1 << 20;
constexpr std::chrono::seconds kHeadTime{10};

bool is_secret(const std::string& url) { return net::origin_of(url).starts_with("https:"); }

// Where neither a proxy nor an eavesdropper stands in between.
bool is_on_this_machine(const std::string& origin) {
  return origin.starts_with("http://127.0.0.1:") || origin.starts_with("http://localhost:");
}

bool is_redirect(const net::HttpReply& reply) {
  return reply.status >= 300 && reply.status < 400 && !reply.redirect_url.empty();
}

}  // namespace

HubClient::HubClient(HubSettings settings)
    : settings_(std::move(settings)), origin_(net::origin_of(settings_.endpoint)) {
  if (origin_.empty()) {
    fail<ConfigError>("HF_ENDPOINT: '{}' is no address; expected https://huggingface.co",
                      printable_start(settings_.endpoint));
  }
  if (has_token() && origin_.starts_with("http://") && !is_on_this_machine(origin_)) {
    log_warning(fmt::format("{}: the token travels in the clear; expected https://", origin_));
  }
}

// Who is at another place gets no token: a signed url is enough there.
net::HttpRequest HubClient::request_to(const std::string& url) const {
  const auto origin = net::origin_of(url);
  net::HttpRequest request{.url = url,
                           .headers = {{"User-Agent", "fovea"}},
                           .ca_file = settings_.ca_file,
                           .uses_environment_proxy = !is_on_this_machine(origin)};
  if (has_token() && origin == origin_) {
    request.headers.emplace_back("Authorization", "Bearer " + settings_.token);
  }
  return request;
}

net::HttpReply HubClient::ask_head(const std::string& url) {
  auto request = request_to(url);
  request.method = "HEAD";
  // The size is that of the file, not of it compressed.
  request.headers.emplace_back("Accept-Encoding", "identity");
  request.timeout = kHeadTime;
  return http_.perform(request);
}

FileHead HubClient::head(const HubName& name, const std::string& file, int tries) {
  const auto first_url =
      fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, name.repository,
                  net::percent_encoded(name.revision), net::percent_encoded(file, true));
  for (int tried = 0;; ++tried) {
    auto url = first_url;
    std::string fault;
    try {
      auto reply = ask_head(url);
      for (int i = 0; i < kMostRedirects && is_redirect(reply) &&
                      is_relative_location(reply.header("location"));
           ++i) {
        url = reply.redirect_url;
        reply = ask_head(url);
      }
      if (reply.status == 200 || is_redirect(reply)) return read_file_head(reply, url);
      if (!is_passing(reply.status) || tried + 1 >= tries)
        refuse(reply, name.text(), file, has_token());
      fault = fmt::format("HTTP {}", reply.status);
    } catch (const net::HttpError& error) {
      if (tried + 1 >= tries) {
        const bool is_untrusted = error.kind() == net::HttpError::Kind::kCertificate;
        throw HubError(HubError::Kind::kNoAnswer,
                       fmt::format("{} does not answer: {}; {}", settings_.endpoint, error.what(),
                                   is_untrusted ? "name the file with who signs its certificate in "
                                                  "SSL_CERT_FILE"
                                                : "check the network, the proxy (https_proxy) and "
                                                  "HF_ENDPOINT"));
      }
      fault = error.what();
    }
    log_info(fmt::format("{}: {}; trying again", settings_.endpoint, fault));
    wait(tried);
  }
}

net::HttpReply HubClient::get(const std::string& first_url, uint64_t offset,
                              const net::HttpClient::OnBytes& on_bytes) {
  auto url = first_url;
  for (int i = 0; i < kMostRedirects; ++i) {
    auto request = request_to(url);
    request.headers.emplace_back("Accept-Encoding", "identity");
    if (offset > 0) request.headers.emplace_back("Range", fmt::format("bytes={}-", offset));
    request.timeout = std::chrono::milliseconds(0);
    request.min_bytes_per_second = 1024;
    size_t passed_over = 0;
    auto reply = http_.download(request, [&](const net::HttpReply& head, std::string_view bytes) {
      if (head.status < 300 || head.status >= 400) return on_bytes(head, bytes);
      passed_over += bytes.size();
      return passed_over < kMostRedirectBytes;
    });
    if (!is_redirect(reply)) return reply;
    if (is_secret(url) && !is_secret(reply.redirect_url)) {
      throw HubError(HubError::Kind::kNoAnswer,
                     fmt::format("{}: leads from https to {}, which is not followed",
                                 printable(first_url), printable_start(reply.redirect_url, 200)));
    }
    url = reply.redirect_url;
  }
  throw HubError(HubError::Kind::kNoAnswer,
                 fmt::format("{}: more than {} redirects", printable(first_url), kMostRedirects));
}

void HubClient::wait(int tries_before) const {
  std::this_thread::sleep_for(settings_.first_wait * (int64_t{1} << std::min(tries_before, 5)));
}

}  // namespace fovea::hub
