#include "cli/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/chat_stats.h"

namespace kvern::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenId kBos = 256;
constexpr TokenId kPair = 257;  // "ab", which encoding never makes: answers may be drawn from tokens that it would not.

// A token for each byte.
class ByteTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<TokenId> tokens;
    if (options.add_special) tokens.push_back(kBos);
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string TokenBytes(TokenId token, bool render_special) const override {
    if (token == kBos) return render_special ? "^" : "";
    if (token == kPair) return "ab";
    return std::string(1, static_cast<char>(token));
  }
  std::string Decode(const std::vector<TokenId>& tokens, bool render_special) const override {
    std::string text;
    for (const TokenId token : tokens) text += TokenBytes(token, render_special);
    return text;
  }
  size_t vocab_size() const override { return 258; }
  std::optional<TokenId> bos() const override { return kBos; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool IsEndOfGeneration(TokenId /*token*/) const override { return false; }
  bool IsControl(TokenId token) const override { return token == kBos; }
  std::string Description() const override { return "bytes"; }
};

constexpr char kTemplate[] =
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}:{{ m['content'] }}]{% endfor %}"
    "{% if add_generation_prompt %}[assistant:{% endif %}";
// Refuses two messages of one role in a row, and has no system role.
constexpr char kStrictTemplate[] =
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must take turns') }}{% endif %}<{{ m['content'] }}>{% endfor %}";

const ByteTokenizer kTokenizer;

ChatSession MakeSession(const char* chat_template = kTemplate) {
  return std::move(ChatSession::Open(chat_template, kTokenizer)).value();
}

std::string PromptText(const ChatSession& session) { return kTokenizer.Decode(session.Prompt().value(), true); }

std::vector<TokenId> Bytes(std::string_view text) { return kTokenizer.Encode(text, {.add_special = false}).value(); }

void Say(ChatSession& session, const char* question, const char* answer) {
  session.AddUser(question);
  session.AddAnswer(session.Prompt().value(), Bytes(answer), answer);
}

TEST(ChatSessionTest, ThePromptIsTheWholeConversation) {
  ChatSession session = MakeSession();
  ASSERT_TRUE(session.SetSystem("be short").ok());
  Say(session, "hi", "ho");
  session.AddUser("more");

  EXPECT_TRUE(session.awaits_answer());
  EXPECT_EQ(PromptText(session), "^[system:be short][user:hi][assistant:ho][user:more][assistant:");
}

TEST(ChatSessionTest, APromptGoesOnWhereTheTurnBeforeEnded) {
  ChatSession session = MakeSession();
  session.AddUser("hi");
  EXPECT_EQ(session.CompareToLast(session.Prompt().value()), std::nullopt);
  session.AddAnswer(session.Prompt().value(), Bytes("ho"), "ho");
  session.AddUser("more");

  const PromptChange change = session.CompareToLast(session.Prompt().value()).value();

  EXPECT_TRUE(change.is_continued());
  EXPECT_EQ(change.known_tokens, std::string("^[user:hi][assistant:ho").size());
}

TEST(ChatSessionTest, AnAnswerThatIsEncodedOtherwiseIsFound) {
  ChatSession session = MakeSession();
  session.AddUser("hi");
  const std::vector<TokenId> prompt = session.Prompt().value();
  session.AddAnswer(prompt, {'x', kPair, 'y'}, "xaby");
  session.AddUser("more");

  const PromptChange change = session.CompareToLast(session.Prompt().value()).value();

  EXPECT_FALSE(change.is_continued());
  EXPECT_EQ(change.common_tokens, prompt.size() + 1);
  EXPECT_EQ(change.known_tokens, prompt.size() + 3);
  EXPECT_EQ(change.known_text, "aby");
  EXPECT_EQ(change.text, "aby]");
}

TEST(ChatSessionTest, APromptThatEndsEarlyDepartsAtItsEnd) {
  ChatSession session = MakeSession();
  Say(session, "hi", "a long answer");
  session.Undo();
  session.AddUser("hi");

  const std::vector<TokenId> prompt = session.Prompt().value();
  const PromptChange change = session.CompareToLast(prompt).value();

  EXPECT_EQ(change.common_tokens, prompt.size());
  EXPECT_EQ(change.text, "");
  EXPECT_EQ(change.known_text, "a lo");
}

TEST(ChatSessionTest, UndoTakesBackAQuestionAndItsAnswer) {
  ChatSession session = MakeSession();
  ASSERT_TRUE(session.SetSystem("s").ok());
  Say(session, "one", "1");
  Say(session, "two", "2");

  EXPECT_EQ(session.Undo(), "two");
  EXPECT_THAT(session.messages(),
              ElementsAre(ChatMessage{"system", "s"}, ChatMessage{"user", "one"}, ChatMessage{"assistant", "1"}));
  session.AddUser("unanswered");
  EXPECT_EQ(session.Undo(), "unanswered");
  EXPECT_EQ(session.Undo(), "one");
  EXPECT_EQ(session.Undo(), std::nullopt);
  EXPECT_THAT(session.messages(), ElementsAre(ChatMessage{"system", "s"}));
}

