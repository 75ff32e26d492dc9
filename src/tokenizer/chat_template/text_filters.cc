// Filters that make text. As in Jinja they take any value and work on what printing it gives.
#include <algorithm>

#include "tokenizer/chat_template/characters.h"
#include "tokenizer/chat_template/filters.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/python_text.h"
#include "tokenizer/chat_template/text.h"

namespace kvern::jinja {
namespace {

constexpr int64_t kMaxIndent = 200;

Value Like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.Text(std::move(text), self.is_markup());
}

template <std::string (*kChange)(std::string_view)>
Result<Value> CaseFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  const std::string text = TextOf(runtime, self);
  runtime.budget().TouchCharacters(text.size());
  return Like(runtime, self, kChange(text));
}

// Words begin after white space and any of - ( { [ <.
Result<Value> TitleFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  const std::string text = TextOf(runtime, self);
  runtime.budget().TouchCharacters(text.size());
  std::string out;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (begin == end) return;
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    const std::string_view first = FirstCharacter(word).bytes;
    out += Upper(first) + Lower(word.substr(first.size()));
  };
  for (size_t at = 0; at < text.size();) {
    const Character c = FirstCharacter(std::string_view(text).substr(at));
    if (IsSpace(c.code) || std::string_view("-({[<").find(c.bytes) != std::string_view::npos) {
      add_word(at);
      out += c.bytes;
      begin = at + c.bytes.size();
    }
    at += c.bytes.size();
  }
  add_word(text.size());
  return runtime.Text(std::move(out));
}

Result<Value> TrimFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const std::string text = TextOf(runtime, self);
  if (arguments[0] == nullptr || arguments[0]->is_none())
    return Like(runtime, self, std::string(StripEnd(StripStart(text))));
  if (!arguments[0]->is_string()) return Status::InvalidArgument("trim needs a string of characters");
  const std::string_view set = arguments[0]->text();
  KVERN_RETURN_IF_ERROR(AllowSearch(runtime, text, set));
  return Like(runtime, self, std::string(StripEnd(StripStart(text, set), set)));
}

Result<Value> ReplaceFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t count, arguments.Integer(2, -1, "the count of replace"));
  KVERN_ASSIGN_OR_RETURN(std::string text, Replaced(runtime, TextOf(runtime, self), TextOf(runtime, *arguments[0]),
                                                    TextOf(runtime, *arguments[1]), count));
  return runtime.Text(std::move(text));
}

Result<Value> IndentFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  if (!self.is_string()) return Status::InvalidArgument("indent needs a string, found " + std::string(KindName(self)));
  std::string indent(4, ' ');
  if (arguments[0] != nullptr && arguments[0]->is_string()) {
    indent = arguments[0]->text();
  } else {
    KVERN_ASSIGN_OR_RETURN(const int64_t width, arguments.Integer(0, 4, "the width of indent"));
    if (width > kMaxIndent) return Status::InvalidArgument("indent takes at most " + std::to_string(kMaxIndent));
    indent.assign(static_cast<size_t>(std::max<int64_t>(0, width)), ' ');
  }
  // Jinja adds a newline first, so that an empty last line counts.
  const std::string text = std::string(self.text()) + "\n";
  const std::vector<std::string_view> lines = Lines(text, /*keeps_ends=*/false);
  const bool indents_blank = arguments.Flag(2, false);
  if (!runtime.budget().Fits(self.text().size() + lines.size() * (indent.size() + 1))) return runtime.budget().status();
  std::string out = arguments.Flag(1, false) ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (indents_blank || !lines[i].empty())) out += indent;
    out += lines[i];
  }
  return Like(runtime, self, std::move(out));
}

Result<Value> StringFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  return self.is_string() ? self : runtime.Text(TextOf(runtime, self));
}

Result<Value> SafeFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  return runtime.Text(TextOf(runtime, self), /*is_markup=*/true);
}

Result<Value> EscapeFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  return self.is_markup() ? self : runtime.Text(Escaped(TextOf(runtime, self)), /*is_markup=*/true);
}

Result<Value> ForceEscapeFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  return runtime.Text(Escaped(TextOf(runtime, self)), /*is_markup=*/true);
}

Result<Value> CenterFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const int64_t width, arguments.Integer(0, 80, "the width of center"));
  KVERN_ASSIGN_OR_RETURN(std::string text, Padded(runtime, TextOf(runtime, self), width, " ", Side::kBoth));
  return Like(runtime, self, std::move(text));
}

