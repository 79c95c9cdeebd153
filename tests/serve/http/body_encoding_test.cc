#include "fovea/serve/http/body_encoding.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

std::string deflated(const std::string& text, int window_bits) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 100, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

constexpr int kGzip = 16 + MAX_WBITS, kZlib = MAX_WBITS, kBare = -MAX_WBITS;

int status_of(std::string body, const std::string& encoding, size_t max_bytes = 1000) {
  try {
    expand_body(std::move(body), encoding, max_bytes);
  } catch (const StatusError& error) {
    return error.status();
  }
  return 200;
}

TEST(BodyEncodingTest, ExpandsWhatClientsSend) {
  const std::string text = "an image, an image, an image";
  EXPECT_EQ(expand_body(std::string(text), "", 1000), text);
  EXPECT_EQ(expand_body(std::string(text), "identity", 1000), text);
  EXPECT_EQ(expand_body(deflated(text, kGzip), "gzip", 1000), text);
  EXPECT_EQ(expand_body(deflated(text, kGzip), "X-Gzip", 1000), text);
  EXPECT_EQ(expand_body(deflated(text, kZlib), "deflate", 1000), text);
  EXPECT_EQ(expand_body(deflated(text, kBare), "deflate", 1000), text);
  EXPECT_EQ(expand_body(deflated(text, kGzip) + deflated(text, kGzip), "gzip", 1000), text + text);
}

TEST(BodyEncodingTest, StopsAtTheLimit) {
  const std::string zeros(1 << 20, '\0');
  EXPECT_EQ(status_of(deflated(zeros, kGzip), "gzip"), 413);
  EXPECT_EQ(status_of(deflated(zeros, kGzip), "gzip", (1 << 20) - 1), 413);
  EXPECT_EQ(status_of(deflated(zeros, kGzip), "gzip", 1 << 20), 200);
}

TEST(BodyEncodingTest, RefusesWhatIsDamaged) {
  const std::string whole = deflated("an image", kGzip);
  EXPECT_EQ(status_of(whole.substr(0, whole.size() - 1), "gzip"), 400);
  EXPECT_EQ(status_of(whole + "x", "gzip"), 400);
  EXPECT_EQ(status_of("", "gzip"), 400);
  EXPECT_EQ(status_of("no gzip at all", "gzip"), 400);
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // of its checksum
  EXPECT_EQ(status_of(damaged, "gzip"), 400);
  EXPECT_EQ(status_of(whole, "br"), 415);
}

}  // namespace
}  // namespace fovea::serve
