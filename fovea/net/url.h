// Addresses, read as libcurl reads them: where a request goes and what is thought of it are the
// same.
#pragma once

#include <string>
#include <string_view>

namespace fovea::net {

// "https://host:443" of an address of http or https, the host in lower case: two addresses of one
// origin are answered by the same server. Empty: it is no such address.
std::string origin_of(const std::string& url);

// Whether the host of "HOST:PORT", or of that and more, is this machine by its name or number: what
// is sent there passes no network.
bool is_on_this_machine(std::string_view host);

// Of a part of a path, all but letters, digits, "-", "_", "." and "~" as %XX; with keeps_slashes
// "/" stays, too.
std::string percent_encoded(std::string_view text, bool keeps_slashes = false);

}  // namespace fovea::net
