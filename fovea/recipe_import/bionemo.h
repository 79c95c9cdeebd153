// What the parts of BioNeMo's table share.
#pragma once

#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {

ImportRules bionemo_data_rules();
void set_data_of_bionemo(Importer& in);

}  // namespace fovea::recipe_import
