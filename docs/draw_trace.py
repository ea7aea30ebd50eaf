#!/usr/bin/env python3
"""Draws one run of a merged trace as SVG: ranks as rows, stages as bars, what they consist of within them.

    weir trace merge FOLDER --output merged.json
    docs/draw_trace.py merged.json > run.svg                     # the shortest run of the plan that ran most
    docs/draw_trace.py merged.json --plan NAME --run 7 --title "..." > run.svg
"""
import argparse
import collections
import html
import json

STAGES = {  # colour, and colour of a label on it
    "agree": ("#c9ced6", "#333"),
    "in_node_reduce": ("#8fa3bf", "#fff"),
    "select": ("#e8b23f", "#333"),
    "average_boundaries": ("#b9a5d8", "#333"),
    "announce": ("#d5dbe3", "#333"),
    "split_reduce": ("#3f7fbf", "#fff"),
    "global_threshold": ("#7a5ea8", "#fff"),
    "global_sizes": ("#a9c7e4", "#333"),
    "balance": ("#5aa5a0", "#fff"),
    "allgatherv": ("#3c9a6b", "#fff"),
    "in_node_allgather": ("#a5c68a", "#333"),
    "apply": ("#d9694f", "#fff"),
}
OTHERS = ("#e3e3e3", "#333")
FRAMES = {"communicate", "exchange"}  # stages that consist of others
LEFT, RIGHT, TOP, BAR, GAP, NODE_GAP, WIDTH = 118, 24, 74, 28, 7, 12, 1000
FONT = "font-family='Helvetica, Arial, sans-serif'"


class Trace:
    def __init__(self, events):
        self.hosts, self.rows = {}, {}
        self.runs, self.stages = collections.defaultdict(list), collections.defaultdict(list)
        for e in events:
            row = e["pid"] - 1, e.get("tid")
            if e["name"] == "weir_trace":
                self.hosts[e["pid"] - 1] = e["args"]["host"]
            elif e["name"] == "thread_name":
                self.rows[row] = e["args"]["name"]
            elif e.get("cat") == "run":
                self.runs[row].append((e["args"]["run"], e["ts"], e["ts"] + e["dur"]))
            elif e.get("cat") == "stage":
                self.stages[row].append((e["ts"], e["ts"] + e["dur"], e["name"]))

    def rank_rows(self, plan):
        """The row of that plan on each rank; of several plans of the name, the last."""
        return {rank: row for (rank, row), name in sorted(self.rows.items()) if name == plan}


def pick_run(trace, rows):
    """The run that took all ranks together the shortest time."""
    spans = collections.defaultdict(list)
    for rank, row in rows.items():
        for number, begin, end in trace.runs[rank, row]:
            spans[number].append((begin, end))
    whole = {n: max(e for _, e in s) - min(b for b, _ in s) for n, s in spans.items() if len(s) == len(rows)}
    return min(whole, key=whole.get)


def tick_step(span):
    for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        if span / step <= 12:
            return step
    return 10000


