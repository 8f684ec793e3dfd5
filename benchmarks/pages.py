"""Write what pages of ``docs`` take from elsewhere.

``accuracy.md`` and ``limits.md`` take tables from the committed results, ``diagnostics.md`` the
limits of findings from the package, and ``how_it_works.md`` its list of PyMC's private names.

    python benchmarks/pages.py [--check]

No such number on these pages is typed; ``--check`` changes nothing and fails if one has drifted.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pymc_spectral._pymc import PRIVATE_NAMES
from pymc_spectral.diagnostics.thresholds import THRESHOLDS, Threshold

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Yes or no, and nothing that a page could add.
WITHOUT_LIMITS = ("bridge_not_converged",)
END_TO_END = ("paper2d", "twenty", "ten_d", "labels", "docs_pair4", "docs_pair80")

REAL_POSTERIORS = (
    "signs_3_6", "signs_3_20", "signs_2_40", "signs_1_100", "rings", "arcs", "arcs_printed",
    "bananas", "aliases", "galaxies_4", "tails_1_50", "tails_1_90", "tails_2_50", "tails_2_90",
    "tails_5_50", "tails_5_90", "cauchy_2",
)  # fmt: skip


def _paper_report():
    """The page of the paper is written in the same way."""
    path = ROOT / "examples" / "paper" / "report.py"
    spec = importlib.util.spec_from_file_location("paper_report", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


paper = _paper_report()
number, table = paper.number, paper.table


def results(prefix: str) -> list[tuple[str, dict]]:
    """Committed results whose name starts so: what follows in the name, and the content."""
    files = sorted(RESULTS.glob(f"{prefix}*.json"))
    return [(f.stem.removeprefix(prefix), json.loads(f.read_text())) for f in files]


def source(found: list[tuple[str, dict]]) -> str:
    """Versions and commits that stand behind a table."""
    lines = {
        f"PyMC {r['versions']['pymc']}, ArviZ {r['versions']['arviz']}, Python {r['python']}, "
        f"commit {r['commit'][:7]}{' with changes' if r['changed_files'] else ''}"
        for _, r in found
    }
    return "; ".join(sorted(lines)) + "."


def honest_errors() -> str:
    found = results("honest_errors_")
    rows = []
    for name, record in found:
        target, series = name.rsplit("_pymc", 1)
        r = record["report"]

        def ratios(key, r=r):
            return ", ".join(f"{value:.2f}" for value in r[key])

        rows.append([
            f"`{target}`, PyMC {series}", str(r["seeds"]),
            ratios("means"), ratios("means_of_draws"), ratios("weights"),
            f"{r['weights_max_z']:.1f}", f"{r['log_z']:.2f}", ratios("arviz_means"),
            f"{r['arviz_r_hat_max']:.3f}",
            number(r["squared_error_of_draws"] / r["squared_error"]),
        ])  # fmt: skip
    header = ["target", "seeds", "means", "means of draws alone", "weights",
              "largest error of a weight, in its own", "log Z",
              "means by `az.mcse`", "largest r_hat", "gain by proposed points"]  # fmt: skip
    return f"{table(header, rows)}\n\n{source(found)}"


def end_to_end() -> str:
    found = [
        (name, record)
        for wanted in END_TO_END
        for name, record in results("end_to_end_")
        if name.rsplit("_pymc", 1)[0] == wanted
    ]
    rows = []
    for name, record in found:
        target, series = name.rsplit("_pymc", 1)
        r = record["report"]
        rows.append([
            f"`{target}`, PyMC {series}", f"{r['all_modes_found']} of {r['seeds']}",
            " to ".join(str(k) for k in sorted({r["n_cells"][0], r["n_cells"][-1]})),
            f"{r['weight_max_z']:.1f} ({r['weight_rms_z']:.2f})",
            f"{r['log_z_max_z']:.1f} ({r['log_z_rms_z']:.2f})",
            f"{r['stepping_stone_max_z']:.1f} ({r['stepping_stone_rms_z']:.2f})",
        ])  # fmt: skip
    header = ["target", "all modes found", "cells", "weights", "log Z", "log Z by tempering"]
    return f"{table(header, rows)}\n\n{source(found)}"


def real_posteriors() -> str:
    found = [
        (f"{name.replace('_', ' ')}, PyMC {series}", record)
        for name in REAL_POSTERIORS
        for series in "56"
        for _, record in results(f"real_posteriors_{name}_pymc{series}")
    ]
    rows = []
    for name, record in found:
        r = record["report"]
        few, many = r["n_cells"]
        ratio = "" if "of_iid" not in r else f"{r['of_iid']:.2f}"
        floor = "" if "of_tempering" not in r else f"{r['of_tempering']:.2f}"
        z = "" if "weight_z_max" not in r else f"{r['weight_z_max']:.1f} ({r['weight_z_rms']:.2f})"
        rows.append([
            name, str(r["seeds"]), str(few) if few == many else f"{few} to {many}",
            f"{r['tv_mean']:.3f}, {r['tv_max']:.3f}", f"{r['tv_of_tempering']:.3f}", z,
            f"{r['log_z_error_max']:.3f}", f"{r['log_z_max_z']:.1f} ({r['log_z_rms_z']:.2f})",
            ratio, floor, str(r["runs_with_warnings"]),
        ])  # fmt: skip
    header = ["target", "seeds", "cells", "TV of the modes' weights, mean and largest",
              "TV of tempering's points", "weights of cells", "largest error of log Z", "log Z",
              "means, of iid draws'", "means, of tempering's", "runs with a warning"]  # fmt: skip
    return f"{table(header, rows)}\n\n{source([(n, r) for n, r in found])}"


def smc() -> str:
    found = results("smc_docs_pair80_")
    ours = [r for name, r in results("end_to_end_docs_pair80_")]
    light = [w for r in ours for w in r["report"]["weight_first_mode"]]
    rows = [["true", "", "0.900", ""]]
    if light:
        heavy = [1 - w for w in light]
        spread = f"{min(heavy):.3f} to {max(heavy):.3f}"
        mcse = [run["weight_mcse"][0] for r in ours for run in r["runs"]]
        rows.append(["this package, defaults", str(len(heavy)), spread,
                     f"{sum(mcse) / len(mcse):.3f}"])  # fmt: skip
    for _, record in found:
        heavy = [1 - run["weight"][0] for run in record["runs"]]
        spread = f"{min(heavy):.3f} to {max(heavy):.3f}"
        rows.append(["`pm.sample_smc`, 2000 draws", str(len(heavy)), spread, "none"])
    return table(["", "seeds", "weight of the heavy mode", "error reported (mean)"], rows)


def speed() -> str:
    rows = []
    found = results("nuts_overhead_") + results("batched_density_") + results("exploration_price_")
    for name, record in results("nuts_overhead_"):
        for r in record["rows"]:
            rows.append([f"NUTS in a cell against `pm.NUTS`, d = {r['d']}, PyMC {name[-1]}",
                         f"{r['ratio']:.2f} times the seconds per draw"])  # fmt: skip
    for name, record in results("batched_density_"):
        for r in record["rows"]:
            rows.append([f"log density of 64 points at once, {r['model']}, PyMC {name[-1]}",
                         f"{r['ratio']:.0f} times as many a second as a loop over rows; "
                         f"{r['ratio_points_ready']:.0f} if the loop is handed "
                         "ready-made points"])  # fmt: skip
    for name, record in results("exploration_price_"):
        for r in record["rows"]:
            what = f"exploring {r['model']} against `pm.sample()`, PyMC {name[-1]}"
            rows.append([what, f"{r['ratio']:.2f} times as long ({r['explore_seconds']:.1f} s)"])
    return f"{table(['what', 'ratio'], rows)}\n\n{source(found)}"


def _by_series(study: str, header: list[str], show: Callable[[dict], list[str]]) -> str:
    """Table of a study of limits, a row for each PyMC series."""
    found = results("limits_")
    rows = [
        [f"PyMC {name.removeprefix('pymc')}", str(r["report"][study]["runs"]),
         *show(r["report"][study])]
        for name, r in found
    ]  # fmt: skip
    return f"{table(['', 'runs', *header], rows)}\n\n{source(found)}"


def missed_half() -> str:
    return _by_series(
        "missed_half",
        ["log marginal likelihood, error", "runs with a warning"],
        lambda r: [f"{r['mean_log_z_error']:.3f}", str(r["with_warnings"])],
    )


def missed_mode() -> str:
    return _by_series(
        "missed_mode",
        ["chains found the mode", "mass is missing", "and a warning says so", "these warnings"],
        lambda r: [
            str(r["runs"] - r["wrong"]), str(r["wrong"]), str(r["wrong_with_warnings"]),
            ", ".join(f"`{code}`" for code in r["wrong_codes"]),
        ],
    )  # fmt: skip


def two_modes() -> str:
    return _by_series(
        "two_modes", ["flagged by `several_modes`"], lambda r: [str(r["several_modes"])]
    )


def healthy() -> str:
    return _by_series(
        "healthy",
        ["with a warning", "PyMC's own checks object"],
        lambda r: [str(r["with_warnings"]), str(r["pymc_objects"])],
    )


def limits(threshold: Threshold) -> dict[str, str]:
    """Limits of a figure in words, by severity."""
    found = {"information": threshold.info, "warning": threshold.warning}
    words = {}
    for severity, limit in found.items():
        if limit is None:
            words[severity] = "never"
        elif limit == 0 and threshold.side == "above":
            words[severity] = "any"
        else:
            number = threshold.form.format(limit).replace("%", " %")
            words[severity] = f"{threshold.side} {number}"
    return words


def limits_of(code: str) -> str:
    """One line with all limits of a finding."""
    lines = []
    for threshold in THRESHOLDS.values():
        if threshold.code == code:
            said = [
                f"{'a warning' if severity == 'warning' else severity} "
                f"{'if any' if words == 'any' else words}"
                for severity, words in limits(threshold).items()
                if words != "never"
            ]
            lines.append(f"{threshold.figure}: {', '.join(said)}")
    return f"*Limits:* {'; '.join(lines)}."


def limits_of_findings() -> str:
    rows = [
        [f"`{t.code}`", t.figure, limits(t)["information"], limits(t)["warning"], t.source]
        for t in THRESHOLDS.values()
    ]
    return table(["finding", "what is compared", "information", "warning", "set by"], rows)


def private_names() -> str:
    rows = [
        [
            f"`{entry.owner}`",
            ", ".join(f"`{name}`" for name in entry.names),
            entry.purpose,
            ", ".join(entry.checked),
        ]
        for entry in PRIVATE_NAMES
    ]
    return table(["where", "names", "what for", "last checked on PyMC"], rows)


def by_name(*functions: Callable[[], str]) -> dict[str, Callable[[], str]]:
    """Blocks of a page that are called as the functions that write them."""
    return {function.__name__: function for function in functions}


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "accuracy.md": by_name(honest_errors, real_posteriors, end_to_end, smc, speed),
    "limits.md": by_name(missed_half, missed_mode, two_modes, healthy),
    "diagnostics.md": {
        **{
            f"limits_{code}": partial(limits_of, code)
            for code in dict.fromkeys(t.code for t in THRESHOLDS.values())
            if code not in WITHOUT_LIMITS
        },
        **by_name(limits_of_findings),
    },
    "how_it_works.md": by_name(private_names),
}


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether pages are right")
    arguments = parser.parse_args()
    for file, blocks in PAGES.items():
        page = ROOT / "docs" / file
        old = page.read_text()
        new = paper.fill(old, {name: block() for name, block in blocks.items()})
        if not arguments.check:
            page.write_text(new)
            print(f"{page} written")
        elif old != new:
            sys.exit(f"docs/{file} differs from what it shows: run benchmarks/pages.py")


if __name__ == "__main__":
    main()
