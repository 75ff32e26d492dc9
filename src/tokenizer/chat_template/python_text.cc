#include "tokenizer/chat_template/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/operations.h"

namespace kvern::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendHex(uint32_t code, int num_digits, std::string& out) {
  for (int shift = 4 * (num_digits - 1); shift >= 0; shift -= 4) out += kHex[code >> shift & 15];
}

void AppendRepr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const Character c = FirstCharacter(text);
    text.remove_prefix(c.bytes.size());
    if (c.code == '\\' || c.code == static_cast<char32_t>(quote)) {
      out += '\\';
      out += c.bytes;
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (IsOf(CharacterClass::kPrintable, c.code)) {
      out += c.bytes;
    } else {
      out += c.code < 0x100 ? "\\x" : c.code < 0x10000 ? "\\u" : "\\U";
      AppendHex(c.code, c.code < 0x100 ? 2 : c.code < 0x10000 ? 4 : 8, out);
    }
  }
  out += quote;
}

// repr() of values inside values.
class Writer {
 public:
  Writer(Budget& budget, std::string& out) : budget_(budget), out_(out) {}

  void Repr(const Value& value) {
    budget_.Step();
    budget_.Touch(value.own_bytes());
    if (!budget_.Fits(out_.size()) || budget_.is_spent()) return;
    switch (value.kind()) {
      case Kind::kUndefined: out_ += "Undefined"; break;
      case Kind::kNone: out_ += "None"; break;
      case Kind::kBool: out_ += value.integer() != 0 ? "True" : "False"; break;
      case Kind::kInt: out_ += std::to_string(value.integer()); break;
      case Kind::kFloat: out_ += FloatText(value.number()); break;
      case Kind::kString:
        budget_.TouchCharacters(value.text().size());
        if (value.is_markup()) out_ += "Markup(";
        AppendRepr(value.text(), out_);
        if (value.is_markup()) out_ += ")";
        break;
      case Kind::kList: Elements(value, "[", "]"); break;
      case Kind::kTuple: Elements(value, "(", value.elements().size() == 1 ? ",)" : ")"); break;
      case Kind::kRange: Range(value.as<RangeObject>()); break;
      case Kind::kDictView:
        out_ += value.as<ViewObject>().name;
        Elements(value, "([", "])");
        break;
      case Kind::kDict: Dict(value.dict()); break;
      default: (out_ += '<') += std::string(KindName(value)) + ">"; break;
    }
  }

 private:
  void Elements(const Value& list, std::string_view open, std::string_view close) {
    out_ += open;
    bool is_first = true;
    for (const Value& element : list.elements()) {
      if (!is_first) out_ += ", ";
      is_first = false;
      Repr(element);
    }
    out_ += close;
  }

  void Range(const RangeObject& range) {
    out_ += "range(" + std::to_string(range.begin) + ", " + std::to_string(range.end);
    out_ += range.step == 1 ? ")" : ", " + std::to_string(range.step) + ")";
  }

  void Dict(const DictObject& dict) {
    out_ += '{';
    bool is_first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!is_first) out_ += ", ";
      is_first = false;
      Repr(key);
      out_ += ": ";
      Repr(value);
    }
    out_ += '}';
  }

  Budget& budget_;
  std::string& out_;
};

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style, std::string& out) : budget_(budget), style_(style), out_(out) {}

  Status Write(const Value& value, size_t level) {
    budget_.Step();
    budget_.Touch(value.own_bytes());
    if (!budget_.Fits(out_.size()) || budget_.is_spent()) return budget_.status();
    switch (value.kind()) {
      case Kind::kString: String(value.text()); return Status::Ok();
      case Kind::kList:
      case Kind::kTuple: return List(value.elements(), level);
      case Kind::kDict: return Dict(value.dict(), level);
      default: {
        auto scalar = Scalar(value);
        if (!scalar)
          return Status::InvalidArgument("tojson cannot write " + std::string(KindName(value)) + Advice(value));
        out_ += *scalar;
        return Status::Ok();
      }
    }
  }

 private:
  static std::string Advice(const Value& value) {
    return value.is(Kind::kIterator) || value.is(Kind::kDictView) ? ": make it a list first (| list)" : "";
  }

  static std::optional<std::string> Scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone: return "null";
      case Kind::kBool: return value.integer() != 0 ? "true" : "false";
      case Kind::kInt: return std::to_string(value.integer());
      case Kind::kFloat:
        if (std::isnan(value.number())) return "NaN";
        if (std::isinf(value.number())) return value.number() > 0 ? "Infinity" : "-Infinity";
        return FloatText(value.number());
      default: return std::nullopt;
    }
  }

  void String(std::string_view text) {
    out_ += '"';
    while (!text.empty()) {
      const Character c = FirstCharacter(text);
      text.remove_prefix(c.bytes.size());
      Escape(c);
    }
    out_ += '"';
  }

  void Escape(const Character& c) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    if (const size_t at = c.code < 0x80 ? kEscaped.find(static_cast<char>(c.code)) : kEscaped.npos;
        at != kEscaped.npos) {
      out_ += {'\\', kLetters[at]};
    } else if (c.code >= 0x20 && (!style_.escapes_non_ascii || c.code < 0x7F)) {
      out_ += c.bytes;
    } else if (c.code < 0x10000) {
      AppendHex(c.code, 4, out_ += "\\u");
    } else {
      AppendHex(0xD800 + ((c.code - 0x10000) >> 10), 4, out_ += "\\u");
      AppendHex(0xDC00 + ((c.code - 0x10000) & 0x3FF), 4, out_ += "\\u");
    }
  }

  void NewLine(size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  Status List(const std::vector<Value>& elements, size_t level) {
    out_ += '[';
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(level + 1);
      KVERN_RETURN_IF_ERROR(Write(elements[i], level + 1));
    }
    if (!elements.empty()) NewLine(level);
    out_ += ']';
    return Status::Ok();
  }

  Status Dict(const DictObject& dict, size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorts_keys) {
      Status status;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        const auto is_less = Less(budget_, a->first, b->first);
        if (!is_less.ok()) status = is_less.status();
        return is_less.ok() && *is_less;
      });
      KVERN_RETURN_IF_ERROR(status);
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(level + 1);
      const Value& key = entries[i]->first;
      const auto scalar = Scalar(key);
      if (!key.is_string() && !scalar) {
        return Status::InvalidArgument("tojson cannot write a map whose key is " + std::string(KindName(key)));
      }
      String(key.is_string() ? key.text() : std::string_view(*scalar));
      out_ += style_.key_separator;
      KVERN_RETURN_IF_ERROR(Write(entries[i]->second, level + 1));
    }
    if (!entries.empty()) NewLine(level);
    out_ += '}';
    return Status::Ok();
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
};

}  // namespace

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[32];
  // "d.ddde+XX" with the fewest digits; Python moves the point unless the exponent is below -4 or above 15.
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent > 15) return text;
  const bool is_negative = text[0] == '-';
  std::string digits = text.substr(is_negative, e - is_negative);
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  std::string result = is_negative ? "-" : "";
  if (exponent < 0) return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string PrintText(Budget& budget, const Value& value) {
  if (value.is_string()) return std::string(value.text());
  if (value.is_undefined()) return "";
  return ReprText(budget, value);
}

std::string ReprText(Budget& budget, const Value& value) {
  std::string out;
  Writer(budget, out).Repr(value);
  return out;
}

Result<std::string> JsonText(Budget& budget, const Value& value, const JsonStyle& style) {
  std::string out;
  KVERN_RETURN_IF_ERROR(JsonWriter(budget, style, out).Write(value, 0));
  return out;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace kvern::jinja
