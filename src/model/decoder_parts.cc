#include "model/decoder_parts.h"

#include <algorithm>

#include "base/check.h"

namespace kvern {
namespace {

constexpr uint32_t kHeadPanels = 32;  // Of the output head at a time.

// Calls body(sequence, row, position) for rows [rows.begin, rows.end) of the batch.
template <class Body>
void ForEachRow(const ForwardBatch& batch, Worker::Range rows, Body body) {
  for (const SequenceRows& sequence : batch.sequences) {
    const uint64_t first = sequence.first_row, last = first + sequence.num_rows;
    for (uint64_t row = std::clamp(rows.begin, first, last); row < std::clamp(rows.end, first, last); ++row) {
      body(sequence, row, static_cast<uint32_t>(sequence.first_position + (row - first)));
    }
  }
}

}  // namespace

DecoderParts::Group::Group(const RopeConfig& rope) : angles(rope), cos(angles.num_pairs()), sin(angles.num_pairs()) {}

DecoderParts::DecoderParts(const ModelConfig& config, const PackedMatrix& head, Residual residual,
                           float attention_scale, const ModelOptions& options)
    : config_(config),
      head_(head),
      residual_(residual),
      attention_scale_(attention_scale),
      kernels_(*options.kernels),
      pool_(*options.pool),
      allocator_(*options.allocator),
      width_input_(kernels_, options.activations),
      heads_input_(kernels_, options.activations),
      ffn_input_(kernels_, options.activations),
      head_input_(kernels_, options.activations),
      head_terms_(head_input_.FormFor(head.view()) == ActivationForm::kInt8 ? 2 : 1),
      x_(config_.width),
      y_(config_.width),
      q_(config_.num_heads * config_.head_dim),
      q_pinned_(config_.num_heads * config_.head_dim),
      k_(config_.num_kv_heads * config_.head_dim),
      v_(config_.num_kv_heads * config_.head_dim),
      heads_(config_.num_heads * config_.head_dim),
      gate_(config_.ffn_width),
      up_(config_.ffn_width),
      normed_(config_.width),
      head_out_(kHeadPanels * kPanelOutputs) {
  for (const LayerGroup& group : config_.layer_groups) groups_.emplace_back(config_.RopeOf(group));
  head_input_.AddReader(head.view());
}

void DecoderParts::AddReaders(std::initializer_list<const PackedMatrix*> of_normed, const PackedMatrix& of_heads,
                              const PackedMatrix& of_ffn) {
  for (const PackedMatrix* weights : of_normed) width_input_.AddReader(weights->view());
  heads_input_.AddReader(of_heads.view());
  ffn_input_.AddReader(of_ffn.view());
}

Result<ForwardStats> DecoderParts::Run(const ForwardBatch& batch, FunctionRef<void(Worker&)> step) {
  KVERN_RETURN_IF_ERROR(Reserve(batch));
  pool_.Run(step);
  ForwardStats stats;
  stats.rows_computed = batch.tokens.size();
  for (uint64_t products : products_) stats.query_key_products += products;
  for (uint64_t lost : lost_) stats.kv_values_lost += lost;
  return stats;
}

Status DecoderParts::Reserve(const ForwardBatch& batch) {
  num_rows_ = static_cast<uint32_t>(batch.tokens.size());
  const auto num_logit_rows = static_cast<uint32_t>(batch.logit_rows.size());
  const uint32_t num_workers = pool_.num_threads();
  const uint32_t num_copies = has_own_residual() && IsPrivate(num_rows_) ? num_workers : 1;
  KVERN_RETURN_IF_ERROR(x_.Reserve(num_copies * num_rows_, allocator_));
  if (has_own_residual()) KVERN_RETURN_IF_ERROR(y_.Reserve(num_rows_, allocator_));
  for (RowBuffer* buffer : {&q_, &k_, &v_, &heads_, &gate_, &up_}) {
    KVERN_RETURN_IF_ERROR(buffer->Reserve(num_rows_, allocator_));
  }
  for (PackedInput* input : {&width_input_, &heads_input_, &ffn_input_}) {
    KVERN_RETURN_IF_ERROR(input->Reserve(num_rows_, num_workers, allocator_));
  }
  KVERN_RETURN_IF_ERROR(head_input_.Reserve(head_terms_ * num_logit_rows, num_workers, allocator_));
  KVERN_RETURN_IF_ERROR(head_out_.Reserve(num_workers * head_terms_ * num_logit_rows, allocator_));
  KVERN_RETURN_IF_ERROR(normed_.Reserve(num_workers, allocator_));
  if (scratch_.size() == 0) {
    scratch_stride_ = RoundUp(kernels_.matmul_scratch_bytes(), 64);
    KVERN_ASSIGN_OR_RETURN(scratch_, allocator_.Allocate(num_workers * scratch_stride_));
  }
  products_.assign(num_workers, 0);
  lost_.assign(num_workers, 0);
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    KVERN_RETURN_IF_ERROR(group.cos.Reserve(num_rows_, allocator_));
    KVERN_RETURN_IF_ERROR(group.sin.Reserve(num_rows_, allocator_));
    const AttentionSpan& span = batch.spans[i];
    if (!span.pinned.empty()) {
      KVERN_RETURN_IF_ERROR(q_pinned_.Reserve(num_rows_, allocator_));
      group.pinned_cos.resize(group.angles.num_pairs());
      group.pinned_sin.resize(group.angles.num_pairs());
      group.angles.Fill(span.PinnedQueryPosition(), group.pinned_cos, group.pinned_sin);
    }
    KVERN_RETURN_IF_ERROR(group.attention.Build(kernels_, batch.sequences,
                                                i == 0 ? batch.shared_prefixes : std::span<const SharedPrefix>(),
                                                {.num_heads = config_.num_heads,
                                                 .num_kv_heads = config_.num_kv_heads,
                                                 .head_dim = config_.head_dim,
                                                 .layer_group = i,
                                                 .span = span},
                                                num_workers, allocator_));
  }
  return Status::Ok();
}

