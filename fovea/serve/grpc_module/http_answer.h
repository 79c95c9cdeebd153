// Answers of HTTP, as the messages that gRPC has for them.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "inference.pb.h"

namespace fovea::serve::rpc {

struct HttpAnswer {
  int status = 200;
  std::string_view json = {};
  std::string_view binary = {};  // what follows the JSON
};

// The object that an answer's JSON is, or, of a `field`, its value. False: it is no such message.
bool read_json(const HttpAnswer& answer, const std::string& field,
               google::protobuf::Message& message);

// An inference's outputs. False: the answer does not hold together.
bool read_outputs(const HttpAnswer& answer, ::inference::ModelInferResponse& response);

// What went wrong, in the server's words.
std::string error_of(const HttpAnswer& answer);

}  // namespace fovea::serve::rpc
