#include "server/chat_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_engine.h"

namespace kvern::server {
namespace {

using ::testing::HasSubstr;

constexpr char kChatMl[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
constexpr char kWithTools[] =
    "{% for t in tools %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.arguments.city }}{% endfor %}{% endfor %}";

std::string Render(const char* source, const std::string& messages, const std::string& tools = "[]",
                   const std::string& arguments = "{}") {
  const Result<ChatRenderer> renderer = MakeChatRenderer(source, FakeTokenizer());
  const Json m = ParseJson(messages).value(), t = ParseJson(tools).value(), a = ParseJson(arguments).value();
  const Result<std::string> text =
      renderer->render({.messages = m, .tools = t, .arguments = a, .adds_generation_prompt = true});
  return text.ok() ? *text : text.status().ToString();
}

TEST(ChatRendererTest, MessagesGoThroughTheTemplate) {
  EXPECT_EQ(Render(kChatMl, R"([{"role":"system","content":"be"},{"role":"user","content":"hé\u0000"}])"),
            std::string("<system>be<user>h\xC3\xA9\0<a>", 23));
}

TEST(ChatRendererTest, PartsAreJoinedWhereTheTemplateWantsText) {
  EXPECT_EQ(Render(kChatMl, R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"),
            "<user>a\nb<a>");
}

TEST(ChatRendererTest, ToolsAndArgumentsOfCallsAreValues) {
  EXPECT_TRUE(MakeChatRenderer(kWithTools, FakeTokenizer())->knows_tools);
  EXPECT_FALSE(MakeChatRenderer(kChatMl, FakeTokenizer())->knows_tools);
  EXPECT_EQ(
      Render(kWithTools,
             R"([{"role":"assistant","content":"x","tool_calls":[{"function":{"arguments":"{\"city\":\"Oslo\"}"}}]}])",
             R"([{"function":{"name":"f"}}])"),
      "[f]xOslo");
}

TEST(ChatRendererTest, FurtherVariablesReachTheTemplate) {
  EXPECT_EQ(Render("{{ mood }}{{ n }}", "[]", "[]", R"({"mood":"calm","n":3})"), "calm3");
}

TEST(ChatRendererTest, ATemplateThatRefusesOrNeverEndsIsAnError) {
  EXPECT_THAT(Render("{{ raise_exception('no') }}", "[]"), HasSubstr("invalid argument"));
  EXPECT_THAT(Render("{% for a in range(9999999) %}{% for b in range(9999999) %}{% endfor %}{% endfor %}", "[]"),
              HasSubstr("resource exhausted"));
  EXPECT_EQ(MakeChatRenderer("{% if %}", FakeTokenizer()).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace kvern::server