void DecoderParts::Embed(const ForwardBatch& batch, const PackedMatrix& embedding, float scale, Worker& worker) {
  const Worker::Range rows = ResidualRows(worker);
  for (uint64_t row = rows.begin; row < rows.end; ++row) {
    float* const x = X(row, worker);
    embedding.DecodeRow(static_cast<uint32_t>(batch.tokens[row]), {x, config_.width});
    if (scale != 1) {
      for (uint32_t i = 0; i < config_.width; ++i) x[i] *= scale;
    }
  }
  FillAngles(batch, worker.Part(num_rows_));
}

void DecoderParts::FillAngles(const ForwardBatch& batch, Worker::Range rows) {
  for (Group& group : groups_) {
    const uint32_t num_pairs = group.angles.num_pairs();
    ForEachRow(batch, rows, [&](const SequenceRows&, uint64_t row, uint32_t position) {
      group.angles.Fill(position, {group.cos.row(row), num_pairs}, {group.sin.row(row), num_pairs});
    });
  }
}

void DecoderParts::Observe(const ForwardBatch& batch, uint32_t layer, Worker& worker) {
  if (batch.observer == nullptr) return;
  worker.Barrier();
  if (worker.index() == 0) (*batch.observer)(layer, X(0, worker), x_.stride());
}

void DecoderParts::PackNormed(const std::vector<float>& norm, Worker& worker) {
  PackNormed(norm, num_rows_, {}, /*terms=*/1, width_input_, worker);
}

void DecoderParts::PackNormed(const std::vector<float>& norm, uint32_t num_rows, std::span<const uint32_t> rows,
                              uint32_t terms, PackedInput& input, Worker& worker) {
  const uint32_t num_packed = terms * num_rows;
  const bool is_private = IsPrivate(num_packed);
  const Worker::Range part = is_private ? Worker::Range{0, num_rows} : worker.Part(num_rows);
  float* const normed = normed_.row(worker.index());
  for (uint64_t i = part.begin; i < part.end; ++i) {
    kernels_.rms_norm(X(rows.empty() ? i : rows[i], worker), norm.data(), config_.width, config_.norm_eps, normed);
    for (uint32_t term = 0; term < terms; ++term) {
      if (term > 0) kernels_.int8_residual(normed, config_.width, normed);
      const auto row = static_cast<uint32_t>(term * num_rows + i);
      input.Pack(normed, /*x_stride=*/0, num_packed, config_.width, row, row + 1, 0, config_.width,
                 CopyOf(num_packed, worker));
    }
  }
  if (!is_private) worker.Barrier();
}

void DecoderParts::ProjectQkv(const PackedMatrix& wq, const PackedMatrix& wk, const PackedMatrix& wv, Worker& worker) {
  struct Projection {
    const PackedMatrix& weights;
    RowBuffer& out;
  };
  const Projection projections[] = {{wq, q_}, {wk, k_}, {wv, v_}};
  uint64_t num_panels = 0;
  for (const Projection& p : projections) num_panels += p.weights.view().num_panels();
  const Worker::Range part = worker.Part(num_panels, 2);
  uint64_t first = 0;
  for (const Projection& p : projections) {
    const uint64_t count = p.weights.view().num_panels();
    const uint64_t begin = std::clamp(part.begin, first, first + count) - first;
    const uint64_t end = std::clamp(part.end, first, first + count) - first;
    Product(p.weights.view(), width_input_, CopyOf(num_rows_, worker), num_rows_, Into(p.out), {begin, end}, worker);
    first += count;
  }
}

