#include "fovea/hub/file_head.h"

#include <algorithm>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/hub/hub_name.h"

namespace fovea::hub {
namespace {

constexpr size_t kShaDigits = 64, kMostEtagBytes = 128;

// A name of a file, wherever it comes from.
bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= kMostEtagBytes && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

// Without W/ in front and the quotes around it.
std::string_view plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  return etag;
}

std::string first_of(const net::HttpReply& reply, std::string_view name, std::string_view other) {
  auto value = reply.header(name);
  return value.empty() ? reply.header(other) : value;
}

}  // namespace

std::string FileHead::sha256() const {
  return etag.size() == kShaDigits && is_hexadecimal(etag) ? etag : std::string();
}

bool is_relative_location(const std::string& location) {
  return location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\");
}

FileHead read_file_head(const net::HttpReply& reply, const std::string& url) {
  FileHead head;
  head.commit = reply.header("x-repo-commit");
  if (!is_commit(head.commit)) {
    fail<DataError>(
        "{}: no commit in the answer (X-Repo-Commit: '{}'), so that it is not the hub's; check "
        "HF_ENDPOINT and the proxy",
        printable(url), printable_start(head.commit));
  }
  head.etag = plain_etag(first_of(reply, "x-linked-etag", "etag"));
  if (!is_plain_name(head.etag)) {
    fail<DataError>("{}: found the etag '{}'; expected letters and digits, which name its content",
                    printable(url), printable_start(head.etag));
  }
  const bool is_elsewhere = !reply.redirect_url.empty();
  const auto size = first_of(reply, "x-linked-size", is_elsewhere ? "" : "content-length");
  if (!size.empty()) {
    head.size = parse_number<uint64_t>(size);
    if (!head.size) {
      fail<DataError>("{}: found the size '{}'; expected a number of bytes", printable(url),
                      printable_start(size));
    }
  }
  head.url = is_elsewhere ? reply.redirect_url : url;
  return head;
}

std::optional<ContentRange> read_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || slash < dash) return std::nullopt;
  const auto first = parse_number<uint64_t>(text.substr(0, dash));
  const auto last = parse_number<uint64_t>(text.substr(dash + 1, slash - dash - 1));
  const auto size = parse_number<uint64_t>(text.substr(slash + 1));
  if (!first || !last || *last < *first || (!size && text.substr(slash + 1) != "*") ||
      (size && *last >= *size))
    return std::nullopt;
  return ContentRange{*first, size};
}

}  // namespace fovea::hub
