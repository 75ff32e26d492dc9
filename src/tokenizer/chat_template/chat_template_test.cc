#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "kvern/chat.h"

namespace kvern {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ChatValue Message(const char* role, ChatValue content) {
  return ChatValue::Map{{"role", role}, {"content", std::move(content)}};
}

Result<std::string> RenderWith(const std::string& source, const ChatInput& input, const ChatLimits& limits = {}) {
  KVERN_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(source, limits));
  return chat.Render(input);
}

Result<std::string> Render(const std::string& source) { return RenderWith(source, {}); }

Status ErrorOf(const std::string& source) { return Render(source).status(); }

TEST(ChatTemplateTest, AConversationBecomesAPrompt) {
  ChatInput input;
  input.messages.push_back(Message("system", "Be brief."));
  input.messages.push_back(Message("user", "Hello"));
  input.bos_token = "<s>";

  const auto prompt = RenderWith(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      input);

  ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
  EXPECT_EQ(*prompt, "<s><system>Be brief.<user>Hello<assistant>");
}

TEST(ChatTemplateTest, FurtherVariablesReplaceThoseOfTheConversation) {
  ChatInput input;
  input.eos_token = "</s>";
  input.more = {{"enable_thinking", false}, {"eos_token", "<end>"}};

  EXPECT_EQ(RenderWith("{{ enable_thinking }}{{ eos_token }}", input).value(), "False<end>");
}

TEST(ChatTemplateTest, ToolsAndDocumentsThatAreNotGivenAreNone) {
  EXPECT_EQ(Render("{{ tools is none }}{{ documents is none }}{{ tools is defined }}").value(), "TrueTrueTrue");
}

TEST(ChatTemplateTest, MapsKeepTheirOrderAndTheLastOfEqualKeysCounts) {
  ChatInput input;
  input.more = {{"m", ChatValue::Map{{"z", 1}, {"a", 2}, {"z", 3}}}};

  EXPECT_EQ(RenderWith("{{ m | tojson }}", input).value(), R"({"z": 3, "a": 2})");
}

TEST(ChatTemplateTest, LargeMapsFindAllTheirKeys) {
  ChatValue::Map map;
  for (int i = 0; i < 1000; ++i) map.push_back({"key" + std::to_string(i), i});
  ChatInput input;
  input.more = {{"m", std::move(map)}};

  EXPECT_EQ(RenderWith("{{ m.key0 }} {{ m['key999'] }} {{ 'key500' in m }} {{ 'key1000' in m }}", input).value(),
            "0 999 True False");
}

TEST(ChatTemplateTest, TheDateIsThatOfTheInput) {
  ChatInput input;
  input.now.tm_year = 126;
  input.now.tm_mon = 10;
  input.now.tm_mday = 3;

  EXPECT_EQ(RenderWith("{{ strftime_now('%d %b %Y') }}", input).value(), "03 Nov 2026");
}

TEST(ChatTemplateTest, IllFormedTextComesOutAsItWent) {
  ChatInput input;
  input.messages.push_back(Message("user", "\xFF\xC3(\xE2\x82"));

  EXPECT_EQ(RenderWith("{{ messages[0].content.strip() }}", input).value(), "\xFF\xC3(\xE2\x82");
}

TEST(ChatTemplateTest, AnErrorOfSyntaxNamesItsLineAndColumn) {
  const Status status = ErrorOf("first line\n  {% if messages ) %}");

  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.message(), "line 2, column 18: unexpected ')', no bracket is open");
}

TEST(ChatTemplateTest, ColumnsCountCharacters) {
  EXPECT_THAT(ErrorOf("äöü {{ 1 + }}").message(), StartsWith("line 1, column 12: expected an expression, found '}}'"));
}

TEST(ChatTemplateTest, AnErrorInAMacroNamesThePlaceInTheMacro) {
  const Status status = ErrorOf("{% macro f(x) %}\n{{ x.y.z }}{% endmacro %}\n\n{{ f({}) }}");

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "line 2, column 7: a map has no member 'y'");
}

TEST(ChatTemplateTest, ARefusalCarriesTheSentenceOfTheTemplate) {
  const Status status = ErrorOf("\n{{ raise_exception('Roles must alternate') }}");

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "line 2, column 19: the template says: Roles must alternate");
}

