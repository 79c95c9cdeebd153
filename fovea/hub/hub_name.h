// Names of repositories on the Hugging Face hub, where weights may stand.
#pragma once

#include <string>
#include <string_view>

namespace fovea::hub {

struct HubName {
  std::string repository;         // "timm/vit_small_patch16_224.augreg_in21k"
  std::string revision = "main";  // a branch, a tag or a commit

  std::string text() const;  // "hf-hub:timm/...@v1", for messages
};

// Whether it is the whole name of a commit: 40 to 64 hexadecimal digits.
bool is_commit(std::string_view text);

// Whether it begins as such a name does, with hf-hub: or, as timm takes it too, hf_hub:.
bool is_hub_name(std::string_view text);

// Of "hf-hub:ORG/NAME" or "hf-hub:ORG/NAME@REVISION". Throws ConfigError: it is no such name.
HubName parse_hub_name(std::string_view text);

}  // namespace fovea::hub
