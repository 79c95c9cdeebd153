// The end of a program that has libtorch in it.
#pragma once

namespace fovea {

// Writes what is held back of standard output and error, and ends the process. Static objects are
// left as they are: libtorch takes a third of a short program's time to take its operators back,
// one by one. Objects on the stack are not destroyed: call it last.
[[noreturn]] void end_process(int code);

}  // namespace fovea