TEST(ChatSessionTest, ResetKeepsTheSystemMessageAndSystemReplacesIt) {
  ChatSession session = MakeSession();
  Say(session, "one", "1");
  ASSERT_TRUE(session.SetSystem("s").ok());
  ASSERT_TRUE(session.SetSystem("t").ok());

  session.Reset();

  EXPECT_THAT(session.messages(), ElementsAre(ChatMessage{"system", "t"}));
  ASSERT_TRUE(session.SetSystem("").ok());
  EXPECT_THAT(session.messages(), IsEmpty());
}

TEST(ChatSessionTest, ATemplateWithoutASystemRoleRefusesOne) {
  ChatSession session = MakeSession(kStrictTemplate);

  EXPECT_EQ(session.SetSystem("s").code(), StatusCode::kUnsupported);
  EXPECT_TRUE(session.SetSystem("").ok());
  EXPECT_THAT(session.messages(), IsEmpty());
}

TEST(ChatSessionTest, WhatIsSavedIsLoadedAgain) {
  ChatSession session = MakeSession();
  ASSERT_TRUE(session.SetSystem("s").ok());
  Say(session, "quotes \" and\nlines", "\xC3\xA4");
  ChatSession other = MakeSession();
  Say(other, "gone", "gone");

  ASSERT_TRUE(other.Load(session.ToJson()).ok());

  EXPECT_EQ(other.messages(), session.messages());
  EXPECT_FALSE(other.awaits_answer());
  ASSERT_TRUE(other.Load(R"({"model": "m", "messages": [{"role": "user", "content": "q", "name": "n"}]})").ok());
  EXPECT_TRUE(other.awaits_answer());
}

TEST(ChatSessionTest, LoadSaysWhatItFoundAndLeavesTheConversation) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON"},
      {"{\"messages\": [", "JSON"},
      {"[]", "found a value of type array"},
      {"{}", "no \"messages\""},
      {R"({"messages": 3})", "\"messages\" is a value of type number"},
      {R"({"messages": ["x"]})", "messages[0] is a value of type string"},
      {R"({"messages": [{"role": "user"}]})", "messages[0] has no \"content\""},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content is null, expected a string"},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "tool", "content": "x"}]})", "the role \"tool\""},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "system", "content": "x"}]})", "messages[1]"},
  };
  ChatSession session = MakeSession();
  Say(session, "one", "1");
  const std::vector<ChatMessage> before = session.messages();
  for (const auto& [json, expected] : cases) {
    const Status status = session.Load(json);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(status.message(), HasSubstr(expected)) << json;
    EXPECT_EQ(session.messages(), before) << json;
  }
}

TEST(ChatSessionTest, LoadAsksTheTemplate) {
  ChatSession session = MakeSession(kStrictTemplate);
  const Status turns =
      session.Load(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})");
  const Status system = session.Load(R"({"messages": [{"role": "system", "content": "a"}]})");

  EXPECT_THAT(turns.message(), HasSubstr("roles must take turns"));
  EXPECT_THAT(system.message(), HasSubstr("system"));
  EXPECT_THAT(session.messages(), IsEmpty());
}

TEST(ChatSessionTest, ATemplateThatIsNoneIsRefused) { EXPECT_FALSE(ChatSession::Open("{% for %}", kTokenizer).ok()); }

TEST(ChatStatsTest, CountsTheLastTurnAndAllTurns) {
  ChatStats stats;
  EXPECT_EQ(stats.Text(100), "no answer yet\n");
  stats.Add({.prompt_tokens = 10,
             .prompt_tokens_computed = 10,
             .generated_tokens = 5,
             .queue_us = 1000,
             .prefill_us = 9000,
             .decode_us = 1000000},
            std::nullopt);
  EXPECT_THAT(stats.Text(100), HasSubstr("there was no turn before it"));
  stats.Add({.prompt_tokens = 20,
             .prompt_tokens_computed = 6,
             .prompt_tokens_found = 14,
             .generated_tokens = 3,
             .prefill_us = 20000,
             .decode_us = 1000000},
            PromptChange{.known_tokens = 15, .common_tokens = 14, .known_text = "a\n", .text = "b"});

  const std::string text = stats.Text(100);

  EXPECT_THAT(text,
              HasSubstr("last turn: 20 prompt tokens, 14 found in the cache, 6 computed; first token after 0.020 s; "
                        "3 tokens at 2"));
  EXPECT_THAT(text, HasSubstr("2 turns: 30 prompt tokens, 14 found in the cache, 16 computed; first token after "
                              "0.015 s (mean); 8 tokens at 3"));
  EXPECT_THAT(text, HasSubstr("departs from the turn before it at token 14 of 15: \"b\" where \"a\\n\" was"));
  EXPECT_THAT(text, HasSubstr("context at the end of the last turn: 23 of 100 tokens"));
}

}  // namespace
}  // namespace kvern::cli
