// Memory that is fetched from the system while a program's libraries start.
#pragma once

#include <cstddef>

namespace fovea {

// Note [Early memory]
// Most of the start of a short program are libtorch's initialisers, in one thread, and a fifth of
// their time goes to pages: the system makes each when it is first touched. Then come the weights
// and what is packed of them, at two pages in three microseconds. So a second thread touches them
// ahead: those that malloc will hand out to the initialisers, and a region for what comes after.
// Whoever is faster than that thread has his pages made as ever.

struct EarlyMemory {
  size_t heap;    // bytes for malloc; 0: it is left alone
  size_t region;  // bytes for take_early_memory
};

// Begins to fetch them: once, before there are other threads. Needs nothing but the C library: it
// may run before the initialisers of other libraries. Does nothing where the process has one
// processor alone, or a sanitizer its own malloc; there is no region on a machine with several
// nodes of memory.
void fetch_early_memory(const EarlyMemory& wanted);

// `size` bytes of the region, at the beginning of a page; what they are is not said. Null where it
// has no more, and of less than 64 KiB, which malloc keeps well. Thread-safe.
void* take_early_memory(size_t size);

// Takes back what take_early_memory gave: its pages go to the system. False: it is other memory.
bool give_back_early_memory(void* data, size_t size);

}  // namespace fovea