Result<Value> FormatFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  const Value text = self.is_string() ? self : runtime.Text(TextOf(runtime, self));
  if (arguments.all().named.empty()) return FormatPercent(runtime, text, runtime.Tuple(arguments.all().positional));
  if (!arguments.all().positional.empty()) {
    return Status::InvalidArgument("format takes either positional or named arguments, not both");
  }
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.all().named) named.emplace_back(runtime.Text(name), value);
  return FormatPercent(runtime, text, runtime.Dict(std::move(named)));
}

// Runs of letters, digits and underscores.
Result<Value> WordCountFilter(Runtime& runtime, const Value& self, const BoundArguments&) {
  const std::string text = TextOf(runtime, self);
  runtime.budget().TouchCharacters(text.size());
  int64_t count = 0;
  bool is_in_word = false;
  for (std::string_view rest = text; !rest.empty();) {
    const Character c = FirstCharacter(rest);
    const bool is_word = c.code == '_' || IsOf(CharacterClass::kAlphanumeric, c.code);
    count += is_word && !is_in_word;
    is_in_word = is_word;
    rest.remove_prefix(c.bytes.size());
  }
  return Value::Int(count);
}

Result<Value> JoinFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  KVERN_ASSIGN_OR_RETURN(const Value elements, Elements(runtime, self));
  const std::string between = arguments[0] == nullptr ? "" : TextOf(runtime, *arguments[0]);
  std::string out;
  bool is_first = true;
  for (Value element : elements.elements()) {
    if (arguments[1] != nullptr && !arguments[1]->is_none()) {
      KVERN_ASSIGN_OR_RETURN(element, MemberByPath(runtime, element, *arguments[1]));
    }
    if (!is_first) out += between;
    is_first = false;
    out += TextOf(runtime, element);
    runtime.budget().Step();
    if (!runtime.budget().Fits(out.size())) return runtime.budget().status();
  }
  return runtime.Text(std::move(out));
}

// Of indent=, a number of spaces or a text; absent for none.
Status ReadIndent(const Value* indent, JsonStyle& style) {
  if (indent == nullptr || indent->is_none()) return Status::Ok();
  if (indent->is_string() && indent->text().size() <= static_cast<size_t>(kMaxIndent)) {
    style.indent = indent->text();
  } else if (indent->is_integral() && indent->integer() <= kMaxIndent) {
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(0, indent->integer())), ' ');
  } else {
    return Status::InvalidArgument("the indent of tojson must be a string or a number up to " +
                                   std::to_string(kMaxIndent));
  }
  style.item_separator.assign(1, ',');
  return Status::Ok();
}

Result<Value> ToJsonFilter(Runtime& runtime, const Value& self, const BoundArguments& arguments) {
  JsonStyle style;
  style.escapes_non_ascii = arguments.Flag(0, false);
  KVERN_RETURN_IF_ERROR(ReadIndent(arguments[1], style));
  if (const Value* separators = arguments[2]; separators != nullptr && !separators->is_none()) {
    KVERN_ASSIGN_OR_RETURN(const Value pair, Elements(runtime, *separators));
    if (pair.elements().size() != 2 || !pair.elements()[0].is_string() || !pair.elements()[1].is_string()) {
      return Status::InvalidArgument("the separators of tojson must be two strings");
    }
    style.item_separator = pair.elements()[0].text();
    style.key_separator = pair.elements()[1].text();
  }
  style.sorts_keys = arguments.Flag(3, false);
  KVERN_ASSIGN_OR_RETURN(std::string json, JsonText(runtime.budget(), self, style));
  return runtime.Text(std::move(json));
}

}  // namespace

std::span<const Builtin> TextFilters() {
  static constexpr Builtin kTable[] = {
      {"capitalize", "", CaseFilter<Capitalized>},
      {"center", "width=", CenterFilter},
      {"e", "", EscapeFilter},
      {"escape", "", EscapeFilter},
      {"forceescape", "", ForceEscapeFilter},
      {"format", "*", FormatFilter},
      {"indent", "width= first= blank=", IndentFilter},
      {"join", "d= attribute=", JoinFilter},
      {"lower", "", CaseFilter<Lower>},
      {"replace", "old new count=", ReplaceFilter},
      {"safe", "", SafeFilter},
      {"string", "", StringFilter},
      {"title", "", TitleFilter},
      {"tojson", "ensure_ascii= indent= separators= sort_keys=", ToJsonFilter},
      {"trim", "chars=", TrimFilter},
      {"upper", "", CaseFilter<Upper>},
      {"wordcount", "", WordCountFilter},
  };
  return kTable;
}

}  // namespace kvern::jinja
