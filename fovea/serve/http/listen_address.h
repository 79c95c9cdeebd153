// Which address a server listens on.
#pragma once

#include <string>

#include "fovea/serve/http/http_server.h"

namespace fovea::serve {

// Of options.host: "127.0.0.1", "::1". Throws ConfigError: not this machine's, or one that others
// reach, and there is no key.
std::string listen_address(const HttpServerOptions& options);

}  // namespace fovea::serve
