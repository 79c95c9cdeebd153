// What a call of gRPC asks, as the request that HTTP has for it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "inference.pb.h"

namespace fovea::serve::rpc {

// It may hold parts of the message that it was made of, which outlives it.
struct HttpQuestion {
  std::string method = "GET";
  std::string path = {};
  std::string body = {};                      // or its JSON, where binary data follows
  std::vector<std::string_view> binary = {};  // tensors
  bool has_binary = false;
  std::deque<std::string> made = {};  // tensors that had to be written anew
  std::string refused = {};           // why there is no such request; empty: there is
};

// /v2/models/NAME[/versions/VERSION]/ACTION; action: may be empty.
HttpQuestion model_question(const std::string& name, const std::string& version,
                            const std::string& action);

HttpQuestion infer_question(const ::inference::ModelInferRequest& message);
HttpQuestion index_question(const ::inference::RepositoryIndexRequest& message);
HttpQuestion load_question(const ::inference::RepositoryModelLoadRequest& message);
HttpQuestion unload_question(const ::inference::RepositoryModelUnloadRequest& message);

}  // namespace fovea::serve::rpc
