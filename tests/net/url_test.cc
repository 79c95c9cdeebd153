#include "fovea/net/url.h"

#include <gtest/gtest.h>

namespace fovea::net {
namespace {

TEST(UrlTest, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://HuggingFace.co/a/b?c"), "https://huggingface.co:443");
  EXPECT_EQ(origin_of("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_EQ(origin_of("http://user:word@host/"), "http://host:80");
  EXPECT_EQ(origin_of("http://host@evil.org/"), origin_of("http://evil.org"));
  EXPECT_NE(origin_of("http://a@host@evil.org/"), origin_of("http://host"));
  EXPECT_NE(origin_of("http://host/"), origin_of("https://host/"));
  EXPECT_NE(origin_of("https://huggingface.co.evil.org/"), origin_of("https://huggingface.co"));
}

TEST(UrlTest, WhatIsNoAddressHasNone) {
  for (const auto* text : {"", "file:///etc/passwd", "ftp://host/a", "/a/b", "http://", "a b"}) {
    EXPECT_EQ(origin_of(text), "") << text;
  }
}

TEST(UrlTest, PartsOfPathsAreEncoded) {
  EXPECT_EQ(percent_encoded("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encoded("a/b c?.bin", true), "a/b%20c%3F.bin");
  EXPECT_EQ(percent_encoded("vit-b_16.x~"), "vit-b_16.x~");
}

}  // namespace
}  // namespace fovea::net
