// The protocol's calls.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "fovea/serve/grpc_module/call.h"

namespace fovea::serve::rpc {

class Service final : public grpc::CallbackGenericService {
 public:
  struct Method {
    std::function<Call*(Program&, const CallContext&)> begin;
    std::string path;  // of HTTP, by which it is admitted before its message is there
  };

  // `program` outlives it.
  explicit Service(Program& program);

  grpc::ServerGenericBidiReactor* CreateReactor(CallContext* context) override;

 private:
  Program& program_;
  const std::map<std::string, Method> methods_;  // by their names
};

}  // namespace fovea::serve::rpc
