#!/usr/bin/env python3
"""Writes the measured section of docs/results.md, and its plots, from the files of one `make bench`.

  bench/e2e/report.py build/release/results

Reads every .json and .jsonl file in the folder: reports of `kvern bench --json`, reports of bench/peers/run.py, and
rows of the kernel benches (--json). What is missing is left out of the section.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import sys

import plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from row_names import name_of  # noqa: E402

BEGIN = "<!-- Written by `make bench` (bench/e2e/report.py); changes between here and the end mark are lost. -->"
END = "<!-- End of what `make bench` writes. -->"


class Reports:
    """What lies in a folder, by kind; `engine` and `peers` by the name of the model."""

    def __init__(self, folder):
        self.engine, self.peers, self.kernels = {}, {}, []
        for file in sorted(folder.iterdir()):
            if file.suffix == ".jsonl":
                lines = file.read_text(encoding="utf-8").splitlines()
                self.kernels += [{"bench": file.stem, **json.loads(line)} for line in lines]
            elif file.suffix == ".json":
                report = json.loads(file.read_text(encoding="utf-8"))
                kind = self.peers if "peer" in report else self.engine
                kind.setdefault(pathlib.Path(report["model"]).stem, []).append(report)

    def machine(self):
        for reports in self.engine.values():
            return {key: reports[0][key] for key in ("cpu", "isa", "threads")}
        for reports in self.peers.values():
            return reports[0]["kvern"]
        return {}


def table(header, rows):
    if not rows:
        return []
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def rate(values):
    def number(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{number(values['median'])} ({number(values['min'])} - {number(values['max'])})"


def share_of_limit(row):
    limit = row["limits"][row["share_of"]]
    if not limit:
        return "-"
    unit = {"int8_tops": "TOPS int8", "read_gb_per_s": "GB/s read"}[row["share_of"]]
    return f"{100 * row['share']:.1f} % of {limit:.3g} {unit}"


def engine_section(engine):
    lines = []
    for model, reports in engine.items():
        rows = [[name_of(row), rate(row["tok_per_s"]), share_of_limit(row)]
                for report in reports for row in report["results"]]
        lines += table([f"`kvern bench`, {model}", "tok/s", "share of the limit"], rows)
    return lines


def peers_section(peers):
    lines = []
    for model, reports in peers.items():
        for one in reports:
            rows = [[row["case"], rate(row["kvern"]), rate(row["peer"]), f"**{row['ratio']:.2f}**"]
                    for row in one["results"]]
            peer = f"{one['peer']}, flash attention {one['flash_attention']}"
            lines += table([f"`bench/peers/run.py`, {model}, tok/s", "kvern", peer, "ratio"], rows)
    return lines


def quiet_share(row):
    """Of the samples that no neighbour disturbed, where there are any."""
    return f"{100 * (row['quiet_share'] if row['quiet_samples'] else row['share']):.0f} %"


def values_of(label):
    return dict(re.findall(r"(\w+)=(\w+)", label))


def products_section(kernels):
    """One line per type, form of the activations and number of inputs; one column per number of rows."""
    cells, columns = {}, set()
    for row in kernels:
        if row["bench"] != "matmul":
            continue
        values, words = values_of(row["label"]), row["label"].split()
        line = (words[1], words[2], int(values["K"]))
        column = (int(values["M"]), words[-1] == "RAM")
        columns.add(column)
        cells.setdefault(line, {})[column] = quiet_share(row)
    columns = sorted(columns, key=lambda column: (not column[1], column[0]))
    header = ["share of the limit, products with M rows"]
    header += [f"M = {rows}, RAM" if is_ram else f"M = {rows}" for rows, is_ram in columns]
    return table(header, [[f"{dtype} x {form}, K = {inputs}", *(row.get(column, "") for column in columns)]
                          for (dtype, form, inputs), row in cells.items()])


def attention_section(kernels):
    rows = [[" ".join(word for word in row["label"].split()[1:] if not word.startswith("threads=")),
             f"{row['rate']:.3g} {row['unit']}", quiet_share(row)] for row in kernels if row["bench"] == "attention"]
    return table(["attention", "speed", "share of the limit"], rows)


def plot_panels(engine_reports, peer_reports):
    """Prefill and decode against length: both engines where the peer was measured, else kvern alone."""
    rows = []
    for one in peer_reports:
        peer = "llama.cpp" if one["flash_attention"] == "on" else "llama.cpp, flash attention off"
        rows += [(row, {"kvern": row["kvern"], peer: row["peer"]}) for row in one["results"]]
    rows = rows or [(row, {"kvern": row["tok_per_s"]}) for one in engine_reports for row in one["results"]]
    panels = []
    for test, title, x_title in (("prefill", "prefill, tok/s", "tokens of the prompt"),
                                 ("decode", "decode, tok/s", "tokens before")):
        points = {}
        for row, engines in rows:
            if row["test"] == test:
                points[row["length"]] = {**engines, **points.get(row["length"], {})}
        if len(points) > 1:  # One point is no line.
            panels.append((title, x_title, [(str(length), points[length]) for length in sorted(points)]))
    return panels


def write_plots(reports, folder):
    """Names of the files, by model."""
    names = {}
    for model in {**reports.engine, **reports.peers}:
        panels = plot_panels(reports.engine.get(model, []), reports.peers.get(model, []))
        if panels:
            names[model] = f"speed-{model}.svg"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / names[model]).write_text(plot.svg(panels), encoding="utf-8")
    return names


def section(reports, date, plots):
    machine = reports.machine()
    lines = [BEGIN, "## Measured by `make bench`", "",
             f"{date}, {machine.get('cpu', 'unknown CPU')}, {os.cpu_count()} CPUs, {machine.get('threads', '?')} "
             f"threads, target `{machine.get('isa', '?')}`. Medians (lowest - highest) of few samples.", ""]
    lines += engine_section(reports.engine)
    lines += peers_section(reports.peers)
    lines += [f"![{model}: prefill and decode against depth](plots/{name})\n" for model, name in plots.items()]
    lines += products_section(reports.kernels)
    lines += attention_section(reports.kernels)
    return "\n".join([*lines, END]) + "\n"


def replace_section(document, new):
    """`document` with `new` in the place of the old section, or at the end."""
    begin, end = document.find(BEGIN), document.find(END)
    if begin < 0 and end < 0:
        return document.rstrip("\n") + "\n\n" + new
    if begin < 0 or end < begin:
        raise ValueError("one of the two marks of the measured section is missing, or they are in the wrong order")
    return document[:begin] + new.rstrip("\n") + document[end + len(END):]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the reports lie")
    parser.add_argument("--document", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is no folder: make bench makes build/release/results")
    reports = Reports(arguments.folder)
    if not (reports.engine or reports.peers or reports.kernels):
        sys.exit(f"report: {arguments.folder} holds no report")
    document = arguments.document.read_text(encoding="utf-8")
    plots = write_plots(reports, arguments.document.parent / "plots")
    new = section(reports, arguments.date, plots)
    try:
        arguments.document.write_text(replace_section(document, new), encoding="utf-8")
    except ValueError as error:
        sys.exit(f"report: {arguments.document}: {error}")
    print(new)


if __name__ == "__main__":
    main()
