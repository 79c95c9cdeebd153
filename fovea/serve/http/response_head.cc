#include "fovea/serve/http/response_head.h"

#include <fmt/format.h>

#include <array>
#include <boost/beast/http/status.hpp>
#include <ctime>

namespace fovea::serve {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const size_t length = strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), length};
}

void add_line(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  for (const char c : value) head += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  head += "\r\n";
}

}  // namespace

std::string response_head(const HttpResponse& response, bool keeps_alive, std::string_view id) {
  const auto status = static_cast<boost::beast::http::status>(response.status);
  const auto reason = boost::beast::http::obsolete_reason(status);
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 std::string_view(reason.data(), reason.size()));
  add_line(head, "Date", http_date());
  for (const auto& [name, value] : response.headers) add_line(head, name, value);
  if (response.status != 204) {
    add_line(head, "Content-Length", std::to_string(response.body.size()));
  }
  add_line(head, "X-Content-Type-Options", "nosniff");
  if (!id.empty()) add_line(head, "X-Request-Id", id);
  add_line(head, "Connection", keeps_alive ? "keep-alive" : "close");
  return head += "\r\n";
}

}  // namespace fovea::serve
