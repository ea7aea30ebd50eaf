"""Makes the table and the picture of measure.py's measurements."""
import statistics

import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot

WHOLE_MODEL = 25600  # KiB: one buffer for everything
OPTIMIZERS = {"sgd_before": "SGD, momentum before the exchange", "sgd_after": "SGD, momentum after the exchange", "adam": "Adam after the exchange"}
COLOURS = {"dense": "#333333", "ahead": "#1f6fb2", "ahead, 1-D whole": "#74b3e0", "behind": "#d9541e"}
SPREADS = {"dense": "#333333", "ahead, no residual": "#3a8f4d", "behind": "#f0b090", "behind, spread 1": "#e8743b", "behind, spread 2": "#a8320f", "behind, no residual, spread 2": "#7a3fa0",
           "ahead, spread 2": "#1f6fb2"}
SHADES = ("#c6dbef", "#6baed6", "#2171b5", "#08306b")


def way(setting):
    """Returns the name of a setting in tables: the scheme and all values that are not the default."""
    words = [setting["scheme"]]
    if setting["whole"]:
        words.append("1-D" if setting["scheme"] == "frozen" else "1-D whole")
    if setting["scheme"] == "behind" and setting["buffer_kib"] < WHOLE_MODEL:
        words.append(f"{setting['buffer_kib']} KiB")
    if not setting["residual"]:
        words.append("no residual")
    if setting["spread"]:
        words.append(f"spread {setting['spread']:g}")
    return ", ".join(words)


def key(setting):
    """Returns the key of a training.Setting in the JSON."""
    fields = vars(setting)
    density = "" if setting.scheme in ("dense", "frozen") else f" {setting.density:g}"
    return f"{setting.optimizer}{density}: {way(fields)}; {setting.epochs:g} epochs; seed {setting.seed}"


class Group:
    """Trainings that differ only in their seed."""

    def __init__(self, runs):
        self.runs = runs
        self.setting = runs[0]["setting"]
        self.name = way(self.setting)
        accuracies = [run["accuracy"] for run in runs]
        self.accuracy, self.spread = statistics.mean(accuracies), (max(accuracies) - min(accuracies)) / 2
        self.missing = statistics.mean(run["missing"] for run in runs)
        self.last_missing = statistics.mean(run["missing_over_time"][-1] for run in runs)
        self.missing_over_time = [statistics.mean(values) for values in zip(*(run["missing_over_time"] for run in runs))]
        self.curve = [(points[0][0], statistics.mean(p[1] for p in points)) for points in zip(*(run["curve"] for run in runs))]


def groups(trainings):
    found = {}
    for name, run in trainings.items():
        found.setdefault(name.rpartition(";")[0], []).append(run)
    return [Group(runs) for runs in found.values()]


def dense_of(all_groups, group):
    """Returns the dense group to compare with. In dense training, momentum before and after the exchange are the same."""
    optimizer = "adam" if group.setting["optimizer"] == "adam" else "sgd_before"
    for other in all_groups:
        if other.name == "dense" and other.setting["optimizer"] == optimizer and other.setting["epochs"] == group.setting["epochs"]:
            return other
    return None


def named(all_groups, optimizer, density, epochs, names):
    """Yields the groups with these names that exist, in the order of the names."""
    for name in names:
        for group in all_groups:
            setting = group.setting
            if (group.name, setting["optimizer"], setting["epochs"]) == (name, optimizer, epochs) and (name == "dense" or setting["density"] == density):
                yield group


def lengths(all_groups):
    return sorted({group.setting["epochs"] for group in all_groups})


