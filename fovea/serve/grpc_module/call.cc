#include "fovea/serve/grpc_module/call.h"

#include <grpcpp/impl/codegen/proto_utils.h>

namespace fovea::serve::rpc {

using google::protobuf::Message;

// Until the read is done gRPC keeps the call, so it is there when the time runs out.
void Call::read() {
  limit_.start(program_.message_time, [this] {
    Finish({grpc::StatusCode::DEADLINE_EXCEEDED, "the request's message came too slowly"});
  });
  StartRead(&message_);
}

void Call::OnReadDone(bool is_there) {
  if (!limit_.stop()) return;  // the call has ended
  if (!is_there) return take_end();
  take(message_);
}

bool read_message(grpc::ByteBuffer& bytes, Message& message) {
  return grpc::SerializationTraits<Message>::Deserialize(&bytes, &message).ok();
}

grpc::ByteBuffer message_bytes(const Message& message) {
  grpc::ByteBuffer bytes;
  bool is_own = true;  // as those of every message of protobuf
  grpc::SerializationTraits<Message>::Serialize(message, &bytes, &is_own);
  return bytes;
}

}  // namespace fovea::serve::rpc
