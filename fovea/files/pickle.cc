#include "fovea/files/pickle.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "fovea/core/error.h"
#include "fovea/files/byte_reader.h"

namespace fovea {
namespace {

using Kind = PickleValue::Kind;

// How Python 3 writes bytes in protocol 2; the one call that is understood here.
constexpr std::string_view kEncode = "_codecs.encode";

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += c >= 0x20 && c < 0x7F ? c : '?';
  return out;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const bool has_keys = kind == Kind::kDict || kind == Kind::kCall;
  for (size_t i = 0; has_keys && i + 1 < items.size(); i += 2) {
    if (items[i]->is_text() && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

std::string_view name_of(PickleValue::Kind kind) {
  constexpr std::array<std::string_view, 12> kNames = {
      "None",   "a bool",  "an int", "a float", "a str",  "bytes",
      "a list", "a tuple", "a dict", "a name",  "a call", "a persistent id"};
  return kNames[static_cast<size_t>(kind)];
}

// The machine that a pickle runs on: a stack, marks on it, and a memo.
class PickleReader {
 public:
  PickleReader(Pickle& pickle, const std::string& source, const PickleOptions& options)
      : pickle_(pickle), source_(source), options_(options), in_(pickle.bytes_, source) {}

  const PickleValue* run() {
    if (in_.number<uint8_t>() != 0x80 || in_.number<uint8_t>() > 5)
      refuse("not a pickle of protocol 2 to 5");
    while (true) {
      const auto opcode = in_.number<uint8_t>();
      if (opcode == '.') break;
      if (!read_scalar(opcode) && !read_text(opcode) && !build_container(opcode) &&
          !use_memo(opcode) && !call(opcode)) {
        refuse(fmt::format("opcode 0x{:02x} at offset {}, which plain data does not need", opcode,
                           in_.position() - 1));
      }
    }
    const auto* root = pop();
    if (!stack_.empty() || !marks_.empty() || (!options_.may_go_on && !in_.at_end()))
      refuse("something is left behind its end");
    pickle_.end_ = in_.position();
    return root;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    fail<DataError>(
        "{}: {}; only plain data is read from pickles: numbers, text, lists, dicts and arrays",
        source_, reason);
  }

  PickleValue& push(Kind kind) {
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }
  PickleValue* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("its stack is empty");
    auto* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    auto* value = pop();
    stack_.push_back(value);
    return value;
  }
  // What was pushed since the last mark.
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) refuse("a list without a beginning");
    std::vector<PickleValue*> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                                    stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_integer(int64_t value) { push(Kind::kInt).integer = value; }
  void push_text(Kind kind, uint64_t bytes) {
    const auto text = in_.text(bytes);
    push(kind).text = text;
  }

  bool read_scalar(uint8_t opcode) {
    switch (opcode) {
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
      case 0x89:
        push(Kind::kBool).integer = opcode == 0x88 ? 1 : 0;
        return true;
      case 'J':
        push_integer(in_.number<int32_t>());
        return true;
      case 'K':
        push_integer(in_.number<uint8_t>());
        return true;
      case 'M':
        push_integer(in_.number<uint16_t>());
        return true;
      case 0x8A:
        push_long();
        return true;
      case 'G':
        push(Kind::kFloat).number = load_number<double>(in_.take(8).data(), std::endian::big);
        return true;
      case 0x95:  // FRAME: a hint for readers of streams
        in_.number<uint64_t>();
        return true;
      default:
        return false;
    }
  }

  // Two's complement, little endian, of up to 8 bytes.
  void push_long() {
    const auto size = in_.number<uint8_t>();
    if (size > 8) refuse("an int of more than 64 bits");
    const auto bytes = in_.take(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[i]} << (8 * i);
    if (size > 0 && size < 8 && (bytes[size - 1] & 0x80) != 0) value |= ~uint64_t{0} << (8 * size);
    push_integer(static_cast<int64_t>(value));
  }

  bool read_text(uint8_t opcode) {
    switch (opcode) {
      case 'U':
      case 'C':
        push_text(Kind::kBytes, in_.number<uint8_t>());
        return true;
      case 'T':
      case 'B':
        push_text(Kind::kBytes, in_.number<uint32_t>());
        return true;
      case 0x8E:
      case 0x96:
        push_text(Kind::kBytes, in_.number<uint64_t>());
        return true;
      case 0x8C:
        push_text(Kind::kText, in_.number<uint8_t>());
        return true;
      case 'X':
        push_text(Kind::kText, in_.number<uint32_t>());
        return true;
      case 0x8D:
        push_text(Kind::kText, in_.number<uint64_t>());
        return true;
      default:
        return false;
    }
  }

  void push_tuple(size_t count) {
    std::vector<PickleValue*> items(count);
    while (count > 0) items[--count] = pop();
    push(Kind::kTuple).items = std::move(items);
  }
  void extend(Kind kind, const std::vector<PickleValue*>& items) {
    auto* target = top();
    // An OrderedDict is a call that gets its items like a dict.
    const bool is_kind =
        target->kind == kind || (kind == Kind::kDict && target->kind == Kind::kCall);
    if (!is_kind || (kind == Kind::kDict && items.size() % 2 != 0))
      refuse(fmt::format("items for {}", name_of(target->kind)));
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  bool build_container(uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ']':
        push(Kind::kList);
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case ')':
        push(Kind::kTuple);
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(opcode - size_t{0x84});
        return true;
      case 't': {
        auto items = pop_to_mark();
        push(Kind::kTuple).items = std::move(items);
        return true;
      }
      case 'e':
        extend(Kind::kList, pop_to_mark());
        return true;
      case 'u':
        extend(Kind::kDict, pop_to_mark());
        return true;
      case 'a': {
        auto* item = pop();
        extend(Kind::kList, {item});
        return true;
      }
      case 's': {
        auto* value = pop();
        auto* key = pop();
        extend(Kind::kDict, {key, value});
        return true;
      }
      default:
        return false;
    }
  }

  bool use_memo(uint8_t opcode) {
    switch (opcode) {
      case 'q':
        memo_[in_.number<uint8_t>()] = top();
        return true;
      case 'r':
        memo_[in_.number<uint32_t>()] = top();
        return true;
      case 0x94:
        memo_.insert_or_assign(memo_.size(), top());
        return true;
      case 'h':
        recall(in_.number<uint8_t>());
        return true;
      case 'j':
        recall(in_.number<uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse(fmt::format("entry {} of an empty memo", index));
    stack_.push_back(found->second);
  }

  bool call(uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const auto module = line();
        push_name(module, line());
        return true;
      }
      case 0x93: {
        const auto *name = pop(), *module = pop();
        if (name->kind != Kind::kText || module->kind != Kind::kText)
          refuse("a name that is no text");
        push_name(module->text, name->text);
        return true;
      }
      case 'R':
      case 0x81: {  // NEWOBJ
        auto* arguments = pop();
        auto* callable = pop();
        make_call(*callable, *arguments);
        return true;
      }
      case 'b': {
        auto* state = pop();
        auto* target = top();
        if (target->kind != Kind::kCall || target->state != nullptr)
          refuse(fmt::format("a state for {}", name_of(target->kind)));
        target->state = state;
        return true;
      }
      case 'Q': {
        if (!options_.has_persistent_ids) return false;
        auto* id = pop();
        push(Kind::kPersistent).arguments = id;
        return true;
      }
      default:
        return false;
    }
  }
  std::string_view line() {
    constexpr size_t kMaxBytes = 256;
    const auto rest = std::string_view(reinterpret_cast<const char*>(pickle_.bytes_.data()),
                                       pickle_.bytes_.size())
                          .substr(in_.position(), kMaxBytes);
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) refuse("a name without an end");
    return in_.text(end + 1).substr(0, end);
  }
  void push_name(std::string_view module, std::string_view name) {
    const auto full = fmt::format("{}.{}", module, name);
    const auto known = std::find(options_.names.begin(), options_.names.end(), full);
    if (known == options_.names.end() && full != kEncode)
      refuse(fmt::format("it wants to load {}, which is refused and was not run", shown(full)));
    push(Kind::kName).text = full == kEncode ? kEncode : *known;
  }

