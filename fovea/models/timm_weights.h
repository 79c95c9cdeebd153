// Which of timm's pretrained weights there are of a preset, and where they lie.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea::models {

// Names as timm has them, "vit_small_patch16_224.augreg_in21k": a preset and a tag. Of each preset
// the first is the one that its plain name stands for.
std::vector<std::string> list_timm_weights();

// The repository on the Hugging Face hub of such a name, or of a preset, for its first tag:
// "timm/vit_small_patch16_224.augreg_in21k". Empty: there is none.
std::string timm_repository(std::string_view name);

}  // namespace fovea::models
