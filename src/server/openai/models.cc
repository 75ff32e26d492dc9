#include <algorithm>

#include "server/http_format.h"
#include "server/openai/answer.h"
#include "server/openai/routes.h"

namespace kvern::server {
namespace {

// The type that most bytes of the weights have.
std::string MainTensorType(const ModelInfo& info) {
  const auto most = std::ranges::max_element(info.tensor_types, {}, &TensorTypeInfo::num_bytes);
  return most == info.tensor_types.end() ? "" : most->type;
}

Json ModelJson(const ServedModel& model) {
  const ModelInfo& info = model.engine.model_info();
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created_s},
          {"owned_by", "kvern"},
          {"meta",
           {{"vocab_type", model.engine.tokenizer().Description()},
            {"n_vocab", model.engine.tokenizer().vocab_size()},
            {"n_ctx", model.engine.options().context_tokens},
            {"n_ctx_train", info.context_tokens},
            {"n_embd", info.width},
            {"n_params", info.num_parameters},
            {"size", info.file_bytes},
            {"ftype", MainTensorType(info)},
            {"has_chat_template", static_cast<bool>(model.render_chat)}}}};
}

}  // namespace

HttpReply ListModels(RouteContext& context) {
  return ReplyWith(Json{{"object", "list"}, {"data", Json::array({ModelJson(*context.model)})}});
}

HttpReply ShowModel(RouteContext& context) {
  if (const auto error = CheckModelName(*context.model, PercentDecode(context.parameter))) {
    return ReplyWith(context, *error);
  }
  return ReplyWith(ModelJson(*context.model));
}

}  // namespace kvern::server