TEST(ChatTemplateTest, StatementsThatWouldReadOtherFilesAreNotSupported) {
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% block x %}",
        "{% do x %}", "{% print x %}", "{% autoescape true %}"}) {
    EXPECT_EQ(ErrorOf(source).code(), StatusCode::kUnsupported) << source;
  }
}

TEST(ChatTemplateTest, UnknownFiltersAndTestsAreErrorsOnlyWhereTheyAreUsed) {
  EXPECT_EQ(Render("{% if false %}{{ 1 | frobnicate }}{{ 1 is frobnicated }}{% endif %}ok").value(), "ok");
  EXPECT_EQ(ErrorOf("{{ 1 | frobnicate }}").message(), "line 1, column 8: there is no filter 'frobnicate'");
  EXPECT_EQ(ErrorOf("{{ 1 is frobnicated }}").message(), "line 1, column 9: there is no test 'frobnicated'");
}

TEST(ChatTemplateTest, WrongArgumentsAreNamed) {
  EXPECT_THAT(ErrorOf("{{ 'a' | trim(width=1) }}").message(), HasSubstr("there is no argument 'width' of 'trim'"));
  EXPECT_THAT(ErrorOf("{{ 'a' | replace('b') }}").message(), HasSubstr("the argument 'new' of 'replace' is missing"));
  EXPECT_THAT(ErrorOf("{{ 'a' | upper(1) }}").message(), HasSubstr("'upper' takes at most 0 arguments, found 1"));
}

