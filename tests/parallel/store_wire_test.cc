#include "fovea/parallel/store_wire.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

const std::vector<StoreRequest> kRequests = {
    {.op = StoreOp::kValidate, .number = kStoreMagic},
    {.op = StoreOp::kSet, .keys = {"a/b"}, .values = {std::string("\0x\xff", 3)}},
    {.op = StoreOp::kCompareSet, .keys = {"k"}, .values = {"", "new"}},
    {.op = StoreOp::kGet, .keys = {""}},
    {.op = StoreOp::kAdd, .keys = {"n"}, .number = -7},
    {.op = StoreOp::kCheck, .keys = {"a", "b", "c"}},
    {.op = StoreOp::kNumKeys},
    {.op = StoreOp::kDelete, .keys = {"k"}},
    {.op = StoreOp::kPing, .number = 0xffffffff},
};

TEST(StoreWireTest, RequestsComeThroughInAnyPieces) {
  std::string all;
  for (const auto& request : kRequests) all += to_wire(request);
  std::string received;
  std::vector<StoreRequest> taken;
  for (const char byte : all) {
    received += byte;
    while (!received.empty()) {
      const auto request = take_request(received);
      if (!request) break;
      taken.push_back(*request);
    }
  }
  EXPECT_EQ(taken, kRequests);
  EXPECT_EQ(received, "");
}

TEST(StoreWireTest, WhatIsNoRequestOfOursIsRefused) {
  const std::vector<std::string> strange = {
      "GET / HTTP/1.1\r\n\r\n",                          // its first letter is no request
      "\x11",                                            // TCPStore's list of all names
      "\x06",                                            // and its wait
      "\x03" + wire_number<uint64_t>(kMaxKeyBytes + 1),  // a name that is too long
      "\x03" + wire_number<uint64_t>(~uint64_t{0}),      // and one that ends nowhere
      "\x01" + wire_text("k") + wire_number<uint64_t>(kMaxValueBytes + 1),
  };
  for (auto bytes : strange) EXPECT_THROW(take_request(bytes), DataError) << bytes;
  // Names without end: each is within bounds, all together are not.
  std::string names = "\x05" + wire_number<uint64_t>(~uint64_t{0});
  const auto name = wire_text(std::string(kMaxKeyBytes, 'x'));
  while (names.size() <= kMaxRequestBytes) names += name;
  EXPECT_THROW(take_request(names), DataError);
}

TEST(StoreWireTest, ProofsDependOnAllThatGoesIn) {
  const auto proof = proof_of_rank("secret", "mine", "theirs");
  EXPECT_EQ(proof.size(), kProofBytes);
  EXPECT_EQ(proof, proof_of_rank("secret", "mine", "theirs"));
  EXPECT_NE(proof, proof_of_store("secret", "mine", "theirs"));  // no echo passes for an answer
  EXPECT_NE(proof, proof_of_rank("Secret", "mine", "theirs"));
  EXPECT_NE(proof, proof_of_rank("secret", "Mine", "theirs"));
  EXPECT_NE(proof, proof_of_rank("secret", "mine", "Theirs"));
  EXPECT_NE(random_bytes(), random_bytes());
}

}  // namespace
}  // namespace fovea::parallel
