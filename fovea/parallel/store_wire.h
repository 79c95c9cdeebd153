// What travels between the store in which ranks meet and those who ask it. See Note [The store].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::parallel {

// Note [The store]
// Ranks meet in a store of texts by name, which one process of the run has. Its requests are those
// of c10d's TCPStore, so that the one of torchrun's agent serves as well. That one lists its names
// to whoever connects, takes what it is given, and is waited for without end; so the store of a run
// that has no torchrun is Fovea's own. It listens where ranks are to come from alone, and before it
// hears a request it and the other side prove to each other that they have the secret of the run:
//   other side   "fovea:1\n", a number drawn for this once (32 bytes)
//   store        its own number, hmac(secret, "store" and both numbers)
//   other side   hmac(secret, "rank" and both numbers)
//   store        one byte: come in
// Nobody who listens learns the secret. What follows is neither encrypted nor signed.
// Integers are of the machine's order, little-endian: as c10d has them.

constexpr std::string_view kStoreHello = "fovea:1\n";
constexpr size_t kNonceBytes = 32, kProofBytes = 32;
constexpr char kStoreWelcome = '\x01';

// 32 bytes from the kernel that nobody can guess.
std::string random_bytes();
std::string proof_of_store(std::string_view secret, std::string_view rank_nonce,
                           std::string_view store_nonce);
std::string proof_of_rank(std::string_view secret, std::string_view rank_nonce,
                          std::string_view store_nonce);

// TCPStore's numbers.
enum class StoreOp : uint8_t {
  kValidate = 0,    // number: kStoreMagic; no answer
  kSet = 1,         // key, value; no answer
  kCompareSet = 2,  // key, expected, desired; answer: the value then
  kGet = 3,         // key; answer: its value, empty where it has none
  kAdd = 4,         // key, number; answer: the sum, 8 bytes
  kCheck = 5,       // keys; answer: a byte, 0 where all have values
  kNumKeys = 7,     // answer: 8 bytes
  kDelete = 8,      // key; answer: how many had a value, 8 bytes
  kPing = 13        // number; answer: the same, 4 bytes
};

constexpr uint32_t kStoreMagic = 0x3C85F7CE;
constexpr size_t kMaxKeyBytes = 8 << 10;
constexpr size_t kMaxValueBytes = 8 << 20;
constexpr size_t kMaxRequestBytes = 2 * kMaxValueBytes + 2 * kMaxKeyBytes;

struct StoreRequest {
  StoreOp op = StoreOp::kPing;
  std::vector<std::string> keys{};
  std::vector<std::string> values{};
  int64_t number = 0;

  bool operator==(const StoreRequest&) const = default;
};

std::string to_wire(const StoreRequest& request);
// Takes the first request off the front of what came; nothing where it is not whole yet. Throws
// DataError: no request, or one larger than any of ours.
std::optional<StoreRequest> take_request(std::string& received);

// A number as bytes, and a text after its length.
template <class T>
std::string wire_number(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string wire_text(std::string_view text);

}  // namespace fovea::parallel
