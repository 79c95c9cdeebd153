#include "fovea/parallel/store_wire.h"

#include <sys/random.h>

#include <cstring>

#include "fovea/core/error.h"
#include "fovea/files/sha256.h"

namespace fovea::parallel {
namespace {

// Reads what is there of a request; `is_whole` turns false where it ends too early.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    const auto from = take(sizeof value);
    if (is_whole_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  std::string text(const char* what, size_t max_bytes) {
    const auto size = number<uint64_t>();
    if (size > max_bytes) {
      fail<DataError>("a {} of {} bytes; expected at most {}", what, size, max_bytes);
    }
    return std::string(take(size));
  }

  bool is_whole() const { return is_whole_; }
  size_t position() const { return at_; }

 private:
  std::string_view take(size_t size) {
    is_whole_ = is_whole_ && size <= bytes_.size() - at_;
    if (!is_whole_) return {};
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool is_whole_ = true;
};

void read_keys(WireReader& reader, std::vector<std::string>& keys) {
  const auto count = reader.number<uint64_t>();
  for (uint64_t i = 0; i < count && reader.is_whole(); ++i) {
    keys.push_back(reader.text("name", kMaxKeyBytes));
  }
}

StoreRequest read_request(WireReader& reader) {
  StoreRequest request{.op = static_cast<StoreOp>(reader.number<uint8_t>())};
  const auto key = [&] { request.keys.push_back(reader.text("name", kMaxKeyBytes)); };
  const auto value = [&] { request.values.push_back(reader.text("value", kMaxValueBytes)); };
  switch (request.op) {
    case StoreOp::kValidate:
    case StoreOp::kPing:
      request.number = reader.number<uint32_t>();
      return request;
    case StoreOp::kSet:
      key(), value();
      return request;
    case StoreOp::kCompareSet:
      key(), value(), value();
      return request;
    case StoreOp::kGet:
    case StoreOp::kDelete:
      key();
      return request;
    case StoreOp::kAdd:
      key();
      request.number = reader.number<int64_t>();
      return request;
    case StoreOp::kCheck:
      read_keys(reader, request.keys);
      return request;
    case StoreOp::kNumKeys:
      return request;
  }
  fail<DataError>("request {} of a store; expected one that ranks make",
                  static_cast<int>(request.op));
}

std::string proof(const char* who, std::string_view secret, std::string_view rank_nonce,
                  std::string_view store_nonce) {
  std::string message = who;
  message += rank_nonce;
  message += store_nonce;
  return hmac_sha256(secret, message);
}

}  // namespace

std::string random_bytes() {
  std::string bytes(kNonceBytes, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail("the kernel gives no random bytes: {}", std::strerror(errno));
  }
  return bytes;
}

std::string proof_of_store(std::string_view secret, std::string_view rank_nonce,
                           std::string_view store_nonce) {
  return proof("store", secret, rank_nonce, store_nonce);
}

std::string proof_of_rank(std::string_view secret, std::string_view rank_nonce,
                          std::string_view store_nonce) {
  return proof("rank", secret, rank_nonce, store_nonce);
}

std::string wire_text(std::string_view text) {
  auto bytes = wire_number<uint64_t>(text.size());
  bytes += text;
  return bytes;
}

std::string to_wire(const StoreRequest& request) {
  std::string bytes(1, static_cast<char>(request.op));
  if (request.op == StoreOp::kCheck) bytes += wire_number<uint64_t>(request.keys.size());
  for (const auto& key : request.keys) bytes += wire_text(key);
  for (const auto& value : request.values) bytes += wire_text(value);
  if (request.op == StoreOp::kAdd) bytes += wire_number<int64_t>(request.number);
  if (request.op == StoreOp::kValidate || request.op == StoreOp::kPing) {
    bytes += wire_number<uint32_t>(static_cast<uint32_t>(request.number));
  }
  return bytes;
}

std::optional<StoreRequest> take_request(std::string& received) {
  WireReader reader(received);
  auto request = read_request(reader);
  if (reader.is_whole()) {
    received.erase(0, reader.position());
    return request;
  }
  if (received.size() > kMaxRequestBytes) {
    fail<DataError>("a request of more than {} bytes", kMaxRequestBytes);
  }
  return {};
}

}  // namespace fovea::parallel
