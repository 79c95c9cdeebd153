// What an HTTP client sends: any bytes are a request or refused with a status, and the same however
// they are cut. First byte: the size of the pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/request_parser.h"
#include "fovea/serve/protocol/status_error.h"

namespace {

using fovea::serve::RequestParser;

struct Outcome {
  int status = 0;  // of an error; 0: a request, or one that is not whole
  bool is_whole = false;
  std::string method, path, body;
  size_t num_headers = 0, rest = 0;

  bool operator==(const Outcome&) const = default;
};

fovea::serve::HttpLimits limits() {
  fovea::serve::HttpLimits limits;
  limits.header_bytes = 1 << 10;
  limits.body_bytes = 1 << 16;
  return limits;
}

Outcome outcome_of(std::string_view bytes, size_t piece) {
  RequestParser parser(limits());
  Outcome outcome;
  std::string pending;
  try {
    while (!bytes.empty() && parser.state() != RequestParser::State::kDone) {
      pending += bytes.substr(0, piece);
      bytes.remove_prefix(std::min(piece, bytes.size()));
      const size_t taken = parser.feed(pending);
      if (taken > pending.size()) abort();
      pending.erase(0, taken);
    }
    outcome.is_whole = parser.state() == RequestParser::State::kDone;
    if (!outcome.is_whole) return outcome;
    outcome.rest = pending.size() + bytes.size();
    const auto request = parser.take();
    if (request.body.size() > limits().body_bytes) abort();
    outcome.method = request.method;
    outcome.path = request.path;
    outcome.body = request.body;
    outcome.num_headers = request.headers.size();
  } catch (const fovea::serve::StatusError& error) {
    if (error.status() < 400 || error.status() > 599) abort();
    return {.status = error.status()};
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = outcome_of(bytes, bytes.size());
  const auto cut = outcome_of(bytes, size_t{data[0]} + 1);
  // Of a request that ends early in an error, more or less of it may have come.
  if (whole.status == 0 && cut.status == 0 && !(whole == cut)) abort();
  return 0;
}
