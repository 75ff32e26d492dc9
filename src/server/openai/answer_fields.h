// The fields that /v1/chat/completions and /v1/completions share: all of AnswerOptions but log probabilities, which the
// two ask for in different ways.
#pragma once

#include "server/openai/requests.h"

namespace kvern::server {

void ReadAnswerFields(FieldReader& fields, AnswerOptions& answer);

}  // namespace kvern::server
