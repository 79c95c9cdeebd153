// One file of the hub onto the disk, whole and as the hub says it is.
#pragma once

#include <filesystem>
#include <string>

#include "fovea/hub/file_head.h"
#include "fovea/hub/hub_client.h"
#include "fovea/hub/hub_name.h"

namespace fovea::hub {

// What there is of a file: from where, to where, as what.
struct Download {
  HubName name;
  std::string file;                  // in the repository
  FileHead head;                     // as the hub has just said
  std::filesystem::path incomplete;  // what is there of it already is not fetched again
  std::filesystem::path blob;        // gets the name when it is whole
};

// Goes on where another process was cut off, and again where a connection is, until several tries
// in a row have brought nothing. Shows a progress line. Throws HubError: it does not answer, and
// what is there stays for the next time; DataError: it is not what was promised, and nothing stays;
// FetchStopped: a stop signal was received; WriteError: the disk is full.
void download(HubClient& client, const Download& task);

}  // namespace fovea::hub