  // Nothing is called: the name and its arguments are kept.
  void make_call(const PickleValue& name, const PickleValue& arguments) {
    if (name.kind != Kind::kName || arguments.kind != Kind::kTuple)
      refuse(fmt::format("a call of {}", name_of(name.kind)));
    if (name.text != kEncode) {
      PickleValue& call = push(Kind::kCall);
      call.text = name.text;
      call.arguments = &arguments;
      return;
    }
    const auto& items = arguments.items;
    if (items.size() != 2 || items[0]->kind != Kind::kText || !items[1]->is_text() ||
        (items[1]->text != "latin1" && items[1]->text != "latin-1"))
      refuse(fmt::format("a call of {} with {} arguments", kEncode, items.size()));
    push(Kind::kBytes).text = latin1(items[0]->text);
  }

  // How Python 3 writes bytes in protocol 2: as text of the characters 0 to 255.
  std::string_view latin1(std::string_view text) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto first = static_cast<uint8_t>(text[i]);
      if (first < 0x80) {
        bytes += text[i];
        continue;
      }
      const auto second = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
      if ((first != 0xC2 && first != 0xC3) || (second & 0xC0) != 0x80)
        refuse("bytes written as text that is not Latin-1");
      bytes += static_cast<char>((first & 3) << 6 | (second & 0x3F));
      ++i;
    }
    latin1_bytes_ += bytes.size();
    if (latin1_bytes_ > 2 * pickle_.bytes_.size()) refuse("the same bytes again and again");
    return pickle_.texts_.emplace_back(std::move(bytes));
  }

  Pickle& pickle_;
  const std::string& source_;
  const PickleOptions& options_;
  ByteReader in_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  uint64_t latin1_bytes_ = 0;
};

Pickle::Pickle(std::vector<uint8_t> bytes, const std::string& source, const PickleOptions& options)
    : owned_(std::move(bytes)), bytes_(owned_) {
  root_ = PickleReader(*this, source, options).run();
}

Pickle::Pickle(std::span<const uint8_t> bytes, const std::string& source,
               const PickleOptions& options)
    : bytes_(bytes) {
  root_ = PickleReader(*this, source, options).run();
}

}  // namespace fovea