TEST(ChatTemplateTest, WhatWouldGoOnForTooLongIsStopped) {
  const std::string source =
      "{% for a in range(100000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}"
      "{% endfor %}{% endfor %}";

  const Status status = RenderWith(source, {}, {.steps = 100'000}).status();

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the template takes more than 100000 steps"));
}

TEST(ChatTemplateTest, ALongConversationIsFarFromTheLimits) {
  ChatInput input;
  for (int i = 0; i < 10'000; ++i)
    input.messages.push_back(Message(i % 2 == 0 ? "user" : "assistant", std::string(300, 'x')));

  const auto text = RenderWith(
      "{% for m in messages %}{% if loop.index0 == messages | length - 1 or messages[loop.index0 + 1].role != m.role %}"
      "{{ '<' + m.role + '>' + (m.content | trim) }}{% endif %}{% endfor %}",
      input, {.steps = 5'000'000});

  EXPECT_TRUE(text.ok()) << text.status().ToString();
}

TEST(ChatTemplateTest, LookingForLongTextsInLongTextsIsRefused) {
  const auto text = RenderWith("{% set x = 'a' * 1000000 %}{{ ('a' * 500000 ~ 'b') in x }}", {});

  EXPECT_EQ(text.status().code(), StatusCode::kResourceExhausted);
}

TEST(ChatTemplateTest, LoopsInLoopsHoldNoMoreThanOneOfThem) {
  const auto text = RenderWith(
      "{% set x = range(1000) | list %}{% for i in x %}{% for j in x[i:] %}{% break %}{% endfor %}"
      "{% set y = x | select | list %}{% endfor %}ok",
      {}, {.held_bytes = 1 << 20});

  EXPECT_EQ(text.value(), "ok");
}

TEST(ChatTemplateTest, WorkOnLongTextsCounts) {
  ChatInput input;
  input.messages.push_back(Message("user", std::string(1 << 20, 'x')));

  const auto text = RenderWith("{% for i in range(10000) %}{{ 'y' in messages[0].content }}{% endfor %}", input,
                               {.steps = 1'000'000});

  EXPECT_EQ(text.status().code(), StatusCode::kResourceExhausted);
}

// In each of them a hundred rounds are more work than the limit, though few nodes.
TEST(ChatTemplateTest, WorkOnEachCharacterAndKeyCounts) {
  for (const char* source : {
           "{{ x.strip('ab' * 50000 ~ 'é') }}",
           "{{ x | trim('ab' * 50000 ~ 'é') }}",
           "{{ x.isalpha() }}",
           "{{ x is lower }}",
           "{{ x.isupper() }}",
           "{{ x | wordcount }}",
           "{{ x | title | length }}",
           "{{ x | upper | length }}",
           "{{ x.swapcase() | length }}",
           "{{ [x] | max | length }}",
           "{{ x[::-1] | length }}",
           "{{ ([x] | string) | length }}",
           "{{ {x: 1} | length * 10 }}{{ 1 is in {x: 1} }}",
           "{% for i in range(9) %}{{ d.get(x) }}{{ d[x] }}{{ x in d }}{% endfor %}",
           "{% for i in range(9) %}{{ ([x] | unique(true) | list) | length }}{% endfor %}",
           "{% for i in range(9) %}{{ d | attr(x) }}{% endfor %}",
           "{% set p = 'a,' * 20000 %}{{ [{}] | sort(attribute=p) | length }}",
           "{% set p = 'a.' * 20000 %}{{ [{}] | map(attribute=p, default={}) | list | length }}",
       }) {
    const std::string rounds =
        "{% set x = 'é' * 100000 %}{% set d = {1:1, 2:1, 3:1, 4:1, 5:1, 6:1, 7:1, 8:1, 9:1} %}"
        "{% for i in range(100) %}" +
        std::string(source) + "{% endfor %}";
    EXPECT_EQ(RenderWith(rounds, {}, {.steps = 1'000'000}).status().code(), StatusCode::kResourceExhausted) << source;
  }
}

TEST(ChatTemplateTest, LookingForOneOfManyVariablesCounts) {
  std::string source = "{% for i in range(10000) %}";
  for (int i = 0; i < 2000; ++i) source += "{% set v" + std::to_string(i) + " = 1 %}";
  source += "{% endfor %}";

  EXPECT_EQ(RenderWith(source, {}, {.steps = 1'000'000}).status().code(), StatusCode::kResourceExhausted);
}

// Each of them asks for more memory than there is, in another way.
TEST(ChatTemplateTest, WhatWouldTakeTooMuchMemoryIsRefusedBeforeItIsMade) {
  for (const char* source : {
           "{{ 'a' * 1000000000 }}",
           "{{ 'a' * 9223372036854775807 }}",
           "{{ [0] * 9223372036854775807 }}",
           "{% set ns = namespace(x='abcdefgh') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x='abcdefgh') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x={}) %}{% for i in range(90) %}{% set ns.x = {1: ns.x, 2: ns.x} %}{% endfor %}",
           "{% set ns = namespace(x=(1,)) %}{% for i in range(90) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}",
           "{% set ns = namespace(x='abcdefgh') %}{% for i in range(100) %}{% set ns.x = ns.x.replace('', ns.x) %}{% "
           "endfor %}",
           "{% set ns = namespace(x='abcdefgh') %}{% for i in range(100) %}{% set ns.x = ns.x.join(ns.x) %}{% endfor "
           "%}",
           "{% set ns = namespace(x='{}{}') %}{% for i in range(100) %}{% set ns.x = '{}{}'.format(ns.x, ns.x) %}{% "
           "endfor %}",
           "{% set ns = namespace(x='%s%s') %}{% for i in range(100) %}{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor "
           "%}",
           "{% set ns = namespace(x='a\n\n') %}{% for i in range(40) %}{% set ns.x = (ns.x ~ ns.x) | indent(200, true, "
           "true) %}{% endfor %}",
           "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = (ns.x ~ ns.x) | list %}{% endfor %}",
           "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% "
           "endfor %}",
           "{% set ns = namespace(x=[]) %}{% set k = 'k' * 100000 %}{% for i in range(200) %}{% set ns.x = ns.x + [{k: "
           "1}] "
           "%}{% endfor %}",
           "{% macro f(n) %}{{ 'abcdefgh' * 100000 }}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ "
           "f(60) }}",
       }) {
    const Status status = RenderWith(source, {}, {.held_bytes = 8 << 20}).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << source << "\n" << status.ToString();
  }
}

TEST(ChatTemplateTest, TheTextWrittenIsBounded) {
  const auto text = RenderWith("{% for i in range(100) %}0123456789{% endfor %}", {}, {.output_bytes = 500});

  EXPECT_EQ(text.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(text.status().message(), HasSubstr("the text written exceeds 500 bytes"));
}

TEST(ChatTemplateTest, NestingOfAnyKindIsBounded) {
  const auto repeated = [](const std::string& text, int count) {
    std::string result;
    for (int i = 0; i < count; ++i) result += text;
    return result;
  };
  for (const std::string& source : {
           "{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
           "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}",
           "{{ " + repeated("not ", 5000) + "1 }}",
           "{{ " + repeated("- ", 5000) + "1 }}",
           "{{ 1" + repeated(" + 1", 5000) + " }}",
           "{{ x" + repeated(".x", 5000) + " }}",
           "{{ x" + repeated("|list", 5000) + " }}",
           "{{ " + repeated("1 if 1 else ", 5000) + "1 }}",
           repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000),
           repeated("{% for x in [1] %}", 5000) + repeated("{% endfor %}", 5000),
           repeated("{% set x %}", 5000) + repeated("{% endset %}", 5000),
           std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
           std::string("{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"),
           std::string("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
           std::string("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
       }) {
    EXPECT_EQ(ErrorOf(source).code(), StatusCode::kResourceExhausted) << source.substr(0, 40);
  }
}

TEST(ChatTemplateTest, InputThatNestsTooDeeplyIsRefused) {
  ChatValue nested = 1;
  for (int i = 0; i < 200; ++i) nested = ChatValue::List{std::move(nested)};
  ChatInput input;
  input.messages.push_back(Message("user", std::move(nested)));

  const auto text = RenderWith("{{ messages }}", input);

  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(text.status().message(), HasSubstr("the variable 'messages': lists and maps are nested deeper than 100"));
}

TEST(ChatTemplateTest, ATemplateThatIsTooLongIsRefused) {
  EXPECT_EQ(ErrorOf(std::string(600 << 10, 'x')).code(), StatusCode::kResourceExhausted);
}

// A leak is found by the address sanitizer.
TEST(ChatTemplateTest, ValuesThatHoldThemselvesAreFreed) {
  EXPECT_TRUE(Render("{% set ns = namespace() %}{% set ns.x = [ns] %}{% set ns.f = ns.x %}"
                     "{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}{{ ns.m() | length > 0 }}"
                     "{% for i in [1, 2] %}{{ loop.changed(loop) }}{% set ns.l = loop %}{% endfor %}")
                  .ok());
}

TEST(ChatTemplateTest, SeveralThreadsRenderOneTemplate) {
  const auto chat = ChatTemplate::Parse("{% for i in range(500) %}{{ 'abc' | upper }}{{ i }}{% endfor %}");
  ASSERT_TRUE(chat.ok());
  const std::string expected = chat->Render({}).value();
  std::vector<std::future<std::string>> texts;
  for (int i = 0; i < 4; ++i) {
    texts.push_back(std::async(std::launch::async, [&chat] { return chat->Render({}).value(); }));
  }

  for (auto& text : texts) EXPECT_EQ(text.get(), expected);
}

TEST(ChatAbilitiesTest, TheyAreFoundByTrying) {
  const auto chat = ChatTemplate::Parse(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: "
      "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}{% endfor %}");
  ASSERT_TRUE(chat.ok());

  EXPECT_TRUE(chat->abilities().system_role);
  EXPECT_TRUE(chat->abilities().tools);
  EXPECT_TRUE(chat->abilities().content_parts);
}

TEST(ChatAbilitiesTest, ArgumentsOfToolCallsAreTriedAsAMapAndAsText) {
  const std::string begin = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const auto takes_both = ChatTemplate::Parse(begin + "{{ c.function.arguments | tojson }}" + end);
  const auto takes_text = ChatTemplate::Parse(begin + "{{ 'call ' + c.function.arguments }}" + end);
  const auto takes_none = ChatTemplate::Parse(begin + "{{ c.function.name }}" + end);
  ASSERT_TRUE(takes_both.ok() && takes_text.ok() && takes_none.ok());

  EXPECT_TRUE(takes_both->abilities().tool_calls);
  EXPECT_FALSE(takes_both->abilities().text_arguments);
  EXPECT_TRUE(takes_text->abilities().tool_calls);
  EXPECT_TRUE(takes_text->abilities().text_arguments);
  EXPECT_FALSE(takes_none->abilities().tool_calls);
}

TEST(ChatAbilitiesTest, ATemplateThatRefusesOrIgnoresThemHasNone) {
  const auto chat = ChatTemplate::Parse(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
      "{{ m.content }}{% endfor %}");
  ASSERT_TRUE(chat.ok());

  EXPECT_FALSE(chat->abilities().system_role);
  EXPECT_FALSE(chat->abilities().tools);
  EXPECT_FALSE(chat->abilities().content_parts) << "a list that is printed as a list is not understood";
}

}  // namespace
}  // namespace kvern
