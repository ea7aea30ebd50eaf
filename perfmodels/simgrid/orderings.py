#!/usr/bin/env python3
"""Compares what the papers say about their scaling figures with what weak_scaling.py simulated. Writes orderings.md.

    orderings.py [--results FOLDER]
"""
import argparse
import glob
import json
import os

SPARSE = ["topk_allgather", "topk_dsa", "gtopk", "gaussiank", "oktopk"]
DENSE = ["dense_ring", "dense_rabenseifner", "dense_mpi"]
# Ok-Topk: figure, and by how much its whole training iterations beat the others' on the most ranks (sections 5.4.1 to 5.4.3).
FIGURES = {"vgg16": (8, "1.51 to 8.83"), "lstm": (10, "1.34 to 7.71"), "bert": (12, "3.29 to 12.95")}
# CommLib, figure 7, slowest first; MSTopK selects.
FIGURE_7 = [("NaiveAG", "topk_allgather"), ("TreeAR", "dense_mpi"), ("2DTAR", "dense_torus2d"), ("HiTopKComm", "hitopk+mstopk")]


def load(folder, experiment):
    """Returns rows[ranks][algorithm], or for commlib rows[elements][algorithm]."""
    key = "count" if experiment == "commlib" else "ranks"
    found = {}
    for path in glob.glob(os.path.join(folder, f"{experiment}-*.json")):
        with open(path) as file:
            case = json.load(file)
        found[case[key]] = {row["algorithm"]: row for row in case["rows"] if "seconds" in row}
    return dict(sorted(found.items()))


def communication(row):
    return row["seconds_exchange"] + row["seconds_apply"]


def in_order(names):
    return " < ".join(f"{name} {seconds * 1e3:.3g}" for name, seconds in sorted(names.items(), key=lambda item: item[1])) + " ms"


def factor_range(rows, others):
    factors = {name: rows[name]["seconds"] / rows["oktopk"]["seconds"] for name in others}
    least, most = min(factors, key=factors.get), max(factors, key=factors.get)
    return f"{factors[least]:.2f} ({least}) to {factors[most]:.2f} ({most})", factors[least] > 1


def claims_of_figure(experiment, cases):
    """Returns (source, what it says, what was simulated, whether that agrees). Ignores `cases` in which only some algorithms
    ran."""
    cases = {ranks: rows for ranks, rows in cases.items() if rows.keys() >= {*SPARSE, *DENSE}}
    figure, factors = FIGURES[experiment]
    source = f"Ok-Topk, figure {figure}"
    few, many = min(cases), max(cases)
    least, most = cases[few], cases[many]
    words, wins = factor_range(most, [name for name in SPARSE + DENSE if name != "oktopk"])
    yield source, f"{many} ranks: Ok-Topk is {factors} times as fast as the others (whole iterations)", words, wins
    of_sparse = {name: communication(most[name]) for name in SPARSE}
    yield source, f"{many} ranks: it communicates least", in_order(of_sparse), min(of_sparse, key=of_sparse.get) == "oktopk"
    growth = {name: communication(most[name]) / communication(least[name]) for name in SPARSE}
    yield (source, f"{few} to {many} ranks: allgathers (TopkA, Gaussiank) grow most, Ok-Topk hardly",
           ", ".join(f"{name} x {value:.2f}" for name, value in sorted(growth.items(), key=lambda item: item[1])),
           growth["oktopk"] < 1.3 and min(growth["topk_allgather"], growth["gaussiank"]) > max(growth["topk_dsa"], growth["gtopk"]))
    if experiment == "vgg16":
        yield from claims_of_vgg16(source, most)
    if experiment == "bert" and many == 256:
        yield from claims_of_bert(source, most)


def claims_of_vgg16(source, rows):
    dense = {name: communication(rows[name]) for name in ["topk_allgather", "topk_dsa", "dense_ring"]}
    says = "TopkA and TopkDSA communicate less than dense algorithms"
    yield source, says, in_order(dense), max(dense, key=dense.get) == "dense_ring"
    gtopk = {name: communication(rows[name]) for name in ["topk_allgather", "topk_dsa", "gtopk"]}
    says = "gTopk's communication, selections in the tree included, is the longest"
    yield source, says, in_order(gtopk), max(gtopk, key=gtopk.get) == "gtopk"
    select = {name: rows[name]["seconds_select"] for name in ["topk_allgather", "gaussiank", "oktopk+reuse"]}
    says = "Gaussiank sparsifies fastest, then Ok-Topk, then exact selection"
    yield source, says, in_order(select), sorted(select, key=select.get) == ["gaussiank", "oktopk+reuse", "topk_allgather"]


def claims_of_bert(source, rows):
    dense = {name: communication(rows[name]) for name in ["topk_allgather", "gaussiank", "dense_ring"]}
    says = "256 ranks: TopkA and Gaussiank communicate longer than dense algorithms"
    yield source, says, in_order(dense), min(dense, key=dense.get) == "dense_ring"
    dsa = {name: communication(rows[name]) for name in ["topk_allgather", "topk_dsa"]}
    yield source, "256 ranks: TopkDSA scales better than TopkA", in_order(dsa), min(dsa, key=dsa.get) == "topk_dsa"


def claims_of_commlib(cases):
    for count, rows in cases.items():
        seconds = {paper: rows[ours]["seconds"] for paper, ours in FIGURE_7}
        agrees = [name for name, _ in FIGURE_7] == sorted(seconds, key=seconds.get, reverse=True)
        yield "CommLib, figure 7", f"{count} elements: NaiveAG > TreeAR > 2DTAR > HiTopKComm", in_order(seconds), agrees


def table(claims):
    lines = ["# The papers' orderings, simulated", "", "Communication: exchange and apply. The papers time whole training iterations of "
             "their own implementations, the simulation one allreduce by Weir's.", "",
             "| source | it says | simulated | ordering agrees |", "| --- | --- | --- | --- |"]
    lines += [f"| {source} | {says} | {simulated} | {'yes' if agrees else 'no'} |" for source, says, simulated, agrees in claims]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "results", "simgrid"))
    options = parser.parse_args()
    claims = []
    for experiment in FIGURES:
        cases = load(options.results, experiment)
        if cases:
            claims += claims_of_figure(experiment, cases)
    claims += claims_of_commlib(load(options.results, "commlib"))
    text = table(claims)
    print(text)
    with open(os.path.join(options.results, "orderings.md"), "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