def draw(trace, plan, number, title):
    rows = trace.rank_rows(plan)
    if number is None:
        number = pick_run(trace, rows)
    spans = {r: next((b, e) for n, b, e in trace.runs[r, row] if n == number) for r, row in rows.items()}
    begin, end = min(b for b, _ in spans.values()), max(e for _, e in spans.values())
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)

    def x(time):
        return LEFT + (time - begin) * scale

    out, y, seen, host, tops = [], TOP, [], None, {}
    for rank in sorted(rows):
        if host is not None and trace.hosts[rank] != host:
            y += NODE_GAP
        if trace.hosts[rank] != host:
            tops[trace.hosts[rank]] = y
        host = trace.hosts[rank]
        out.append(f"<text x='{LEFT - 12}' y='{y + 18}' text-anchor='end' font-size='12' fill='#333'>rank {rank}</text>")
        first, last = spans[rank]
        out.append(f"<rect x='{x(first):.1f}' y='{y}' width='{(last - first) * scale:.1f}' height='{BAR}' fill='#f1f1f1'/>")
        stages = [s for s in trace.stages[rank, rows[rank]] if s[0] >= first and s[1] <= last and s[2] not in FRAMES]
        for b, e, name in sorted(stages, key=lambda s: (s[0], -s[1])):
            width = (e - b) * scale
            if width < 0.3:
                continue
            if name not in seen:
                seen.append(name)
            inner = any(o[0] <= b and e <= o[1] and (o[0], o[1]) != (b, e) for o in stages)
            covered = sum(o[1] - o[0] for o in stages if b <= o[0] and o[1] <= e and (o[0], o[1]) != (b, e))
            colour, ink = STAGES.get(name, OTHERS)
            top, height = (y + 6, BAR - 12) if inner else (y, BAR)
            out.append(f"<rect x='{x(b):.1f}' y='{top}' width='{max(width - 0.6, 0.4):.1f}' height='{height}' fill='{colour}'>"
                       f"<title>rank {rank}, {name}: {(e - b) / 1e3:.2f} ms</title></rect>")
            if covered < 0.1 * (e - b) and width > 6.4 * len(name) + 8:
                out.append(f"<text x='{x(b) + width / 2:.1f}' y='{top + height / 2 + 4}' text-anchor='middle' font-size='11' "
                           f"fill='{ink}'>{name}</text>")
        y += BAR + GAP
    bottom = y

    for name, top in tops.items():
        members = [r for r in rows if trace.hosts[r] == name]
        height = len(members) * (BAR + GAP) - GAP
        out.append(f"<line x1='{LEFT - 66}' x2='{LEFT - 66}' y1='{top}' y2='{top + height}' stroke='#999' stroke-width='2'/>")
        out.append(f"<text x='{LEFT - 73}' y='{top + height / 2 + 4}' text-anchor='end' font-size='12' fill='#666'>{html.escape(name)}</text>")

    grid, step = [], tick_step((end - begin) / 1e3)
    for tick in range(0, int((end - begin) / 1e3) + 1, step):
        at = x(begin + tick * 1e3)
        grid.append(f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{TOP - 6}' y2='{bottom}' stroke='#ddd'/>")
        grid.append(f"<text x='{at:.1f}' y='{bottom + 15}' text-anchor='middle' font-size='11' fill='#666'>{tick}{' ms' if tick == 0 else ''}</text>")

    legend, at, line = [], LEFT, bottom + 34
    order = [s for s in STAGES if s in seen] + [s for s in seen if s not in STAGES]
    for name in order:
        width = 6.3 * len(name) + 34
        if at + width > WIDTH - RIGHT + 10:
            at, line = LEFT, line + 20
        legend.append(f"<rect x='{at:.1f}' y='{line - 9}' width='14' height='11' fill='{STAGES.get(name, OTHERS)[0]}'/>")
        legend.append(f"<text x='{at + 19:.1f}' y='{line}' font-size='11.5' fill='#333'>{name}</text>")
        at += width

    if title is None:
        title = f"'{plan}', run {number}"
    subtitle = f"run {number}: {(end - begin) / 1e3:.1f} ms from the first rank's start to the last one's end"
    head = [f"<text x='{LEFT}' y='26' font-size='16' font-weight='bold' fill='#222'>{html.escape(title)}</text>",
            f"<text x='{LEFT}' y='47' font-size='12.5' fill='#666'>{html.escape(subtitle)}</text>"]
    height = line + 16
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' viewBox='0 0 {WIDTH} {height}' {FONT}>",
                      f"<rect width='{WIDTH}' height='{height}' fill='#fff'/>", *head, *grid, *out, *legend, "</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--plan")
    parser.add_argument("--run", type=int)
    parser.add_argument("--title")
    options = parser.parse_args()
    trace = Trace(json.load(open(options.trace)))
    plan = options.plan
    if plan is None:
        counts = collections.Counter(trace.rows[row] for row, runs in trace.runs.items() for _ in runs)
        plan = next(name for name, _ in counts.most_common() if name not in ("caller", "setup"))
    print(draw(trace, plan, options.run, options.title))


main()
