// make_model: writes a model file with random weights (random_model.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "bench/generator/random_model.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace kvern {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  make_model --shape b --types Q4_0 --out models/generated/b-Q4_0.gguf\n"
    "  make_model --shape c --types Q4_K_M --out models/generated/c-Q4_K_M.gguf --seed 7\n"
    "\n"
    "The file appears under its name when it is complete.";

// Writes beside `out` first, so that nobody ever opens half a model.
Status MakeModel(const ModelShape& shape, const std::string& types, const std::string& out, uint64_t seed) {
  std::error_code error;
  if (std::filesystem::exists(out, error) && !std::filesystem::is_regular_file(out, error)) {
    return Status::InvalidArgument(out + " exists and is no regular file: give another --out");
  }
  const cli::OnInterrupt keep_running;  // The partial file is removed first.
  const std::string partial = out + ".part";
  cli::ProgressBar bar("writing", 0);
  Status status = WriteRandomModel(PosixFileSystem(), partial, shape, types, seed, [&](uint64_t done, uint64_t total) {
    bar.SetTotal(total);
    bar.Update(done);
    return !cli::WasInterrupted();
  });
  if (status.ok()) {
    std::filesystem::rename(partial, out, error);
    if (error) status = Status::IoError("cannot rename " + partial + " to " + out + ": " + error.message());
  }
  if (!status.ok()) std::filesystem::remove(partial, error);
  return status;
}

int Main(int argc, char** argv) {
  CLI::App app("Writes a GGUF file with random weights in the shape of a published model", "make_model");
  std::vector<std::string> shapes;
  std::string shape_help = "Shape of:";
  for (const ModelShape& shape : ModelShapes()) {
    shape_help += (shapes.empty() ? " " : ", ") + std::string(shape.name) + " = " + std::string(shape.like);
    shapes.emplace_back(shape.name);
  }
  const std::vector<std::string> mixes(TypeMixes().begin(), TypeMixes().end());
  std::string shape_name, types, out;
  uint64_t seed = 1;
  app.add_option("--shape", shape_name, shape_help)->required()->check(CLI::IsMember(shapes));
  app.add_option("--types", types, "Types of the matrices, as llama.cpp's quantiser mixes them")
      ->required()
      ->check(CLI::IsMember(mixes));
  app.add_option("--out", out, "File to write; replaced when it exists")->required()->type_name("FILE");
  app.add_option("--seed", seed, "Other seeds give other weights")->capture_default_str()->type_name("N");
  app.footer(kExamples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return cli::FinishOut(app.exit(help));
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "make_model: %s\nSee make_model --help.\n", error.what());
    return cli::kExitUsage;
  }
  const ModelShape& shape = *std::find_if(ModelShapes().begin(), ModelShapes().end(),
                                          [&](const ModelShape& s) { return s.name == shape_name; });
  const Status status = MakeModel(shape, types, out, seed);
  if (status.ok()) return cli::kExitDone;
  std::fprintf(stderr, "make_model: %s\n", status.message().c_str());
  return status.code() == StatusCode::kCancelled ? cli::kExitInterrupted : cli::kExitFailed;
}

}  // namespace
}  // namespace kvern

int main(int argc, char** argv) {
  kvern::cli::InstallInterruptHandler();
  return kvern::Main(argc, argv);
}
