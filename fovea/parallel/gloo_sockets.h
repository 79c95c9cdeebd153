// The connections that Gloo makes, by which what is under way on them can be ended.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fovea/parallel/sockets.h"

namespace fovea::parallel {

// Note [Ends of Gloo]
// Gloo's collectives cannot be broken off: they wait for their peers, or for c10d's timeout, and so
// does the end of their group. But one whose connection is shut down fails at once, at both of its
// ends: unless it is in the midst of sending there, of which Gloo tells nobody. Gloo shows nobody
// its sockets; so they are found among the open files of the process, by the place where the group
// listens, here and on the other ranks.
class GlooSockets {
 public:
  // Places where this process has come to listen since `before` (listening_places()).
  explicit GlooSockets(const std::vector<NetAddress>& before);

  // Where this rank's end of the group listens, for the others; from theirs.
  std::string text() const;
  void add_peer(const std::string& text);

  // Of all connections of the group that there are by now. Those that come later are not.
  void shut_down() const;

  // Once all connections are made: how many.
  void remember_connections();
  // Whether one of those was closed since, at either end.
  bool has_lost_one() const;

 private:
  // Calls body(socket, its ends' addresses) with each connection.
  template <class Body>
  void for_each_connection(Body body) const;
  size_t num_connections() const;

  std::vector<std::string> own_, peers_;  // address and port
  size_t num_made_ = 0;
};

// Where this process listens.
std::vector<NetAddress> listening_places();

}  // namespace fovea::parallel
