// What the program and libfovea_grpc.so say to each other: requests of the HTTP protocol and their
// answers, as plain bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fovea::serve {

// Note [A module for gRPC]
// gRPC stands on protobuf, of which libtorch exports another version's symbols. So all that sees
// protobuf is in a module, which is opened with names of its own (LibraryNames::kOwn) and exports
// one function. It knows nothing of models: it writes each call as the request that HTTP has for
// it, and reads the call's answer out of the answer to that. What crosses is plain bytes, which
// whoever made them keeps until the function returns that was given them; neither side throws into
// the other.

struct GrpcBytes {
  const char* data;
  size_t size;
};

struct GrpcRequest {
  GrpcBytes method;         // "POST"
  GrpcBytes path;           // "/v2/models/vit/infer"
  GrpcBytes authorization;  // the call's metadata of this name; empty: none
  GrpcBytes id;             // "x-request-id" of its metadata
  const GrpcBytes* body;    // parts that stand one behind another
  size_t num_parts;
  int64_t json_length;   // of the body; -1: nothing says it
  int64_t milliseconds;  // for which the client waits
};

struct GrpcReply {
  int status;  // of HTTP
  GrpcBytes body;
  int64_t json_length;  // -1: nothing says it
};

using GrpcDone = void (*)(void* call, const GrpcReply* reply);

// The program.
struct GrpcHost {
  void* self;
  // Calls done(call, reply) once, from any thread, before it returns or later.
  void (*handle)(void* self, const GrpcRequest* request, GrpcDone done, void* call);
  // Of a call whose message has not come: calls done(call, reply) before it returns where nobody
  // may ask so, with the reply that handle() would give; else not at all.
  void (*admit)(void* self, const GrpcRequest* head, GrpcDone done, void* call);
};

struct GrpcModuleOptions {
  const char* address;      // "127.0.0.1:8001", "[::1]:0"
  const char* certificate;  // PEM, with those that lead to its authority; null: no TLS
  const char* key;
  int64_t message_bytes;       // of one message of a client
  int64_t all_messages_bytes;  // of all that are there at one time
  int64_t metadata_bytes;
  int64_t connection_calls;  // at one time on one connection
  int64_t handshake_milliseconds;
  int64_t idle_milliseconds;     // after which a connection without calls is closed
  int64_t message_milliseconds;  // for one message of a client to come
  int64_t answer_milliseconds;   // for a call
  int64_t linger_milliseconds;   // at the end, for streams whose client says nothing
};

struct GrpcModule {
  const char* version;  // of Fovea: the program's own, or the interface may be another one
  // A server that listens, and on which port; null: it cannot.
  void* (*start)(const GrpcModuleOptions* options, GrpcHost host, int* port);
  // Refuses what comes from here on, and returns when what was taken is answered or `milliseconds`
  // have passed, which alone makes it false.
  bool (*drain)(void* server, int64_t milliseconds);
  void (*stop)(void* server);  // drained or not; no call of it is left behind
};

}  // namespace fovea::serve

extern "C" const fovea::serve::GrpcModule* fovea_grpc_module();
