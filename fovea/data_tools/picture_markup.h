// Pictures and colours of classes in pages.
#pragma once

#include <string>

#include "fovea/data/image/image_view.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/html/html.h"

namespace fovea::data {

std::string png_text(const Image& picture);

// In the page itself. RGB or gray. is_exact: as PNG, for hard edges; else as JPEG where that is
// much smaller.
html::Markup picture_markup(const Image& picture, const std::string& words, bool is_exact);

// A small field of the colour, for the items of a list of class "legend".
html::Markup swatch_markup(const Rgb& color);

}  // namespace fovea::data
