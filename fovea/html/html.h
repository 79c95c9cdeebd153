// HTML as values, for the pages that Fovea writes: foreign text becomes Markup only through text()
// and attribute values, which escape it, so nothing of a user's (class names, paths, configs) can
// end up as a tag or a script.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::html {

// A piece of well-formed HTML.
struct Markup {
  std::string html;

  Markup& operator+=(const Markup& other) {
    html += other.html;
    return *this;
  }
  friend Markup operator+(Markup left, const Markup& right) { return left += right; }
  bool empty() const { return html.empty(); }
};

// Escapes & < > " ' for element content and attribute values alike. Bytes that are not UTF-8, and
// control characters that HTML forbids, become U+FFFD.
std::string escape_html(std::string_view text);

Markup text(std::string_view plain);

using Attributes = std::vector<std::pair<std::string_view, std::string>>;

// <name a="b">content</name>. Names must be literals of ours; attribute values may be foreign.
Markup element(std::string_view name, const Attributes& attributes, const Markup& content);
Markup element(std::string_view name, const Markup& content);
// <name a="b">, for elements that have no content: img, meta.
Markup void_element(std::string_view name, const Attributes& attributes);
// <name a="b"/>, as SVG writes an element without content.
Markup svg_element(std::string_view name, const Attributes& attributes);

struct Table {
  std::string caption;
  std::vector<std::string> headers;
  std::vector<std::vector<Markup>> rows;  // the first cell of each is the row's header
  size_t num_text_columns = 1;            // the others hold numbers, right-aligned
};
Markup table(const Table& content);

// <section> with a heading; `id` is what links name.
Markup section(std::string_view id, std::string_view title, const Markup& content);

// One headline number.
struct Figure {
  std::string label;
  std::string value;
};
Markup figures(const std::vector<Figure>& list);

// A part of a page, and its link at the top; left out where the content is empty.
struct PagePart {
  std::string id;
  std::string title;
  Markup content;
};
// The body of a page: heading, links to the parts that there are, `above`, the parts, the footer.
Markup body_of_parts(std::string_view title, std::string_view lead, const Markup& above,
                     const std::vector<PagePart>& parts, std::string_view footer);

// A whole document with its style and script in it, and a policy that forbids the network.
std::string page(std::string_view title, const Markup& body);

}  // namespace fovea::html
