// What the libraries read of the environment while they start, before main.
#pragma once

namespace fovea::app {

// The OpenMP library under libtorch lets idle threads spin for milliseconds at every barrier. Where
// cores are shared, with ranks of the same run, with other programs or with the threads of the own
// kernels (fovea/kernels/cpu/team.h), they spin away the time that the others need, and a step
// takes ten times as long; with a limit it does not (benchmarks/busy_machine.py). The library reads
// it when it starts, so GOMP_SPINCOUNT is set before the initialisers of the libraries; whoever has
// set it or OMP_WAIT_POLICY has the choice. A rank gets TORCH_CPP_LOG_LEVEL in the same way:
// libtorch would tell of another that is not there yet with a C++ stack. Called from
// .preinit_array: of the standard library only what needs no initialiser.
//
// The C library has no environment yet that could be added to, so a variable that no library reads
// as it starts lends its place until restore_environment; where there is none such, the program
// starts itself anew.
void limit_spinning(int argc, char** argv, char** environment);

// First in main: puts back what lent its place.
void restore_environment();

}  // namespace fovea::app