def table(all_groups):
    lines = ["| optimizer | epochs | density | scheme | accuracy | +- | points to dense | entries a rank selects | + whole | tensors missing | at the end | seeds |",
             "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]

    def place(group):
        setting = group.setting
        return (list(OPTIMIZERS).index(setting["optimizer"]), setting["epochs"], group.name != "dense", -setting["density"], setting["spread"], not setting["residual"],
                group.name)

    for group in sorted(all_groups, key=place):
        dense, run = dense_of(all_groups, group), group.runs[0]
        # Use only seeds that both have.
        seeds = {r["setting"]["seed"]: r["accuracy"] for r in dense.runs} if dense else {}
        differences = [100 * (r["accuracy"] - seeds[r["setting"]["seed"]]) for r in group.runs if r["setting"]["seed"] in seeds]
        lines.append(f"| {OPTIMIZERS[group.setting['optimizer']]} | {group.setting['epochs']:g} | {format(group.setting['density'], '.1%') if run['entries'] else ''} | "
                     f"{group.name} | {group.accuracy:.2%} | {100 * group.spread:.2f} | {format(statistics.mean(differences), '+.2f') if differences else ''} | "
                     f"{run['entries'] or ''} | {run['whole'] or ''} | {group.missing:.1%} | {group.last_missing:.1%} | {len(group.runs)} |")
    return lines


def of_size(column):
    """Returns the heading of a column of the recorded gradients."""
    scheme, _, kib = column.partition(" ")
    return "each tensor (ahead)" if scheme == "ahead" else "one buffer" if kib == str(WHOLE_MODEL) else f"{kib} KiB"


def table_of_recorded(recorded):
    columns = list(recorded["steps"][0]["missing 0.01"])
    lines = ["| step | largest to smallest root mean square | density | " + " | ".join(map(of_size, columns)) + " |", "| ---: | ---: | ---: |" + " ---: |" * len(columns)]
    for row in recorded["steps"]:
        ratio = max(row["root_mean_square"]) / min(row["root_mean_square"])
        for name, shares in row.items():
            if name.startswith("missing"):
                lines.append(f"| {row['step']} | {ratio:,.0f} | {float(name.split()[1]):.1%} | " + " | ".join(f"{shares[c]:.1%}" for c in columns) + " |")
    return lines


def write(results, file, picture):
    all_groups = groups(results["trainings"])
    run = all_groups[0].runs[0]
    sizes = results["recorded"]["sizes"]
    lines = ["# Tensors that go missing", "",
             f"A residual network of {len(sizes)} tensors and {sum(sizes):,} parameters on Fashion-MNIST at 14 x 14, 4 ranks of {run['setting']['batch']} images; "
             "`perfmodels/missing_tensors/measure.py`. What it shows: [`perfmodels/missing_tensors`](../missing_tensors/README.md). Accuracy is the mean over seeds at the "
             "end, +- half of the range. `behind` selects from one buffer for the whole model where no size is named. 1-D whole: norms and biases "
             "travel whole; frozen, 1-D: dense training in which they stay as they are. Spread s: what is exchanged of each tensor is scaled by a number from 10^-s to 10^s, and back after it. "
             "Missing: the share of tensors of which an update has no entry, in the mean over all steps and in the last thirtieth.", "",
             *table(all_groups), "", "## Recorded gradients", "",
             "Of dense training with seed 1, exchanged without a history: the share of tensors that get no entry from any of 4 ranks.", "",
             *table_of_recorded(results["recorded"]), "", f"![Tensors that go missing]({picture.name})"]
    file.write_text("\n".join(lines) + "\n")
    draw(results, all_groups, picture)


def draw_accuracy(axes, rows, title, colours):
    rows = list(rows)
    for group in rows:
        axes.plot(*zip(*group.curve), marker="o", markersize=3, color=colours[group.name], label=f"{group.name}: {group.accuracy:.1%}")
    if rows:
        last = [group.curve[-1][1] for group in rows]
        axes.set_ylim(max(min(last) - 0.08, 0), max(last) + 0.015)
        axes.legend(fontsize=8, loc="lower right" if min(last) > max(last) - 0.1 else (0.36, 0.33), frameon=False)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("epochs", fontsize=8)


def draw_missing(axes, all_groups, epochs):
    for optimizer, colour in (("sgd_before", "#d9541e"), ("adam", "#7a3fa0")):
        for density, style in ((0.01, "-"), (0.001, "--")):
            for group in named(all_groups, optimizer, density, epochs, ["behind"]):
                count = len(group.missing_over_time)
                axes.plot([epochs * (i + 0.5) / count for i in range(count)], group.missing_over_time, style, color=colour,
                          label=f"behind, {'Adam' if optimizer == 'adam' else 'SGD'}, {density:.1%}")
    axes.plot([0, epochs], [0, 0], color=COLOURS["ahead"], linewidth=2, label="ahead, all of these")
    axes.set_title("Training: tensors without an entry", fontsize=10)
    axes.set_xlabel("epochs", fontsize=8)
    axes.set_ylim(-0.02, 1)
    axes.legend(fontsize=8, frameon=False)


def draw_recorded(axes, recorded):
    """Draws the share of missing tensors over sizes of buffers, the fusion degree of the slides."""
    columns = list(recorded["steps"][0]["missing 0.01"])
    for row, colour in zip(recorded["steps"], SHADES):
        for name, style in (("missing 0.01", "-"), ("missing 0.001", "--")):
            axes.plot(range(len(columns)), [row[name][c] for c in columns], style, marker="o", markersize=3, color=colour,
                      label=f"step {row['step']}, {float(name.split()[1]):.1%}")
    axes.set_xticks(range(len(columns)), [of_size(c).replace(" (", "\n(") for c in columns], fontsize=8)
    axes.set_ylim(-0.02, 1)
    axes.set_title("Recorded gradients: tensors without an entry, by size of buffers", fontsize=10)
    axes.legend(fontsize=7, frameon=False, ncol=2, loc="upper left")


def draw_magnitudes(axes, results, epochs):
    """Draws how often tensors go missing over the magnitude of their gradients."""
    recorded = results["recorded"]
    last = recorded["steps"][-1]
    for optimizer, colour in (("sgd_before", "#d9541e"), ("adam", "#7a3fa0")):
        runs = [run for name, run in results["trainings"].items() if name.startswith(f"{optimizer} 0.001: behind; {epochs:g} epochs")]
        if not runs:
            continue
        shares = [statistics.mean(values) for values in zip(*(run["missing_of_tensor"] for run in runs))]
        for marker, short, what in (("o", True, "norms and biases"), ("^", False, "filters and weights")):
            points = [(x, y) for x, y, dimensions in zip(last["root_mean_square"], shares, recorded["dimensions"]) if (dimensions == 1) == short]
            axes.scatter(*zip(*points), s=14, marker=marker, color=colour, label=f"{'Adam' if optimizer == 'adam' else 'SGD'}, {what}")
    axes.set_xscale("log")
    axes.set_xlabel(f"root mean square of the tensor's gradient, dense, step {last['step']}", fontsize=8)
    axes.set_title("Each tensor: steps without an entry, behind, density 0.1 %", fontsize=10)
    axes.set_ylim(-0.02, 1)
    axes.legend(fontsize=8, frameon=False)


def draw(results, all_groups, picture):
    matplotlib.rcParams["svg.hashsalt"] = "weir"
    short, *longer = lengths(all_groups)
    figure, axes = pyplot.subplots(3, 3, figsize=(15, 12.5))
    draw_accuracy(axes[0][0], named(all_groups, "sgd_before", 0.01, short, COLOURS), "Accuracy, SGD, density 1 %", COLOURS)
    draw_accuracy(axes[0][1], named(all_groups, "sgd_before", 0.001, short, COLOURS), "Accuracy, SGD, density 0.1 %", COLOURS)
    draw_accuracy(axes[0][2], named(all_groups, "sgd_before", 0.01, (longer or [short])[-1], COLOURS), "Accuracy, SGD, density 1 %, longer", COLOURS)
    draw_accuracy(axes[1][0], named(all_groups, "adam", 0.01, short, COLOURS), "Accuracy, Adam, density 1 %", COLOURS)
    draw_accuracy(axes[1][1], named(all_groups, "adam", 0.001, short, COLOURS), "Accuracy, Adam, density 0.1 %", COLOURS)
    draw_accuracy(axes[1][2], named(all_groups, "adam", 0.01, short, SPREADS), "Accuracy, Adam, density 1 %, magnitudes spread by hand", SPREADS)
    draw_missing(axes[2][0], all_groups, short)
    draw_recorded(axes[2][1], results["recorded"])
    draw_magnitudes(axes[2][2], results, short)
    for place in axes.flat:
        place.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, 0))
        place.tick_params(labelsize=8)
        place.grid(alpha=0.25)
        place.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})
    pyplot.close(figure)
