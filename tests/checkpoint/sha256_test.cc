#include "fovea/checkpoint/sha256.h"

#include <gtest/gtest.h>

namespace fovea::checkpoint {
namespace {

std::string digest(const std::string& text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) {
    const auto part = text.substr(at, piece);
    hash.update(part.data(), part.size());
  }
  return hash.finish();
}

// The examples of NIST for FIPS 180-4.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(digest("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1000000, 'a'), 1000000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesDoNotMatter) {
  for (size_t size = 0; size < 200; ++size) {
    const std::string text(size, 'x');
    const auto whole = digest(text, 1000);
    for (const size_t piece : {1, 7, 64, 65}) ASSERT_EQ(digest(text, piece), whole) << size;
  }
}

}  // namespace
}  // namespace fovea::checkpoint
