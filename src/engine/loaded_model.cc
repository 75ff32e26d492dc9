#include "engine/loaded_model.h"

#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "kernels/dispatch.h"
#include "platform/affinity.h"
#include "platform/file_system.h"
#include "platform/huge_pages.h"

namespace kvern {

Result<LoadedModel> LoadModelAlone(const EngineOptions& options, const std::function<bool()>& goes_on) {
  const std::vector<int> cpus = UsableCpus();
  if (options.num_threads > cpus.size()) {
    return Status::InvalidArgument("num_threads is " + std::to_string(options.num_threads) + ", this process may use " +
                                   std::to_string(cpus.size()) + " CPUs");
  }
  LoadedModel loaded;
  KVERN_ASSIGN_OR_RETURN(loaded.kernels, ChooseTarget(options.isa));
  KVERN_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(PosixFileSystem(), options.model_path));
  const auto num_threads = options.num_threads != 0 ? options.num_threads : static_cast<uint32_t>(cpus.size());
  loaded.workers = std::make_unique<ThreadPool>(num_threads);
  ModelOptions model_options;
  model_options.activations = options.activations;
  model_options.kernels = loaded.kernels;
  model_options.pool = loaded.workers.get();
  model_options.allocator = &HugePageAllocator();
  model_options.progress = [&](uint64_t, uint64_t) { return goes_on(); };
  KVERN_ASSIGN_OR_RETURN(loaded.model, LoadModel(file, model_options));
  KVERN_ASSIGN_OR_RETURN(loaded.tokenizer, LoadTokenizer(options.model_path));
  return loaded;
}

}  // namespace kvern
