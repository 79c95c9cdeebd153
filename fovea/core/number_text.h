// How numbers are written for people.
#pragma once

#include <string>

namespace fovea {

// Numbers for people; an en dash where there is none (not finite).
std::string format_fixed(double value, int decimals);
std::string format_percent(double percent);    // "91.3 %"
std::string format_count(double value);        // "60,000"
std::string format_bytes(double bytes);        // "1.4 GiB"
std::string format_significant(double value);  // four significant digits: "0.2134", "1.2e-05"

}  // namespace fovea
