#include "fovea/core/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"

namespace fovea {
namespace {

// RFC 4648, section 10.
TEST(Base64Test, GivesThePublishedVectors) {
  const std::vector<std::pair<std::string, std::string>> vectors = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, encoded] : vectors) {
    EXPECT_EQ(base64_encode(bytes), encoded);
    EXPECT_EQ(base64_decode(encoded), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(base64_decode(base64_encode(all)), all);
}

TEST(Base64Test, RefusesWhatIsNot) {
  EXPECT_THROW(base64_decode("Zg="), DataError);
  EXPECT_THROW(base64_decode("Zg=a"), DataError);
  EXPECT_THROW(base64_decode("Z\"g="), DataError);
  EXPECT_THROW(base64_decode("===="), DataError);
}

}  // namespace
}  // namespace fovea
