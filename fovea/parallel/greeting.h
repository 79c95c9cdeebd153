// The start of a connection between processes of a run: both show that they have its secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fovea/parallel/sockets.h"

namespace fovea::parallel {

// One that nobody knows, in characters that an environment can hold.
std::string draw_secret();

// As Note [The store] has it, of the side that has come. -> what the other one said, where that
// does not show the secret; nothing: it has it. Throws SocketError.
std::optional<std::string> greet(const Socket& socket, std::string_view secret, Deadline deadline);
// Of the side that listens. False: a stranger came. Throws SocketError.
bool answer_greeting(const Socket& socket, std::string_view secret, Deadline deadline);

}  // namespace fovea::parallel
