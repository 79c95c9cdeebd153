#include "tests/support/html_checker.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace fovea::support {
namespace {

const std::set<std::string> kVoid = {"meta", "img", "br"};
const std::map<std::string, std::string> kEntities = {
    {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"#39", "'"}};

class Checker {
 public:
  explicit Checker(std::string_view html) : rest_(html) {}

  HtmlSummary check() {
    if (!take("<!DOCTYPE html>\n")) fault("no doctype");
    while (!rest_.empty() && summary_.fault.empty()) {
      if (rest_[0] == '<') {
        tag();
      } else {
        character(summary_.text);
      }
    }
    if (summary_.fault.empty() && !open_.empty()) fault("never closed: " + open_.back());
    return summary_;
  }

 private:
  void fault(const std::string& what) {
    if (summary_.fault.empty()) {
      summary_.fault = what + " before: " + std::string(rest_.substr(0, 80));
    }
    rest_ = {};
  }

  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  std::string name() {
    size_t length = 0;
    while (length < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '-')) {
      ++length;
    }
    const std::string out(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return out;
  }

  // One character or entity of text or of an attribute's value.
  void character(std::string& out) {
    if (rest_[0] == '<' || rest_[0] == '>') return fault("bare angle bracket");
    if (!take("&")) {
      out += rest_[0];
      rest_.remove_prefix(1);
      return;
    }
    const auto end = rest_.find(';');
    const auto entity = kEntities.find(std::string(rest_.substr(0, std::min<size_t>(end, 10))));
    if (end == std::string_view::npos || entity == kEntities.end()) return fault("bare ampersand");
    out += entity->second;
    rest_.remove_prefix(end + 1);
  }

  void attributes() {
    while (take(" ")) {
      if (name().empty() || !take("=\"")) return fault("attribute without a quoted value");
      std::string value;
      while (!rest_.empty() && rest_[0] != '"') character(value);
      if (!take("\"")) return fault("value never ends");
    }
  }

  void tag() {
    if (take("</")) {
      const auto closed = name();
      if (open_.empty() || open_.back() != closed) return fault("closed out of order: " + closed);
      open_.pop_back();
      if (!take(">")) fault("unfinished end tag");
      return;
    }
    take("<");
    const auto opened = name();
    if (opened.empty()) return fault("bare <");
    ++summary_.tags[opened];
    attributes();
    if (take("/>")) return;
    if (!take(">")) return fault("unfinished tag " + opened);
    if (opened == "script" || opened == "style") {
      const auto end = rest_.find("</" + opened + ">");
      if (end == std::string_view::npos) return fault("never closed: " + opened);
      rest_.remove_prefix(end + opened.size() + 3);
    } else if (!kVoid.contains(opened)) {
      open_.push_back(opened);
    }
  }

  std::string_view rest_;
  std::vector<std::string> open_;
  HtmlSummary summary_;
};

}  // namespace

HtmlSummary check_html(std::string_view html) { return Checker(html).check(); }

}  // namespace fovea::support
