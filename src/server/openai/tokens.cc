#include <algorithm>
#include <utility>

#include "server/openai/answer.h"
#include "server/openai/routes.h"

namespace kvern::server {
namespace {

bool IsWellFormed(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return true;
  // What the library would have to replace is not well-formed.
  return DumpJson(text) == Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore);
}

// {id, piece}: the piece as text, or as bytes where it is part of a character.
Json PieceJson(const Tokenizer& tokenizer, TokenId token) {
  const std::string piece = tokenizer.TokenBytes(token, /*render_special=*/true);
  if (IsWellFormed(piece)) return {{"id", token}, {"piece", piece}};
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<uint8_t>(c));
  return {{"id", token}, {"piece", std::move(bytes)}};
}

}  // namespace

HttpReply TokenizeText(RouteContext& context) {
  const Result<Json> body = ParseJson(context.request.body);
  if (!body.ok()) return ReplyWith(context, ApiError{.message = "the body " + body.status().message()});
  FieldErrors errors;
  FieldReader fields(*body, "", errors);
  std::string content;
  bool adds_special = false, parses_special = true, has_pieces = false;
  if (fields.Find("content") == nullptr) fields.Fail("content", "is missing, expected a string");
  fields.String("content", content);
  fields.Bool("add_special", adds_special);
  fields.Bool("parse_special", parses_special);
  fields.Bool("with_pieces", has_pieces);
  if (errors.first) return ReplyWith(context, *errors.first);

  if (const auto error = CheckTextBytes(*context.model, content.size(), "content")) return ReplyWith(context, *error);
  const Tokenizer& tokenizer = context.model->engine.tokenizer();
  const auto ids = tokenizer.Encode(content, {.add_special = adds_special, .parse_special = parses_special});
  if (!ids.ok())
    return ReplyWith(context, ApiError{.message = "content: " + ids.status().message(), .param = "content"});
  // Written piece by piece: a tree of so many values would be many times as large as their text.
  HttpResponse response = JsonResponse(nullptr);
  response.body = "{\"tokens\":[";
  for (const TokenId id : *ids) {
    if (response.body.back() != '[') response.body += ',';
    response.body += DumpJson(has_pieces ? PieceJson(tokenizer, id) : Json(id));
  }
  response.body += "]}";
  return ReplyWith(std::move(response));
}

HttpReply Detokenize(RouteContext& context) {
  const Result<Json> body = ParseJson(context.request.body);
  if (!body.ok()) return ReplyWith(context, ApiError{.message = "the body " + body.status().message()});
  FieldErrors errors;
  FieldReader fields(*body, "", errors);
  const Json* const field = fields.Find("tokens");
  if (field == nullptr) fields.Fail("tokens", "is missing, expected an array of token ids");
  const std::vector<TokenId> tokens = field == nullptr ? std::vector<TokenId>() : ReadTokens(*field, "tokens", errors);
  const Tokenizer& tokenizer = context.model->engine.tokenizer();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (static_cast<size_t>(tokens[i]) < tokenizer.vocab_size()) continue;
    errors.Fail("tokens[" + std::to_string(i) + "]", "is " + std::to_string(tokens[i]) + ", the vocabulary has " +
                                                         std::to_string(tokenizer.vocab_size()) + " tokens");
  }
  if (errors.first) return ReplyWith(context, *errors.first);
  const std::string content = tokenizer.Decode(tokens, /*render_special=*/true);
  if (const auto error = CheckTextBytes(*context.model, content.size(), "tokens")) return ReplyWith(context, *error);
  return ReplyWith(Json{{"content", content}});
}

}  // namespace kvern::server
