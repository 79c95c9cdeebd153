// The protocol's calls.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "fovea/serve/grpc_module/call.h"

namespace fovea::serve::rpc {

class Service final : public grpc::CallbackGenericService {
 public:
  using Begin = std::function<Call*(Program&, const CallContext&)>;

  // `program` outlives it.
  explicit Service(Program& program);

  grpc::ServerGenericBidiReactor* CreateReactor(CallContext* context) override;

 private:
  Program& program_;
  const std::map<std::string, Begin> calls_;  // by the method's name
};

}  // namespace fovea::serve::rpc
