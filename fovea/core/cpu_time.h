// Processor time of this process.
#pragma once

namespace fovea {

// Seconds, of all threads, also those that have ended; in the kernel's mode too. Other programs on
// the machine hardly change it.
double cpu_seconds();

}  // namespace fovea
