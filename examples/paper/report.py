"""Write the tables of ``docs/paper.md`` from the numbers that the full runs left in ``docs/paper``.

The main observations to make are:

- no result on that page is typed: what stands between ``<!-- name -->`` and ``<!-- end -->`` is
  replaced by what this script finds in the JSON files, of runs on PyMC 6 and, in the folder
  ``pymc5``, on PyMC 5;
- ``python examples/paper/report.py --check`` changes nothing and fails if the page has drifted.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "paper"
OLDER = RESULTS / "pymc5"
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
        ["(a) best cut for the sampler", "0", number(a["minimizer_sampler"])],
        ["(a) best cut for the clustering", "0", number(a["minimizer_clustering"])],
    ]
    for sigma in ("0.15", "0.25", "0.4"):
        bound, exact = (number(b[f"gain_{kind}_at_{sigma}"]) for kind in ("bound", "exact"))
        rows.append(
            [f"(b) gain over naive chains, σ = {sigma}", '"enormous"',
             f"{bound} for the worst h, {exact} for h(x) = x"]
        )  # fmt: skip
    rows += [
        [f"(c) {text} R =", paper, " and ".join(
            f"{number(c[f'{kind}_{key}_up_to'])} ({name})"
            for kind, name in (("worst", "worst h"), ("plain", "h(x) = x")))]
        for text, paper, key in (
            ("within a factor 2 of the best cut up to", '"fairly wide range"', "within_factor_2"),
            ("ahead of naive chains up to", '"quite far from optimal"', "ahead_of_naive"),
        )
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
            growth = []
            for key in (kind, f"{kind}_exact"):
                by_n = {(t["m"], t["n"]): t[key] for t in n["table"]}
                ratios = [
                    by_n[lengths[1], k] / by_n[lengths[0], k] for m, k in by_n if m == lengths[0]
                ]
                growth.append(number(sum(ratios) / len(ratios)))
            shown = f"× {growth[0]} (exact {growth[1]})"
            rows.append([f"variance when m doubles, {kind}", "× 4", shown])
    u = n["unequal"]
    rows.append(
        [f"largest part that still beats naive chains, n = {u['n']}",
         f"smaller order than 1/√n = {number(u['one_over_root_n'])} suffices",
         f"{number(u['largest_share_ahead_of_naive'])} of the cycle; one large part: (4n)^(-1/4) = "
         f"{number(u['one_large_part'])}"]
    )  # fmt: skip
    return table(["quantity", "paper", "ours"], rows)


def exhibit3(n: dict, older: dict | None = None) -> str:
    names = [
        ("paper_by_step", "paper's settings, draws alone as there; last stage repeated", "ours"),
        ("paper", "the same, chains in NumPy", "ours"),
        ("paper_pooled", "paper's settings, pooled means; last stage repeated", "ours"),
        ("paper_own_weights", "draws alone, weights from each repeat's own draws", None),
        ("paper_own_pooled", "the same, pooled means", None),
        ("tempering", "parallel tempering", "tempering"),
        ("naive", "naive parallel chains", "naive"),
        ("fair_paper", "fair: paper's settings, everything repeated, draws alone", None),
        ("fair_paper_pooled", "the same, pooled means", None),
        ("defaults", "fair: today's defaults, 1000 draws a cell, draws alone", None),
        ("defaults_pooled", "the same, pooled means", None),
        ("defaults_long", "defaults but for 4000 draws a cell, draws alone", None),
        ("defaults_long_pooled", "the same, pooled means", None),
    ]  # fmt: skip

    def measured(numbers, key):
        if not numbers or key not in numbers["rows"]:
            return ["not run", "", ""]
        r = numbers["rows"][key]
        return [error(r), number(r["sd"]), str(r["repeats"])]

    rows = []
    for key, name, published in names:
        printed = "not run"
        if published:
            p = n["published"][published]
            printed = f"{p['mean']} (sd {p['sd']})"
        cost = f"{n['rows'][key]['evaluations']:,}" if key in n["rows"] else ""
        rows.append([name, printed, *measured(n, key), *measured(older, key), cost])
    algebra = [["of this row: expected, by linear algebra", number(n["rows"]["paper"]["expected"])]]
    if "expected" in n["rows"]:
        e = n["rows"]["expected"]
        span = f"{number(e['lowest'])} to {number(e['highest'])}"
        algebra.append(
            [f"the same with exact weights, for {e['repeats']} explorations",
             f"{number(e['mean'])} ({span})"]
        )  # fmt: skip
        if "largest_part" in e:
            algebra.append(
                ["share of it that is the walk in one cell", f"{e['largest_part']:.0%} or more"]
            )
    rows[2:2] = [[name, "not computed", value, *[""] * 6] for name, value in algebra]
    header = ["method", "paper: mean", "ours, PyMC 6: mean ± se", "sd", "repeats",
              "ours, PyMC 5: mean ± se", "sd", "repeats", "density evaluations"]  # fmt: skip
    rivals = [
        *([f"{int(k):,} independent draws", v] for k, v in n["independent_draws"].items()),
        ["four chains from the target that never leave their mode", n["naive_never_leaving"]],
        ["four chains from the target that never move", n["naive_never_moving"]],
    ]
    others = table(["for comparison", "expected"], [[name, number(v)] for name, v in rivals])
    return f"{table(header, rows)}\n\n{others}"


STARTS = {
    "center": "centers of cells",
    "random": "random landmarks",
    "explorers": "where the explorers did",
    "target": "from the target",
}
METHODS = {"spectral": "spectral", "kmeans": "k-means"}
SHAPES = {"as run": "shifted arc", "as printed": "flat arc"}
# Squared errors of explorations fall into two groups; this lies between them.
LARGE = 0.1


def exhibit4(n: dict, older: dict | None = None) -> str:
    """Errors as simulated and as expected, for all explorations, and what starts and weights do."""
    published = n["published"]
    paper = [f"{mean} (sd {sd})" for mean, sd in map(published.get, METHODS)]
    paper.append(number(published["kmeans"][0] / published["spectral"][0]))
    names = [*METHODS.values(), "k-means / spectral"]

    def column(numbers, shape, key, show=error):
        """Both methods and their ratio."""
        found = [*(numbers[shape][m].get(key) for m in METHODS), numbers[shape]["factor"].get(key)]
        missing = "both in one cell" if key.startswith("explorers") else "not run"
        return [missing if r is None else show(r) for r in found]

    def rows(columns):
        return [
            [f"{name}, {SHAPES[shape]}", paper[k], *(c[k] for c in columns(shape))]
            for shape in SHAPES
            if shape in n
            for k, name in enumerate(names)
        ]

    def with_sd(r):
        return f"{error(r)} (sd {number(r['sd'])})" if "sd" in r else error(r)

    def measured(shape):
        found = [column(n, shape, "center", with_sd)]
        found += [column(n, shape, key) for key in ("center_expected", "step", "step_pooled")]
        return [*found, column(n, shape, "center_squares")]

    def expected(shape, suffix):
        found = [column(n, shape, f"{s}_expected{suffix}") for s in STARTS]
        spread = [n[shape][m][f"center_expected{suffix}"]["by_partition"] for m in METHODS]
        return [*found, [*map(span, spread), ""]]

    def span(x):
        above = sum(v > LARGE for v in x)
        return f"{number(min(x))} to {number(max(x))}, {above} of {len(x)} above {LARGE}"

    def exact(shape):
        found = expected(shape, "_exact_weights")
        values = n[shape]["spectral"]["target_expected_exact_weights"]["by_partition"]
        whole = n[shape]["spectral"]["cells_are_the_sets"]
        pure = [x for x, is_whole in zip(values, whole, strict=True) if is_whole]
        mean = number(sum(pure) / len(pure)) if pure else "none"
        return [*found, [f"{mean} ({sum(whole)} of {len(whole)})", "", ""]]

    any_shape = n[next(iter(s for s in SHAPES if s in n))]["spectral"]
    header = ["cells", "paper", "simulated, from centers", "the same, expected",
              "by the step, draws alone", "by the step, pooled means",
              "mean squares, simulated"]  # fmt: skip
    same = ""
    if older:
        k = older["as run"]["spectral"]["step"]["partitions"]
        same = f" With PyMC 5 the first {k} explorations were run, with the same outcome."
    starts = [f"starts: {name}" for name in STARTS.values()]
    second = ["cells", "paper", *starts, "single explorations, centers"]
    third = [*second, "mean of those whose cells are the two sets, starts from the target"]
    return (
        f"Over {any_shape['center']['partitions']} explorations, weights by the bridge and then "
        f"fixed; {any_shape['center']['repeats']} repeats simulated, {any_shape['step']['repeats']}"
        f" by the step, whose chains start at random landmarks.{same}\n\n"
        f"{table(header, rows(measured))}\n\n"
        "What must be expected of the draws alone, from other starts:\n\n"
        f"{table(second, rows(lambda shape: expected(shape, '')))}\n\n"
        f"And with exact weights:\n\n{table(third, rows(exact))}"
    )


def exhibit5(n: dict) -> str:
    studies = [n, *n["other_taus"]]
    runs = len(n["mu"]) * len(n["epsilon"]) * n["repeats"]

    def line(text: str, paper: str, show: Callable[[dict], str]) -> list[str]:
        return [text, paper, *map(show, studies)]

    agrees = '"agrees fairly well"'
    rows = [
        line(f"mean N_max over all separations, ε = {e}", "figure only",
             lambda s, k=k: f"{number(s['mean_n_max'][k])} (of medians "
                            f"{number(s['median_n_max'][k])})")
        for k, e in enumerate(n["epsilon"])
    ]  # fmt: skip
    rows += [
        line(f"partitions within {n['fixed_epsilon']:.0%} at N = {k}", "",
             lambda s, j=j: f"{s['share_good'][j]:.0%}")
        for j, k in enumerate(n["fixed"])
    ]  # fmt: skip
    rows += [
        line("heuristic over these separations", "≈ N_max",
             lambda s: f"{number(min(s['heuristic']))} to {number(max(s['heuristic']))}"),
        line("measured / heuristic, geometric mean", agrees, lambda s: number(s["constant"])),
        line("correlation of their logarithms", agrees,
             lambda s: number(s["correlation_of_logs"])),
        line(f"runs of {runs:,} that reached the largest N tried, {n['largest_tried']}", "",
             lambda s: str(s["runs_at_largest"])),
    ]  # fmt: skip
    return table(["quantity", "paper", *(f"ours, τ = {s['tau']:g}" for s in studies)], rows)


def exhibit6(n: dict, older: dict | None = None) -> str:
    first, last = n["lengths"][0], n["lengths"][-1]
    rows = []
    for name in ("good", "bad"):
        columns = [f"{name} cut, at {number(n['cuts'][name])}", "converges"]
        for r in (numbers[name] for numbers in (n, older) if numbers):
            columns += [number(r["rms"][0]), number(r["rms"][-1])]
            columns.append(f"{number(r['late_slope'])} ± {number(r['late_slope_error'])}")
        rows.append(columns)
    late = f"slope from T = {n['late']:,} on"
    header = [f"rms error, T = {first:,}", f"T = {last:,}", late]
    return table(["partition", "theorem", *header, *_again(header, older)], rows)


def exhibit7(n: dict, older: dict | None = None) -> str:
    exact = n["exact"]
    keys = [
        ("gap of the unrestricted kernel known", "ratio", "known_gap"),
        ("gap from a plain run that travels", "ratio", "plain_run"),
        ("default: bound from boundary hits", "ratio_bound", "bound"),
    ]
    rows = []
    for name, truth, key in keys:
        found = [numbers["estimates"][key] for numbers in (n, older) if numbers]
        shown = [f"{number(f['mean'])} (sd {number(f['sd'])})" for f in found]
        rows.append([name, number(exact[truth]), *shown])
    return table(["`efficiency_ratio`", "exact", "estimated", *_again(["estimated"], older)], rows)


def _again(header: list[str], older: dict | None) -> list[str]:
    """Titles of the columns of the older series, if there are any."""
    return [f"{title}, PyMC 5" for title in header] if older else []


def verdicts(results: dict[str, dict], older: dict[str, dict]) -> str:
    """The bars set for this page, and whether they are reached on each series."""

    def judge(found: dict | None, bar: float, at_least: bool = False) -> str:
        if not found:
            return "not run"
        excess = (found["mean"] - bar) / (found["standard_error"] or 1.0)
        short = -excess if at_least else excess
        verdict = "reached" if short <= 0 else "level, not reached" if short <= 2 else "**missed**"
        return f"{error(found)}: {verdict}"

    both = [s for s in (results, older) if s]
    rows = []
    if "exhibit3" in results:
        published = results["exhibit3"]["numbers"]["published"]["ours"]["mean"]
        found = [s["exhibit3"]["numbers"]["rows"] if "exhibit3" in s else {} for s in both]
        at_paper, far_below = f"at or below {published}", f"5 times below it, {published / 5}"
        for text, key, bar in (
            (f"paper's settings, draws alone as in the paper: {at_paper}", "paper_by_step", 1),
            (f"paper's settings, pooled means: {at_paper}", "paper_pooled", 1),
            (f"today's defaults, draws alone: {far_below}", "defaults", 5),
            (f"today's defaults, pooled means: {far_below}", "defaults_pooled", 5),
        ):
            rows.append([text, *(judge(r.get(key), published / bar) for r in found)])
    if "exhibit4" in results:
        published = results["exhibit4"]["numbers"]["published"]
        spectral = published["spectral"][0]
        ratio = published["kmeans"][0] / spectral
        found = results["exhibit4"]["numbers"]
        ways = {"draws alone, expected": "center_expected", "pooled means": "step_pooled"}
        for (shape, name), (way, key) in product(SHAPES.items(), ways.items()):
            for text, part, bar in (
                (f"spectral at or below {spectral}", "spectral", spectral),
                (f"k-means at least {ratio:.3g} times worse", "factor", ratio),
            ):
                judged = judge(found[shape][part].get(key), bar, at_least=part == "factor")
                rows.append([f"arcs, {name}, {way}: {text}", judged, "same draws"][: 1 + len(both)])
    return table(["bar", "PyMC 6", "PyMC 5"][: 1 + len(both)], rows)


# ---------------------------------------------------------------- the page


def load(folder: Path = RESULTS) -> dict[str, dict]:
    files = [folder / f"{name}.json" for name in SCRIPTS]
    return {f.stem: json.loads(f.read_text()) for f in files if f.exists()}


def source(record: dict) -> str:
    """Where a run comes from, or its rows, if they were run one at a time."""
    versions = record["versions"]
    rows = record["numbers"].get("rows")
    if isinstance(rows, dict):
        runs: dict[str, list[str]] = {}
        for key, r in rows.items():
            runs.setdefault(f"commit {r['commit'][:7]} with PyMC {r['pymc']}", []).append(key)
        listed = "; ".join(f"{', '.join(keys)}: {run}" for run, keys in runs.items())
        return f"seed {record['seed']}, Python {record['python']} ({listed})"
    changes = " with changes" if record["package_changed_since_commit"] else ""
    return (
        f"seed {record['seed']}, commit {record['commit'][:7]}{changes}, Python "
        f"{record['python']}, PyMC {versions['pymc']}, NumPy {versions['numpy']}"
    )


def blocks(results: dict[str, dict], older: dict[str, dict]) -> dict[str, str]:
    """Text of every generated block."""
    found = {"verdicts": verdicts(results, older)}
    for name, script in SCRIPTS.items():
        command = f"`python examples/paper/{script}`"
        if name not in results:
            found[name] = f"Not run in full yet: {command}."
            continue
        records = [record[name] for record in (results, older) if name in record]
        text = globals()[name](*(record["numbers"] for record in records))
        found[name] = f"{text}\n\n{command}: {'; and '.join(map(source, records))}."
    return found


def render(page: str, results: dict[str, dict], older: dict[str, dict]) -> str:
    """Replace every block of the page by what the results say."""
    return fill(page, blocks(results, older))


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
    new = render(old, load(), load(OLDER))
    if arguments.check:
        if old != new:
            sys.exit("docs/paper.md differs from docs/paper/*.json: run examples/paper/report.py")
        print("docs/paper.md agrees with docs/paper/*.json")
    else:
        PAGE.write_text(new)
        print(f"{PAGE} written")


if __name__ == "__main__":
    main()
