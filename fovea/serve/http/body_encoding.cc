#include "fovea/serve/http/body_encoding.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

class Inflater {
 public:
  explicit Inflater(int window_bits) {
    if (inflateInit2(&state_, window_bits) != Z_OK) fail_with(503, "zlib: out of memory");
  }
  ~Inflater() { inflateEnd(&state_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& state() { return state_; }

 private:
  z_stream state_{};
};

// zlib's header is told from bare blocks by its checksum.
bool has_zlib_header(std::string_view in) {
  if (in.size() < 2) return false;
  const auto first = static_cast<uint8_t>(in[0]), second = static_cast<uint8_t>(in[1]);
  return (first & 15) == Z_DEFLATED && (first * 256 + second) % 31 == 0;
}

std::string inflate_up_to(std::string_view in, int window_bits, size_t max_bytes) {
  Inflater inflater(window_bits);
  z_stream& state = inflater.state();
  std::string out;
  std::array<char, size_t{64} << 10> piece;
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  state.avail_in = static_cast<uInt>(in.size());
  for (;;) {
    state.next_out = reinterpret_cast<Bytef*>(piece.data());
    state.avail_out = piece.size();
    const int result = inflate(&state, Z_NO_FLUSH);
    const size_t made = piece.size() - state.avail_out;
    if (made > max_bytes - out.size()) {
      fail_with(413, "the body expands to more than {} bytes, which is the limit", max_bytes);
    }
    out.append(piece.data(), made);
    if (result == Z_STREAM_END) {
      if (state.avail_in == 0) return out;
      inflateReset(&state);  // gzip may have several members
    } else if (result != Z_OK || (made == 0 && state.avail_in == 0)) {
      fail_with(400, "the compressed body is damaged or cut short");
    }
  }
}

}  // namespace

std::string expand_body(std::string&& body, std::string_view encoding, size_t max_bytes) {
  const std::string name = lowered(encoding);
  if (name.empty() || name == "identity") return std::move(body);
  const bool is_gzip = name == "gzip" || name == "x-gzip";
  if (!is_gzip && name != "deflate") {
    fail_with(415, "Content-Encoding: found {}; expected gzip, deflate or none",
              printable_start(encoding));
  }
  if (body.size() > std::numeric_limits<uInt>::max()) {
    fail_with(413, "a compressed body of 4 GiB or more");
  }
  const int window_bits = is_gzip ? 16 + MAX_WBITS : has_zlib_header(body) ? MAX_WBITS : -MAX_WBITS;
  return inflate_up_to(body, window_bits, max_bytes);
}

}  // namespace fovea::serve
