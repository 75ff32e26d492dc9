#!/usr/bin/env python3
"""llama.cpp as a peer: loads a model once, then measures what it is asked, one line at a time.

stdin:  {"test": "prefill", "length": 512}
        {"test": "decode", "length": 0, "generated": 64}
stdout: {"tok_per_s": 225.1}      one line per line read; the first line says what was loaded.

Run by run.py with the Python of .venv-peers. It calls the C functions directly, so that next to nothing of what is
measured is Python; a decode step is llama_decode plus the choice of the most likely token.
"""
import argparse
import ctypes
import json
import sys
import time

import llama_cpp
import numpy

CHUNK = 512  # Prompt tokens per call, as kvern's default.


def bench_tokens(count, vocab_size, series):
    """The ids that kvern bench uses for the same series (cli/measurement.cc)."""
    mask = (1 << 64) - 1
    state = 0x9E3779B97F4A7C15 * (series + 1) & mask
    tokens = []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & mask
        tokens.append((state >> 33) % vocab_size)
    return tokens


class Peer:
    def __init__(self, arguments):
        llama_cpp.llama_log_set(SILENT, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            arguments.model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {arguments.model}")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = arguments.context
        params.n_batch = params.n_ubatch = CHUNK
        params.n_threads = params.n_threads_batch = arguments.threads
        params.flash_attn_type = 1 if arguments.flash_attn == "on" else 0  # K and V stay f16, the default.
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp cannot make a context of {arguments.context} tokens")
        self.series = 0
        self.kept = None  # Prompt length and first token of the last decode: its next sample needs no prefill.

    def feed(self, tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code != 0:
            raise SystemExit(f"llama_decode gave {code} for {len(tokens)} tokens")

    def prefill(self, length):
        self.kept = None
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        tokens = bench_tokens(length, self.vocab_size, self.series)
        self.series += 1
        begin = time.perf_counter()
        for at in range(0, length, CHUNK):
            self.feed(tokens[at:at + CHUNK])
        llama_cpp.llama_synchronize(self.context)
        return length / (time.perf_counter() - begin)

    def most_likely(self):
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        array = numpy.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (self.vocab_size,))
        return int(array.argmax())

    def decode(self, length, generated):
        length = max(length, 1)
        if self.kept is None or self.kept[0] != length:
            self.prefill(length)
            self.kept = (length, self.most_likely())
        else:
            llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self.context), 0, length, -1)
        token = self.kept[1]
        begin = time.perf_counter()
        for _ in range(generated - 1):
            self.feed([token])
            token = self.most_likely()
        return (generated - 1) / (time.perf_counter() - begin)


SILENT = llama_cpp.llama_log_callback(lambda level, text, data: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--flash-attn", choices=["on", "off"], default="on")
    peer = Peer(parser.parse_args())
    print(json.dumps({"engine": f"llama-cpp-python {llama_cpp.__version__}"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if job["test"] == "prefill":
            rate = peer.prefill(job["length"])
        else:
            rate = peer.decode(job["length"], job["generated"])
        print(json.dumps({"tok_per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
