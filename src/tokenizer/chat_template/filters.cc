#include "tokenizer/chat_template/filters.h"

namespace kvern::jinja {

const Builtin* FindFilter(std::string_view name) {
  for (const auto table : {TextFilters(), SequenceFilters(), SelectionFilters(), NumberFilters()}) {
    for (const Builtin& builtin : table) {
      if (builtin.name == name) return &builtin;
    }
  }
  return nullptr;
}

}  // namespace kvern::jinja
