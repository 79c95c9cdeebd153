#include "fovea/html/html.h"

#include <fmt/format.h>

#include "fovea/core/utf8.h"
#include "fovea/html/page_style.h"

namespace fovea::html {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_forbidden_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7F;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      out += c;
  }
}

std::string open_tag(std::string_view name, const Attributes& attributes, std::string_view end) {
  std::string tag = fmt::format("<{}", name);
  for (const auto& [key, value] : attributes) {
    tag += fmt::format(" {}=\"{}\"", key, escape_html(value));
  }
  return tag.append(end);
}

Markup table_row(const std::vector<Markup>& cells, size_t num_text_columns) {
  Markup row;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == 0) {
      row += element("th", {{"scope", "row"}}, cells[i]);
    } else {
      row += element("td", i < num_text_columns ? Attributes{} : Attributes{{"class", "number"}},
                     cells[i]);
    }
  }
  return element("tr", row);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0 || (length == 1 && is_forbidden_control(text[0]))) {
      out += kReplacement;
      text.remove_prefix(1);
    } else if (length == 1) {
      append_escaped(out, text[0]);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

Markup text(std::string_view plain) { return {escape_html(plain)}; }

Markup element(std::string_view name, const Attributes& attributes, const Markup& content) {
  return {open_tag(name, attributes, ">") + content.html + fmt::format("</{}>", name)};
}

Markup element(std::string_view name, const Markup& content) { return element(name, {}, content); }

Markup void_element(std::string_view name, const Attributes& attributes) {
  return {open_tag(name, attributes, ">")};
}

Markup svg_element(std::string_view name, const Attributes& attributes) {
  return {open_tag(name, attributes, "/>")};
}

Markup table(const Table& content) {
  Markup head;
  for (size_t i = 0; i < content.headers.size(); ++i) {
    Attributes attributes{{"scope", "col"}};
    if (i >= content.num_text_columns) attributes.emplace_back("class", "number");
    head += element("th", attributes, text(content.headers[i]));
  }
  Markup rows;
  for (const auto& row : content.rows) rows += table_row(row, content.num_text_columns);
  auto inner = element("caption", text(content.caption));
  if (!content.headers.empty()) inner += element("thead", element("tr", head));
  inner += element("tbody", rows);
  constexpr size_t kManyColumns = 9;  // which a page has no room for otherwise
  const char* css_class = content.headers.empty()                  ? "scroll facts"
                          : content.headers.size() >= kManyColumns ? "scroll dense"
                                                                   : "scroll";
  return element(
      "div",
      {{"class", css_class}, {"tabindex", "0"}, {"role", "group"}, {"aria-label", content.caption}},
      element("table", inner));
}

Markup section(std::string_view id, std::string_view title, const Markup& content) {
  return element("section", {{"id", std::string(id)}}, element("h2", text(title)) + content);
}

Markup figures(const std::vector<Figure>& list) {
  Markup items;
  for (const auto& [label, value] : list) {
    items += element("li", element("span", text(label)) + element("strong", text(value)));
  }
  return element("ul", {{"class", "figures"}}, items);
}

Markup body_of_parts(std::string_view title, std::string_view lead, const Markup& above,
                     const std::vector<PagePart>& parts, std::string_view footer) {
  Markup links, body;
  for (const auto& part : parts) {
    if (part.content.empty()) continue;
    links += element("a", {{"href", "#" + part.id}}, text(part.title));
    body += part.content;
  }
  auto head = element("h1", text(title));
  if (!lead.empty()) head += element("p", {{"class", "lead"}}, text(lead));
  head += element("nav", {{"aria-label", "Sections"}}, links);
  return element("header", head) + element("main", above + body) +
         element("footer", element("p", text(footer)));
}

std::string page(std::string_view title, const Markup& body) {
  Markup head = void_element("meta", {{"charset", "utf-8"}});
  head += void_element("meta",
                       {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  head += void_element("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  head += void_element("meta", {{"http-equiv", "Content-Security-Policy"},
                                {"content",
                                 "default-src 'none'; img-src data:; style-src "
                                 "'unsafe-inline'; script-src 'unsafe-inline'"}});
  head += element("title", text(title));
  head += element("style", Markup{std::string(kPageStyle)});
  const auto content = body + element("script", Markup{std::string(kPageScript)});
  return "<!DOCTYPE html>\n" +
         element("html", {{"lang", "en"}}, element("head", head) + element("body", content)).html +
         "\n";
}

}  // namespace fovea::html
