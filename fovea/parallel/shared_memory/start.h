// How the ranks of a group come to share memory, or find that they cannot.
#pragma once

#include <memory>
#include <string>

#include "fovea/parallel/host_backend.h"
#include "fovea/parallel/key_store.h"
#include "fovea/parallel/process_group.h"

namespace fovea::parallel {

// Null, with why in words, where one rank of the group cannot reach the memory of another, or is to
// use Gloo: all of them come to the same. Collective over the group. Throws as make_host_backend.
std::unique_ptr<HostBackend> share_memory(KeyStore store, const GroupOptions& options,
                                          std::string& why_not);

}  // namespace fovea::parallel