void DecoderParts::NormHeads(const std::vector<float>& q_norm, const std::vector<float>& k_norm, Worker& worker) {
  const auto norm_each = [this](float* head, uint32_t num_heads, const std::vector<float>& norm) {
    for (uint32_t i = 0; i < num_heads; ++i, head += config_.head_dim) {
      kernels_.rms_norm(head, norm.data(), config_.head_dim, config_.norm_eps, head);
    }
  };
  const Worker::Range rows = worker.Part(num_rows_);
  for (uint64_t row = rows.begin; row < rows.end; ++row) {
    norm_each(q_.row(row), config_.num_heads, q_norm);
    norm_each(k_.row(row), config_.num_kv_heads, k_norm);
  }
}

void DecoderParts::ObserveAttention(const ForwardBatch& batch, uint32_t layer, bool is_rotated, Worker& worker) {
  if (worker.index() != 0) return;
  (*batch.attention_observer)({.layer = layer,
                               .is_rotated = is_rotated,
                               .q = q_.row(0),
                               .q_stride = q_.stride(),
                               .k = k_.row(0),
                               .v = v_.row(0),
                               .kv_stride = k_.stride(),
                               .scale = attention_scale_});
}

void DecoderParts::StoreKv(const ForwardBatch& batch, uint32_t layer, Worker& worker) {
  if (batch.attention_observer != nullptr) {
    worker.Barrier();  // Other workers may have normed their heads since the last one,
    ObserveAttention(batch, layer, /*is_rotated=*/false, worker);
    worker.Barrier();  // and rotate them in place from here on.
  }
  const LayerPlace place = config_.layer_places[layer];
  const KvView& kv = batch.kv[place.group];
  const AttentionSpan& span = batch.spans[place.group];
  Group& group = groups_[place.group];
  const uint32_t rope_dim = 2 * group.angles.num_pairs();
  const size_t kv_width = size_t{config_.num_kv_heads} * config_.head_dim;
  ForEachRow(batch, worker.Part(num_rows_), [&](const SequenceRows& sequence, uint64_t row, uint32_t position) {
    const float* const cos = group.cos.row(row);
    const float* const sin = group.sin.row(row);
    if (!span.pinned.empty()) {
      const bool is_beyond = position > span.PinnedQueryPosition();
      std::copy_n(q_.row(row), config_.num_heads * config_.head_dim, q_pinned_.row(row));
      kernels_.rope_pairs(q_pinned_.row(row), config_.num_heads, config_.head_dim, rope_dim,
                          is_beyond ? group.pinned_cos.data() : cos, is_beyond ? group.pinned_sin.data() : sin);
    }
    kernels_.rope_pairs(q_.row(row), config_.num_heads, config_.head_dim, rope_dim, cos, sin);
    kernels_.rope_pairs(k_.row(row), config_.num_kv_heads, config_.head_dim, rope_dim, cos, sin);
    if (batch.kv_editor != nullptr) (*batch.kv_editor)(layer, {k_.row(row), kv_width}, {v_.row(row), kv_width});
    lost_[worker.index()] +=
        kernels_.store_kv(kv, place.index, sequence.block_tables[place.group][position / kv.block_size],
                          position % kv.block_size, k_.row(row), v_.row(row));
  });
}

void DecoderParts::Attend(const ForwardBatch& batch, uint32_t layer, Worker& worker) {
  if (batch.attention_observer != nullptr) ObserveAttention(batch, layer, /*is_rotated=*/true, worker);
  const LayerPlace place = config_.layer_places[layer];
  products_[worker.index()] += groups_[place.group].attention.Run(
      {.q = q_.row(0),
       .q_stride = q_.stride(),
       .out = heads_.row(0),
       .out_stride = heads_.stride(),
       .kv = batch.kv[place.group],
       .layer = place.index,
       .num_heads = config_.num_heads,
       .scale = attention_scale_,
       .q_pinned = batch.spans[place.group].pinned.empty() ? nullptr : q_pinned_.row(0)},
      worker);
}

void DecoderParts::ProjectHeads(const PackedMatrix& wo, Worker& worker) {
  const uint32_t heads_width = config_.num_heads * config_.head_dim;
  const bool is_private = IsPrivate(num_rows_);
  const Worker::Range rows = is_private ? Worker::Range{0, num_rows_} : worker.Part(num_rows_);
  heads_input_.Pack(heads_.row(0), heads_.stride(), num_rows_, heads_width, static_cast<uint32_t>(rows.begin),
                    static_cast<uint32_t>(rows.end), 0, heads_width, CopyOf(num_rows_, worker));
  if (!is_private) worker.Barrier();
  Product(wo.view(), heads_input_, CopyOf(num_rows_, worker), num_rows_, IntoResidual(),
          worker.Part(wo.view().num_panels(), 2), worker);
}

