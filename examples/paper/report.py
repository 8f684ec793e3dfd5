"""Write the tables of ``docs/paper.md`` from the numbers that the full runs left in ``docs/paper``.

The main observations to make are:

- no number on that page is typed: what stands between ``<!-- name -->`` and ``<!-- end -->`` is
  replaced by what this script finds in the JSON files;
- ``python examples/paper/report.py --check`` changes nothing and fails if the page has drifted.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "paper"
PAGE = ROOT / "docs" / "paper.md"
SCRIPTS = {
    "exhibit1": "exhibit1_two_gaussians.py",
    "exhibit2": "exhibit2_cycle.py",
    "exhibit3": "exhibit3_mixture2d.py",
    "exhibit4": "exhibit4_arcs.py",
    "exhibit5": "exhibit5_landmarks.py",
    "exhibit6": "exhibit6_consistency.py",
    "exhibit7": "exhibit7_efficiency.py",
}


def number(value: float) -> str:
    """Three digits, without an exponent where that can be avoided."""
    if value is None:
        return "none"
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-4:
        return f"{value:.2g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(value) >= 1000 else digits


def error(result: dict) -> str:
    """Mean, its standard error, and the spread of the repeats."""
    return f"{number(result['mean'])} ± {number(result['standard_error'])}"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ---------------------------------------------------------------- one function per exhibit


def exhibit1(n: dict) -> str:
    a, b, c = n["a"], n["b"], n["c"]
    rows = [
        ["(a) best cut for the sampler", "0", number(a["minimiser_sampler"])],
        ["(a) best cut for the clustering", "0", number(a["minimiser_clustering"])],
    ]
    for sigma in ("0.15", "0.25", "0.4"):
        bound, exact = (number(b[f"gain_{kind}_at_{sigma}"]) for kind in ("bound", "exact"))
        rows.append(
            [f"(b) gain over naive chains, σ = {sigma}", '"enormous"',
             f"{bound} by the bound, {exact} for h(x) = x"]
        )  # fmt: skip
    rows += [
        ["(c) bound within a factor 2 of the best up to R =", '"fairly wide range"',
         number(c["within_factor_2_up_to"])],
        ["(c) ahead of naive chains up to R =", '"quite far from optimal"',
         number(c["ahead_of_naive_up_to"])],
    ]  # fmt: skip
    return table(["quantity", "paper", "ours"], rows)


def exhibit2(n: dict) -> str:
    rows = []
    for m, slopes in n["slopes"].items():
        for kind, paper in (("naive", "-1"), ("partitioned", "-3")):
            rows.append(
                [f"slope in n, {kind}, m = {m}", paper,
                 f"{number(slopes[kind])} (exact {number(slopes[kind + '_exact'])})"]
            )  # fmt: skip
    lengths = sorted(map(int, n["slopes"]))
    if len(lengths) > 1:
        for kind in ("naive", "partitioned"):
            by_n = {(t["m"], t["n"]): t[kind] for t in n["table"]}
            growth = [
                by_n[lengths[1], k] / by_n[lengths[0], k] for (m, k) in by_n if m == lengths[0]
            ]
            rows.append(
                [
                    f"variance when m doubles, {kind}",
                    "× 4",
                    f"× {number(sum(growth) / len(growth))}",
                ]
            )
    u = n["unequal"]
    rows.append(
        [f"largest part that still beats naive chains, n = {u['n']}",
         f"order of 1/√n = {number(u['one_over_root_n'])}",
         f"{number(u['largest_share_ahead_of_naive'])} of the cycle"]
    )  # fmt: skip
    return table(["quantity", "paper", "ours"], rows)


def exhibit3(n: dict) -> str:
    names = [
        ("paper", "ours, paper's settings, last stage repeated", "ours"),
        ("paper_by_step", "the same, every draw by `SpectralPartitionStep`", "ours"),
        ("paper_own_weights", "the same, weights from each repeat's own draws", None),
        ("tempering", "parallel tempering", "tempering"),
        ("naive", "naive parallel chains", "naive"),
        ("fair_paper", "fair: paper's settings, everything repeated", None),
        ("defaults", "fair: today's defaults (1000 draws a cell), everything repeated", None),
        ("defaults_long", "fair: today's defaults, 4000 draws a cell as in the paper", None),
    ]
    rows = []
    for key, name, published in names:
        printed = "not run"
        if published:
            p = n["published"][published]
            printed = f"{number(p['mean'])} (sd {number(p['sd'])})"
        if key not in n["rows"]:
            rows.append([name, printed, "not run yet", "", "", ""])
            continue
        r = n["rows"][key]
        rows.append(
            [name, printed, error(r), number(r["sd"]), str(r["repeats"]), f"{r['evaluations']:,}"]
        )
    if "expected" in n:
        exact = "paper's settings, exact weights: expected, by linear algebra"
        rows.insert(3, [exact, "not computed", number(n["expected"]), "", "", ""])
    header = ["method", "paper: mean", "ours: mean ± se", "sd", "repeats", "density evaluations"]
    return table(header, rows)


def exhibit4(n: dict) -> str:
    rows = []
    shapes = [s for s in ("as run", "as printed") if s in n]
    for shape in shapes:
        for method, name in (("spectral", "spectral"), ("kmeans", "k-means")):
            r = n[shape][method]
            mean, sd = n["published"][method]
            starts = ("random", "centre", "explorers")
            cells = [
                f"{error(r[key])} (sd {number(r[key]['sd'])})" if key in r else "both in one cell"
                for key in starts
            ]
            more = [error(r[key]) for key in ("random_exact_weights", "random_squares")]
            step = f"{error(r['step'])} ({r['step']['repeats']} repeats)"
            rows.append(
                [f"{name}, arcs {shape}", f"{number(mean)} (sd {number(sd)})", *cells, *more, step]
            )
        mean = {k: n["published"][k][0] for k in ("spectral", "kmeans")}
        exact = [n[shape][k]["random_exact_weights"]["mean"] for k in ("kmeans", "spectral")]
        factor = n[shape]["factor"]
        rows.append(
            [f"k-means / spectral, arcs {shape}", number(mean["kmeans"] / mean["spectral"]),
             number(factor["random"]), number(factor["centre"]), number(factor.get("explorers")),
             number(exact[0] / exact[1]),
             number(factor["random_squares"]), ""]
        )  # fmt: skip
    header = ["cells", "paper", "ours, random starts", "ours, starts at the centres",
              "ours, starts where the explorers did", "random starts, exact weights",
              "random starts, mean squares",
              "random starts, by the step"]  # fmt: skip
    return table(header, rows)


def exhibit5(n: dict) -> str:
    rows = [
        [f"mean N_max over all separations, ε = {e}", "figure only",
         f"{number(n['mean_n_max'][k])} (of medians {number(n['median_n_max'][k])})"]
        for k, e in enumerate(n["epsilon"])
    ]  # fmt: skip
    rows += [
        ["heuristic over these separations", "≈ N_max",
         f"{number(min(n['heuristic']))} to {number(max(n['heuristic']))}"],
        ["measured / heuristic, geometric mean", '"agrees fairly well"', number(n["constant"])],
        ["correlation of their logarithms", '"agrees fairly well"',
         number(n["correlation_of_logs"])],
        [f"runs that reached the largest N tried, {n['largest_tried']}", "",
         f"{n['runs_at_largest']} of {len(n['mu']) * len(n['epsilon']) * n['repeats']:,}"],
    ]  # fmt: skip
    return table(["quantity", "paper", "ours"], rows)


def exhibit6(n: dict) -> str:
    first, last = n["lengths"][0], n["lengths"][-1]
    rows = []
    for name in ("good", "bad"):
        r = n[name]
        slope = f"{number(r['late_slope'])} ± {number(r['late_slope_error'])}"
        errors = [number(r["rms"][0]), number(r["rms"][-1])]
        rows.append([f"{name} cut, at {number(n['cuts'][name])}", "converges", *errors, slope])
    header = ["partition", "theorem", f"rms error, T = {first:,}", f"T = {last:,}",
              "slope from T = 2,048 on"]  # fmt: skip
    return table(header, rows)


def exhibit7(n: dict) -> str:
    exact, found = n["exact"], n["estimates"]

    def shown(key):
        return f"{number(found[key]['mean'])} (sd {number(found[key]['sd'])})"

    rows = [
        ["gap of the unrestricted kernel known", number(exact["ratio"]), shown("known_gap")],
        ["gap from a plain run that travels", number(exact["ratio"]), shown("plain_run")],
        ["default: bound from boundary hits", number(exact["ratio_bound"]), shown("bound")],
    ]
    return table(["`efficiency_ratio`", "exact", "estimated"], rows)


def verdicts(results: dict[str, dict]) -> str:
    """The bars set for this page, and whether they are reached."""
    rows = []

    def judge(text: str, result: dict, bar: float) -> None:
        excess = (result["mean"] - bar) / (result["standard_error"] or 1.0)
        verdict = "reached" if excess <= 0 else "**missed**"
        if 0 < excess <= 2:
            verdict = f"level: above by {number(excess)} standard errors"
        rows.append([text, verdict, f"{error(result)} against {number(bar)}"])

    if "exhibit3" in results:
        n = results["exhibit3"]["numbers"]
        bar, r = n["published"]["ours"]["mean"], n["rows"]
        if "paper" in r:
            judge("paper's settings: at or below the printed error", r["paper"], bar)
        if "defaults" in r:
            judge("defaults, 1000 draws a cell: 5 times below it", r["defaults"], bar / 5)
        if "defaults_long" in r:
            judge("defaults, 4000 draws a cell: 5 times below it", r["defaults_long"], bar / 5)
    if "exhibit4" in results:
        n = results["exhibit4"]["numbers"]
        spectral, kmeans = (n["published"][k][0] for k in ("spectral", "kmeans"))
        for shape, start, called in (
            (shape, start, called)
            for shape in ("as run", "as printed")
            for start, called in (("random", "random starts"), ("explorers", "explorers' starts"))
            if start in n.get(shape, {}).get("spectral", {})
        ):
            name = f"arcs {shape}, {called}"
            judge(
                f"{name}: spectral at or below the printed error",
                n[shape]["spectral"][start],
                spectral,
            )
            if start not in n[shape]["factor"]:
                continue
            factor = n[shape]["factor"][start]
            verdict = "reached" if factor >= kmeans / spectral else "**missed**"
            figures = f"{number(factor)} against {number(kmeans / spectral)}"
            text = f"{name}: k-means worse by at least the paper's factor"
            rows.append([text, verdict, figures])
    return table(["bar", "", "figures"], rows)


# ---------------------------------------------------------------- the page


def load(folder: Path = RESULTS) -> dict[str, dict]:
    files = [folder / f"{name}.json" for name in SCRIPTS]
    return {f.stem: json.loads(f.read_text()) for f in files if f.exists()}


def blocks(results: dict[str, dict]) -> dict[str, str]:
    """Text of every generated block."""
    found = {"verdicts": verdicts(results)}
    for name, script in SCRIPTS.items():
        command = f"`python examples/paper/{script}`"
        if name not in results:
            found[name] = f"Not run in full yet: {command}."
            continue
        record = results[name]
        versions = record["versions"]
        source = (
            f"{command}, seed {record['seed']}, commit {record['commit'][:7]}"
            f"{' with changes' if record['package_changed_since_commit'] else ''}, "
            f"Python {record['python']}, PyMC {versions['pymc']}, NumPy {versions['numpy']}."
        )
        found[name] = f"{globals()[name](record['numbers'])}\n\n{source}"
    return found


def render(page: str, results: dict[str, dict]) -> str:
    """Replace every block of the page by what the results say."""
    return fill(page, blocks(results))


def fill(page: str, texts: dict[str, str]) -> str:
    """Replace the blocks of a page by these texts."""
    for name, text in texts.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        page, count = re.subn(pattern, lambda m, t=text: f"{m[1]}{t}\n{m[2]}", page, flags=re.S)
        if count != 1:
            raise ValueError(f"The page has {count} blocks <!-- {name} -->, it should have one.")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is right")
    arguments = parser.parse_args()
    old = PAGE.read_text()
    new = render(old, load())
    if arguments.check:
        if old != new:
            sys.exit("docs/paper.md differs from docs/paper/*.json: run examples/paper/report.py")
        print("docs/paper.md agrees with docs/paper/*.json")
    else:
        PAGE.write_text(new)
        print(f"{PAGE} written")


if __name__ == "__main__":
    main()
