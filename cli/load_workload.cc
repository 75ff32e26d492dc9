#include "cli/load_workload.h"

#include <algorithm>
#include <cstdio>

#include "cli/format.h"
#include "server/json.h"

namespace kvern::cli {
namespace {

enum Purpose : uint32_t { kPlace, kName, kSample };
constexpr uint64_t kNoConversation = ~uint64_t{0};  // For texts that belong to none.

std::vector<std::string> WordsOf(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  std::vector<std::string> words;
  while (true) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kSpace), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

Result<Workload> Workload::Create(const LoadPlan& plan, std::string_view text) {
  Workload workload(plan);
  workload.words_ = WordsOf(text);
  if (workload.words_.size() < kMinWords) {
    return Status::InvalidArgument("the text has " + FormatCount(workload.words_.size()) + " words, at least " +
                                   std::to_string(kMinWords) + " are needed: give another with --text FILE");
  }
  return workload;
}

std::string Workload::Excerpt(size_t first_word, size_t num_bytes) const {
  std::string text = words_[first_word % words_.size()];
  for (size_t i = first_word + 1; text.size() < num_bytes; ++i) text += " " + words_[i % words_.size()];
  return text;
}

std::string Workload::SharedText() const {
  if (plan_.shared_tokens == 0) return "";
  return Excerpt(PlaceAt(kNoConversation, 0, kPlace), BytesOf(plan_.shared_tokens));
}

std::string Workload::UserText(uint64_t conversation, uint32_t turn) const {
  const std::string name = NameOf(conversation, turn);
  const size_t length = BytesOf(plan_.prompt_tokens);
  return name + Excerpt(PlaceAt(conversation, turn, kPlace), length > name.size() ? length - name.size() : 0);
}

std::string Workload::SampleText(size_t num_bytes) const {
  std::string text = NameOf(kNoConversation, 0);
  for (uint32_t i = 0; text.size() < num_bytes; ++i) {
    text += (i == 0 ? "" : " ") + words_[PlaceAt(kNoConversation, i, kSample)];
  }
  return text;
}

size_t Workload::PlaceAt(uint64_t conversation, uint32_t turn, uint32_t purpose) const {
  return static_cast<size_t>(UniformAt(plan_.seed, conversation, turn, purpose) * static_cast<double>(words_.size()));
}

std::string Workload::NameOf(uint64_t conversation, uint32_t turn) const {
  char name[32];
  std::snprintf(name, sizeof(name),
                "%08x: ", static_cast<unsigned>(UniformAt(plan_.seed, conversation, turn, kName) * 0x1p32));
  return name;
}

nlohmann::ordered_json RequestFields(const std::string& model, uint32_t max_tokens, bool is_streamed) {
  nlohmann::ordered_json fields = {{"model", model}, {"max_tokens", max_tokens}, {"temperature", 0}};
  if (is_streamed) {
    fields["stream"] = true;
    fields["stream_options"] = {{"include_usage", true}};
  }
  return fields;
}

Conversation::Conversation(const Workload& workload, const LoadPlan& plan, uint64_t id)
    : workload_(workload), plan_(plan), id_(id) {
  const std::string shared = workload.SharedText();
  if (!shared.empty()) {
    messages_.push_back({{"role", "system"}, {"content", shared}});
    text_ = shared + "\n\n";
  }
  AddUserText();
}

void Conversation::AddUserText() {
  const std::string said = workload_.UserText(id_, turn_);
  messages_.push_back({{"role", "user"}, {"content", said}});
  text_ += said;
}

std::string Conversation::RequestBody(const std::string& model) const {
  nlohmann::ordered_json body = RequestFields(model, plan_.max_tokens, /*is_streamed=*/true);
  if (plan_.is_chat) {
    body["messages"] = messages_;
  } else {
    body["prompt"] = text_;
  }
  return server::DumpJson(body);
}

void Conversation::AddAnswer(const std::string& text) {
  messages_.push_back({{"role", "assistant"}, {"content", text}});
  text_ += text + "\n\n";
  ++turn_;
  if (!has_ended()) AddUserText();
}

}  // namespace kvern::cli