void DecoderParts::AddNormed(const std::vector<float>& norm, Worker& worker) {
  KVERN_DCHECK(has_own_residual());
  float* const normed = normed_.row(worker.index());
  const Worker::Range rows = ResidualRows(worker);
  for (uint64_t row = rows.begin; row < rows.end; ++row) {
    kernels_.rms_norm(y_.row(row), norm.data(), config_.width, config_.norm_eps, normed);
    float* const x = X(row, worker);
    for (uint32_t i = 0; i < config_.width; ++i) x[i] += normed[i];
  }
}

void DecoderParts::ProjectGateAndUp(const PackedMatrix& wg, const PackedMatrix& wu, GateKernel gate_kernel,
                                    Worker& worker) {
  // Whole groups of 32 columns, as int8 activations have one scale for each.
  const Worker::Range panels = worker.Part(wg.view().num_panels(), 2);
  Product(wg.view(), width_input_, CopyOf(num_rows_, worker), num_rows_, Into(gate_), panels, worker);
  Product(wu.view(), width_input_, CopyOf(num_rows_, worker), num_rows_, Into(up_), panels, worker);
  const auto begin = static_cast<uint32_t>(std::min<uint64_t>(panels.begin * kPanelOutputs, config_.ffn_width));
  const auto end = static_cast<uint32_t>(std::min<uint64_t>(panels.end * kPanelOutputs, config_.ffn_width));
  if (begin >= end) return;
  for (uint32_t row = 0; row < num_rows_; ++row) {
    float* const gate = gate_.row(row) + begin;
    gate_kernel(gate, up_.row(row) + begin, end - begin, gate);
  }
  ffn_input_.Pack(gate_.row(0), gate_.stride(), num_rows_, config_.ffn_width, 0, num_rows_, begin, end, /*copy=*/0);
}

void DecoderParts::ProjectFfn(const PackedMatrix& wd, Worker& worker) {
  Product(wd.view(), ffn_input_, /*copy=*/0, num_rows_, IntoResidual(), worker.Part(wd.view().num_panels(), 2), worker);
}

void DecoderParts::Head(const ForwardBatch& batch, const std::vector<float>& norm, std::span<float> logits,
                        Worker& worker) {
  const auto num_rows = static_cast<uint32_t>(batch.logit_rows.size());
  const uint32_t num_terms = head_terms_ * num_rows;
  PackNormed(norm, num_rows, batch.logit_rows, head_terms_, head_input_, worker);
  // Some panels at a time, so that the terms of their logits are added while they are in cache.
  const Worker::Range part = worker.Part(head_.view().num_panels(), 2);
  const uint64_t first_term = uint64_t{worker.index()} * num_terms;
  const Out out = {head_out_.row(first_term), head_out_.stride(), /*accumulate=*/false};
  for (uint64_t panel = part.begin; panel < part.end; panel += kHeadPanels) {
    const uint64_t panel_end = std::min<uint64_t>(panel + kHeadPanels, part.end);
    const PackedMatrixView weights =
        head_.view().Panels(static_cast<uint32_t>(panel), static_cast<uint32_t>(panel_end));
    Product(weights, head_input_, CopyOf(num_terms, worker), num_terms, out, {0, weights.num_panels()}, worker);
    const uint64_t begin = panel * kPanelOutputs;
    const uint64_t count = weights.num_outputs;
    for (uint32_t row = 0; row < num_rows; ++row) {
      const float* const term = head_out_.row(first_term + row);
      float* const row_logits = &logits[row * uint64_t{config_.vocab_size} + begin];
      if (head_terms_ == 1) {
        std::copy_n(term, count, row_logits);
      } else {
        const float* const residual = head_out_.row(first_term + num_rows + row);
        for (uint64_t i = 0; i < count; ++i) row_logits[i] = term[i] + residual[i];
      }
    }
  }
}

void DecoderParts::Product(const PackedMatrixView& weights, const PackedInput& input, uint32_t copy, uint32_t num_rows,
                           Out out, Worker::Range panels, const Worker& worker) {
  if (panels.begin >= panels.end) return;
  const ActivationForm form = input.FormFor(weights);
  kernels_.matmul({.weights = weights,
                   .form = form,
                   .activations = input.data(form, copy),
                   .num_rows = num_rows,
                   .out = out.data,
                   .out_stride = out.stride,
                   .accumulate = out.accumulate,
                   .panel_begin = static_cast<uint32_t>(panels.begin),
                   .panel_end = static_cast<uint32_t>(panels.end),
                   .scratch = scratch_.data() + worker.index() * scratch_stride_});
}

}  // namespace kvern
