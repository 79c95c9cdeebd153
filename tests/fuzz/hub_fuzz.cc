// What the hub says of a file, and of which model its config.json is: any bytes are read, or
// refused with a DataError; names that were read leave no folder.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/hub/file_head.h"
#include "fovea/hub/hub_name.h"
#include "fovea/hub/published_model.h"

namespace {

using fovea::hub::FileHead;

void check_name(const std::string& name) {
  if (name.empty() || name.find('/') != name.npos || name.front() == '.') std::abort();
}

// Lines of headers, as libcurl has them.
void read_head(std::string_view text) {
  fovea::net::HeaderLines lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end == text.npos ? text.size() : end + 1);
    text.remove_prefix(line.size());
    if (!lines.take(line)) break;
  }
  fovea::net::HttpReply reply{.status = 200, .headers = lines.headers()};
  fovea::hub::read_content_range(reply.header("content-range"));
  try {
    const FileHead head = fovea::hub::read_file_head(reply, "fuzz");
    check_name(head.commit);
    check_name(head.etag);
  } catch (const fovea::DataError&) {
  }
}

void read_name(std::string_view text) {
  try {
    const auto name = fovea::hub::parse_hub_name(text);
    if (name.repository.find("..") != name.repository.npos ||
        name.revision.find("..") != name.revision.npos || name.revision.front() == '/') {
      std::abort();
    }
  } catch (const fovea::ConfigError&) {
  }
}

// A config.json, and behind a zero a preprocessor_config.json.
void read_model(std::string_view text) {
  using fovea::JsonValue;
  const auto zero = text.find('\0');
  try {
    const auto config = fovea::parse_json(text.substr(0, zero), "fuzz", 16);
    if (zero == text.npos) {
      fovea::hub::read_published_model(JsonValue(config, "fuzz"), {});
      return;
    }
    const auto preprocessor = fovea::parse_json(text.substr(zero + 1), "fuzz", 16);
    fovea::hub::read_published_model(JsonValue(config, "fuzz"), JsonValue(preprocessor, "fuzz"));
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_head(text);
  read_name(text);
  read_model(text);
  return 0;
}
