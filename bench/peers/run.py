#!/usr/bin/env python3
"""kvern beside llama.cpp on the same file, at the same time.

  bench/peers/setup.sh && bench/peers/run.py
  bench/peers/run.py --model models/M.gguf --rounds 9 --json build/peers.json

Each round measures every case once with kvern and once with the peer, one right after the other, so that both see the
same mood of the machine. The table has medians with their spread and the ratio of the medians; the JSON file has every
sample. Both run with the same threads, f16 K and V and prompts of the same ids; flash attention is on in the peer.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER_PYTHON = pathlib.Path(os.environ.get("KVERN_PEERS_VENV", ROOT / ".venv-peers")) / "bin" / "python"


class LlamaCpp:
    """The peer's process: loaded once, idle while kvern is measured."""

    def __init__(self, arguments, context):
        script = pathlib.Path(__file__).with_name("llama_cpp_peer.py")
        command = [str(PEER_PYTHON), str(script), "--model", arguments.model, "--threads", str(arguments.threads),
                   "--context", str(context)]
        # Waiting threads of the peer must not spin while kvern is measured.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive") if arguments.passive else None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.name = self._read()["engine"]

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the peer ended with code {self.process.wait()}")
        return json.loads(line)

    def measure(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self._read()["tok_per_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Kvern:
    def __init__(self, arguments):
        self.base = [arguments.kvern, "bench", "--json", "-r", "1", "-m", arguments.model,
                     "--threads", str(arguments.threads), "--activations", "int8", "--kv-type", "f16"]
        self.limits = []
        self.facts = {}

    def measure(self, case):
        lengths = {"prefill": "none", "decode": "none", case["test"]: str(case["length"])}
        command = self.base + ["--prefill", lengths["prefill"], "--depth", lengths["decode"]]
        if case["test"] == "decode":
            command += ["--gen", str(case["generated"])]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if result.returncode != 0:
            sys.exit(f"kvern ended with code {result.returncode}: {' '.join(command)}")
        report = json.loads(result.stdout)
        self.facts = {key: report[key] for key in ("cpu", "isa", "threads", "weight_bytes")}
        row = report["results"][0]
        self.limits.append(row["limits"])
        return row["tok_per_s"]["median"]


def name_of(case):
    return f"prefill {case['length']}" if case["test"] == "prefill" else f"decode at {case['length']}"


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


def show(row):
    def cell(values):
        return f"{values['median']:8.1f} ({values['min']:.1f} - {values['max']:.1f})"
    return f"{row['case']:<16}{cell(row['kvern']):>30}{cell(row['peer']):>30}{row['ratio']:>9.2f}x"


def only_model():
    models = sorted((ROOT / "models").glob("*.gguf"))
    return str(models[0]) if len(models) == 1 else None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("KVERN_MODEL") or only_model())
    parser.add_argument("--kvern", default=str(ROOT / "build" / "release" / "kvern"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, nargs="*", default=[512, 2048])
    parser.add_argument("--depth", type=int, nargs="*", default=[0])
    parser.add_argument("--gen", type=int, default=64, help="tokens decoded at each depth")
    parser.add_argument("--passive", action=argparse.BooleanOptionalAction, default=False,
                        help="let the peer's idle threads sleep at once instead of spinning a while")
    parser.add_argument("--json", metavar="FILE", help="write all samples here")
    arguments = parser.parse_args()
    if not arguments.model:
        parser.error("no model: give --model FILE or set KVERN_MODEL")
    if not pathlib.Path(arguments.kvern).exists():
        parser.error(f"{arguments.kvern} is not there: build kvern or give --kvern FILE")
    if not PEER_PYTHON.exists():
        parser.error(f"{PEER_PYTHON} is not there: bench/peers/setup.sh makes it")
    return arguments


def main():
    arguments = parse_arguments()
    cases = [{"test": "prefill", "length": n} for n in arguments.prefill]
    cases += [{"test": "decode", "length": n, "generated": arguments.gen} for n in arguments.depth]
    context = max([*arguments.prefill, *(max(n, 1) + arguments.gen for n in arguments.depth)])
    kvern, peer = Kvern(arguments), LlamaCpp(arguments, context)

    samples = {name_of(case): {"kvern": [], "peer": []} for case in cases}
    for case in cases:  # Warms caches and page tables; not counted.
        peer.measure(case)
    for number in range(arguments.rounds):
        for case in cases:
            samples[name_of(case)]["kvern"].append(kvern.measure(case))
            samples[name_of(case)]["peer"].append(peer.measure(case))
        print(f"round {number + 1} of {arguments.rounds} done", file=sys.stderr)
    peer.close()

    rows = []
    for name, both in samples.items():
        row = {"case": name, "kvern": spread(both["kvern"]), "peer": spread(both["peer"])}
        row["ratio"] = row["kvern"]["median"] / row["peer"]["median"]
        rows.append(row)
    limits = {key: spread([probe[key] for probe in kvern.limits]) for key in kvern.limits[0]} if kvern.limits else {}
    print(f"{kvern.facts.get('cpu', '')}, {arguments.threads} threads, {arguments.model}")
    print("probed: " + ", ".join(f"{key} {value['median']:.2f} ({value['min']:.2f} - {value['max']:.2f})"
                                 for key, value in limits.items()))
    print(f"\n{'tok/s':<16}{'kvern':>30}{peer.name:>30}{'ratio':>10}")
    for row in rows:
        print(show(row))
    if arguments.json:
        report = {"model": arguments.model, "threads": arguments.threads, "rounds": arguments.rounds,
                  "peer": peer.name, "kvern": kvern.facts, "limits": limits, "results": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
