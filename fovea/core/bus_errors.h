// Pages of mapped files that cannot be read. The system reports one with the signal SIGBUS, to the
// thread that touches it; here it becomes a page of zeros and a note, so that the process lives on.
#pragma once

#include <cstdint>

namespace fovea {

// A mapping that is watched; belongs to this file for good, since a handler may look at it at any
// time.
struct WatchedMapping;

// Watches [first, first + bytes), a mapping of whole pages. The first call installs the handler,
// which passes on what happens elsewhere to the one that was there before.
WatchedMapping* watch_mapping(const uint8_t* first, uint64_t bytes);
// Call before the mapping goes away.
void unwatch_mapping(WatchedMapping* mapping);
// Whether one of the pages of [offset, offset + bytes) is zeros in place of what the file holds;
// true for all where too many were lost to tell them apart.
bool has_lost_pages(const WatchedMapping& mapping, uint64_t offset, uint64_t bytes);
// How many pages this thread has lost so far.
uint64_t lost_pages_of_thread();

}  // namespace fovea
