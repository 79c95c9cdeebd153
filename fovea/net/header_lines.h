// The lines that stand before an answer's body, as they come from the network.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Reads status lines and headers, one call a line. Of several answers in a row (100 Continue, that
// of a proxy) the last one counts. What comes behind an answer's empty line, such as trailers of a
// body, is none of its headers: nobody can change what was read by then.
class HeaderLines {
 public:
  // False: all of them together are larger than anybody needs; nothing more is read.
  bool take(std::string_view line);

  // Names in lower case, values without the blanks around them; lines that are no header are left
  // out.
  const HttpHeaders& headers() const { return headers_; }

 private:
  HttpHeaders headers_;
  size_t bytes_ = 0;
  bool is_ended_ = false;
};

}  // namespace fovea::net
