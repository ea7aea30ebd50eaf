"""Makes the table of train.py's measurements, and the picture, which docs/draw_compressors.py draws."""
import json
import pathlib
import subprocess
import sys

from settings import EXAMPLES, SETTINGS, TRAININGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS = {"fashion_mnist": "Example 01, Fashion-MNIST: test accuracy", "language_model": "Example 02, language model: perplexity on held-out words"}


def dump(results):
    """Returns JSON with a line for each list, so that curves stay short."""
    lines = []
    for example, runs in results.items():
        rows = [f"  {json.dumps(name)}: {json.dumps(run)}" for name, run in runs.items()]
        lines.append(f" {json.dumps(example)}: {{\n" + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def decimal(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}" if count < 99.5 or unit == "B" else f"{count:.0f} {unit}"
        count /= 1e3


def quality(example, value):
    return f"{100 * value:.2f} %" if example == "fashion_mnist" else f"{value:.1f}"


def against(example, value, dense):
    return f"{100 * (value - dense):+.2f}" if example == "fashion_mnist" else f"{100 * (value / dense - 1):+.1f} %"


def within(example, value, dense):
    """Returns whether the quality is within one point of accuracy, or one per cent of perplexity."""
    return value >= dense - 0.01 if example == "fashion_mnist" else value <= dense * 1.01


def write(results, file, picture):
    lines = ["# Trained to the end with every compressor", "",
             "4 ranks, each a node of [`tests/cluster`](../../tests/cluster/README.md); `perfmodels/compressors/train.py`. Bytes are those a rank sends in a step for "
             "the gradients that are compressed; compression is compensation, selection or encoding, and decoding. A dagger marks a compressor with a memory.", ""]
    for example in EXAMPLES:
        runs = results.get(example, {})
        if "none" not in runs:
            lines += [f"## {HEADS[example]}", "", "Not trained yet.", ""]
            continue
        dense = runs["none"]
        unit = "points to dense" if example == "fashion_mnist" else "to dense"
        lines += [f"## {HEADS[example]}", "", f"{dense['steps']} steps.", "",
                  f"| compressor | algorithm | {'accuracy' if example == 'fashion_mnist' else 'perplexity'} | {unit} | bytes a step | of dense | ms a step | compression ms | options |",
                  "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
        for training in TRAININGS:
            run = runs.get(training.name)
            if run is None:
                continue
            options = " ".join(training.options(example))
            lines.append(f"| `{training.compressor}`{' †' if training.memory else ''} | `{training.travels_by}` | {quality(example, run['quality'])} | "
                         f"{against(example, run['quality'], dense['quality'])} | {decimal(run['bytes_per_step'])} | "
                         f"{100 * run['bytes_per_step'] / dense['bytes_per_step']:.1f} % | {run['ms_per_step']:.1f} | {run['ms_compression_per_step']:.2f} | "
                         f"{'`' + options + '`' if options else ''} |")
        to_come = [f"`{t.name}`" for t in TRAININGS if t.name not in runs]
        if to_come:
            lines += ["", f"Not trained yet: {', '.join(to_come)}."]
        trained = [(t, runs[t.name]["quality"]) for t in TRAININGS if t.memory and t.name in runs]
        missed = [(t, q) for t, q in trained if not within(example, q, dense["quality"])]
        bound = "1 point of dense accuracy" if example == "fashion_mnist" else "1 % of dense perplexity"
        lines += ["", f"Of {len(trained)} trainings with a memory, {len(trained) - len(missed)} end within {bound}, or better."]
        if missed:
            lines += ["", "Not within it:", ""]
            reasons = {}
            for t, q in missed:
                reasons.setdefault(t.misses(example), []).append(f"`{t.compressor}` by `{t.travels_by}`, {against(example, q, dense['quality'])}")
            lines += [f"- {'; '.join(list_of)}{': ' + reason if reason else ''}" for reason, list_of in reasons.items()]
        if example != "fashion_mnist":
            lines += ["", f"Tables travel as in scheme `embrace`, {decimal(dense['other_bytes_per_step'])} a step, whatever the compressor."]
        lines.append("")
    options = [f"- `{name}`: {setting.why}" for name, setting in SETTINGS.items() if setting.why]
    lines += ["## Options other than the examples' own", "", *options]
    file.write_text("\n".join(lines) + "\n")
    subprocess.run([sys.executable, str(ROOT / "docs/draw_compressors.py"), "--results", str(file.with_suffix(".json")), "--output", str(picture)],
                   check=True)
