#include "fovea/parallel/greeting.h"

#include <fmt/format.h>

#include "fovea/files/sha256.h"
#include "fovea/parallel/store_wire.h"

namespace fovea::parallel {

std::string draw_secret() {
  std::string text;
  for (const char byte : random_bytes()) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

std::optional<std::string> greet(const Socket& socket, std::string_view secret, Deadline deadline) {
  const auto own = random_bytes();
  socket.send(std::string(kStoreHello) + own, deadline);
  const auto theirs = socket.receive(kNonceBytes, deadline);
  const auto proof = socket.receive(kProofBytes, deadline);
  if (!is_same_secret(proof, proof_of_store(secret, own, theirs))) return theirs;
  socket.send(proof_of_rank(secret, own, theirs), deadline);
  const auto answer = socket.receive(1, deadline);
  return answer[0] == kStoreWelcome ? std::nullopt : std::optional(answer);
}

bool answer_greeting(const Socket& socket, std::string_view secret, Deadline deadline) {
  if (socket.receive(kStoreHello.size(), deadline) != kStoreHello) return false;
  const auto theirs = socket.receive(kNonceBytes, deadline);
  const auto own = random_bytes();
  socket.send(own + proof_of_store(secret, theirs, own), deadline);
  const auto proof = socket.receive(kProofBytes, deadline);
  if (!is_same_secret(proof, proof_of_rank(secret, theirs, own))) return false;
  socket.send(std::string(1, kStoreWelcome), deadline);
  return true;
}

}  // namespace fovea::parallel
