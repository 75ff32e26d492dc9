// Any text as a chat template, and templates grown from pieces that are valid: each is refused with its place or
// rendered within its limits, and renders the same again.
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kvern/chat.h"

namespace {

using namespace kvern;

constexpr ChatLimits kLimits{
    .template_bytes = 64 << 10, .steps = 50'000, .output_bytes = 256 << 10, .held_bytes = 4 << 20};

constexpr std::string_view kPieces[] = {
    "messages",
    "tools",
    "message",
    "x",
    "ns",
    "loop",
    "1",
    "0",
    "-3",
    "2.5",
    "1000000007",
    "9223372036854775807",
    "'abc'",
    "'é{}%s'",
    "''",
    "true",
    "none",
    "[1, 'a', none]",
    "[]",
    "{'k': [2], 'l': {}}",
    "(1, 2)",
    "range(9)",
    "range(100000)",
    ".role",
    ".content",
    "['k']",
    "[0]",
    "[-1]",
    "[1:]",
    "[::-1]",
    "[::2]",
    ".items()",
    ".get('k')",
    ".keys()",
    ".split('a')",
    ".strip()",
    ".replace('', 'xy')",
    ".upper()",
    ".join(messages)",
    ".format(1, x=2)",
    ".title()",
    ".rsplit(none, 1)",
    ".index",
    ".cycle(1, 2)",
    ".changed(x)",
    "|tojson",
    "|tojson(indent=2)",
    "|upper",
    "|length",
    "|list",
    "|join(',')",
    "|map('upper')",
    "|map(attribute='role')",
    "|select",
    "|selectattr('role', 'equalto', 'user')",
    "|reject('odd')",
    "|sort",
    "|unique",
    "|first",
    "|last",
    "|int",
    "|float",
    "|round(1)",
    "|string",
    "|safe",
    "|escape",
    "|indent(2, true)",
    "|default('d', true)",
    "|items",
    "|dictsort",
    "|reverse",
    "|batch(2)",
    "|sum",
    "|max",
    "|trim",
    "|title",
    "|replace('a', 'bb')",
    "|center(20)",
    "|format(1)",
    " is defined",
    " is string",
    " is not none",
    " is iterable",
    " is odd",
    " is in [1]",
    " + ",
    " - ",
    " * ",
    " / ",
    " // ",
    " % ",
    " ** ",
    " ~ ",
    " == ",
    " < ",
    " in ",
    " not in ",
    " and ",
    " or ",
    "not ",
    " if ",
    " else ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "=",
    "{{ ",
    " }}",
    "{%- ",
    " -%}",
    "{% if x %}",
    "{% elif 1 %}",
    "{% else %}",
    "{% endif %}",
    "{% for x in messages %}",
    "{% for k, v in x.items() if v %}",
    "{% for i in range(50) %}",
    "{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% set x = ",
    "%}",
    "{% set ns = namespace(a=1) %}",
    "{% set ns.a = ns.a ~ ns.a %}",
    "{% set x = x + x %}",
    "{% set x = [x, x] %}",
    "{% set x %}",
    "{% endset %}",
    "{% macro f(x, y=1) %}",
    "{% endmacro %}",
    "{{ f(x) }}",
    "{{ f(f(1)) }}",
    "{% filter upper %}",
    "{% endfilter %}",
    "{% generation %}",
    "{% endgeneration %}",
    "{% raw %}",
    "{% endraw %}",
    "{# ",
    " #}",
    "{% call f() %}",
    "{% endcall %}",
    "{{ caller() }}",
    "{% with x = 1 %}",
    "{% endwith %}",
    "\n",
    "  ",
    "text",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%Y') }}",
    "dict(a=1)",
    "*",
    "**",
};

std::string Grown(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += kPieces[byte % std::size(kPieces)];
  return text;
}

ChatInput Conversation() {
  ChatInput input;
  input.messages.push_back(ChatValue::Map{{"role", "system"}, {"content", "Be \xE2\x80\x8D kind"}});
  input.messages.push_back(ChatValue::Map{{"role", "user"}, {"content", ChatValue::List{"a", 1, 2.5, ChatValue()}}});
  input.messages.push_back(ChatValue::Map{{"role", "assistant"}, {"content", "\xFF\xC3 ill-formed"}, {"n", true}});
  input.tools = ChatValue::List{ChatValue::Map{{"function", ChatValue::Map{{"name", "f"}}}}};
  input.more = {{"x", "abc"}};
  return input;
}

void Try(std::string_view source) {
  const auto chat = ChatTemplate::Parse(source, kLimits);
  if (!chat.ok()) {
    KVERN_CHECK(chat.status().code() != StatusCode::kInvalidArgument);
    return;
  }
  const ChatInput input = Conversation();
  const auto text = chat->Render(input);
  const auto again = chat->Render(input);
  KVERN_CHECK(text.ok() == again.ok());
  if (text.ok()) {
    KVERN_CHECK(text->size() <= kLimits.output_bytes);
    KVERN_CHECK(*text == *again);
  } else {
    KVERN_CHECK(text.status().message() == again.status().message());
    KVERN_CHECK(text.status().message().starts_with("line "));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 4 == 0) {
    Try({reinterpret_cast<const char*>(rest.data()), rest.size()});
  } else {
    Try(Grown(rest));
  }
  return 0;
}
