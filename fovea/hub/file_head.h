// What the hub says of a file before it is fetched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/net/http.h"

namespace fovea::hub {

struct FileHead {
  std::string commit;  // that the revision stands for now: hexadecimal digits
  // Names the content, and the file that keeps it: letters, digits, "-", "_" and "." alone.
  std::string etag;
  std::optional<uint64_t> size;
  std::string url;  // where it lies

  // Of large files the etag is the SHA-256 of the content; empty: of this one it is not.
  std::string sha256() const;
};

// Of the answer to HEAD at `url`, which is a success or leads elsewhere. Throws DataError naming
// the url: it is not what the hub says.
FileHead read_file_head(const net::HttpReply& reply, const std::string& url);

// "/a/b", of a Location that stays with the one who sent it; not "//host/a".
bool is_relative_location(const std::string& location);

// The first byte and the size of the whole, of a part of a file: "bytes 100-199/200".
struct ContentRange {
  uint64_t first = 0;
  std::optional<uint64_t> size;  // "*": it does not say
};
// Nothing: it is none.
std::optional<ContentRange> read_content_range(std::string_view text);

}  // namespace fovea::hub
