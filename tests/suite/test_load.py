"""A suite file is taken rightly, or every mistake in it is told at once with its line."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.errors import ConfigError
from pytest_accel.suite.expand import expand
from pytest_accel.suite.load import load_suite
from pytest_accel.suite.types import MetricRule, Requires, Tolerance, Waiver

WHOLE = """\
schema: pytest-accel/suite/1
suite: throughput
setup: my_pkg.kernels:register
defaults:
  tier: gate
cases:
  - name: gemm
    workload: gemm
    params: {m: 4096, n: 4096, k: 4096}
    matrix: {dtype: [float16, bfloat16]}
    settings: {allow_tf32: false}
    requires: {platform: [cuda, rocm, ascend], memory: 2GiB, devices: 1, capability: ">=8.0", package: triton}
    metrics:
      time: {worse_by: 3%}
    platforms:
      cpu: {params: {m: 512, n: 512, k: 512}, metrics: {time: {worse_by: 50%}}}
    tier: smoke
    timeout: 60s
    waive: {when: {platform: ascend}, metrics: {time: {up_to: 8%}}, reason: "slow", issue: "https://x/1", expires: 2027-01-31}
"""


def test_the_documented_suite_is_read_whole(suites):
    suite = suites.load(WHOLE)
    first, second = expand(suite, "cuda")
    assert first.key == "throughput/gemm[allow_tf32=false,dtype=float16,k=4096,m=4096,n=4096]"
    assert second.params == {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"}
    assert first.settings == {"allow_tf32": False}
    assert first.requires == Requires(("cuda", "rocm", "ascend"), 2 * 2**30, 1, ">=8.0", ("triton",))
    assert first.metrics == {"time": MetricRule(worse_by=Tolerance(0.03, True))}
    assert (first.tier, first.timeout, first.setup, first.line) == ("smoke", 60.0, "my_pkg.kernels:register", 7)
    assert first.path == str(suites.path)
    expires = datetime.date(2027, 1, 31)
    assert first.waivers == (Waiver({"time": Tolerance(0.08, True)}, (), "slow", "https://x/1", expires, ("ascend",)),)
    on_cpu = expand(suite, "cpu")[0]
    assert on_cpu.params == {"m": 512, "n": 512, "k": 512, "dtype": "float16"}
    assert on_cpu.metrics["time"].worse_by == Tolerance(0.5, True)


def test_a_suite_without_a_name_is_named_after_its_file(tmp_path):
    for file, name in (("my-suite.accel.yaml", "my-suite"), ("v2.1.accel.yml", "v2.1"), ("plain.yaml", "plain")):
        (tmp_path / file).write_text("schema: pytest-accel/suite/1\ncases: [{name: a, workload: w}]\n")
        assert load_suite(tmp_path / file, platforms=("cpu",)).name == name


def test_a_file_name_that_is_no_suite_name_asks_for_one(tmp_path):
    path = tmp_path / "a,b.accel.yaml"
    path.write_text("schema: pytest-accel/suite/1\ncases: [{name: a, workload: w}]\n")
    with pytest.raises(ConfigError, match="give it a name"):
        load_suite(path, platforms=("cpu",))
    path.write_text("schema: pytest-accel/suite/1\nsuite: ab\ncases: [{name: a, workload: w}]\n")
    assert load_suite(path, platforms=("cpu",)).name == "ab"


def test_numbers_without_a_point_are_numbers_where_numbers_are_wanted(suites):
    rule = "{worse_by: 1e-3, floor: 1E3, max: 1.0e3, min: -1e-3, equals: 1e-05}"
    (variant,) = suites.variants(f"- {{name: a, workload: w, metrics: {{e: {rule}}}}}")
    wanted = MetricRule(worse_by=Tolerance(0.001, False), floor=1000.0, max=1000.0, min=-0.001, equals=1e-05)
    assert variant.metrics["e"] == wanted


def test_text_fields_keep_their_text_and_free_values_are_read_rightly(suites):
    (variant,) = suites.variants(
        "- name: 8.0\n  workload: w\n  params: {commit: 695e0514, sparsity: 2:4, torch: '2.10', eps: 1e-3, n: 1}\n"
        "  metrics: {e: {unit: 2.10}}\n"
    )
    assert variant.case == "8.0"
    assert variant.params == {"commit": "695e0514", "sparsity": "2:4", "torch": "2.10", "eps": 0.001, "n": 1}
    assert variant.metrics["e"].unit == "2.10"


def test_a_plain_on_as_a_key_is_told_as_a_boolean_with_its_line(one_problem):
    said = one_problem("- name: a\n  workload: w\n  on: nightly\n")
    assert said.startswith("s.accel.yaml:5: case `a`: unknown key `on`, which without quotes is a boolean")
    assert "quote it" in said


def test_booleans_of_yaml_1_1_are_refused_everywhere_they_are_not_meant(suites):
    said = suites.wrong_cases(
        "- name: no\n  workload: off\n  params:\n    norm: NO\n    modes: [fp16, on]\n    yes: 1\n"
        "  metrics:\n    off: {max: 1}\n  tier: on\n"
    )
    assert [one.split(": ")[0] for one in said] == [f"s.accel.yaml:{line}" for line in (3, 4, 6, 7, 8, 10, 11)]
    assert all("boolean" in one for one in said)


def test_all_mistakes_of_a_file_are_told_at_once_in_order(suites):
    said = suites.wrong(
        "schema: pytest-accel/suite/1\nsuite: py\ncase: []\ndefaults: {teir: smoke}\ncases:\n"
        "- name: a\n  worklaod: w\n  metrics: {time: {worse_buy: 3%, better: less}}\n"
        "- name: a\n  workload: w\n  params: {n: 1}\n  matrix: {n: [1], e: [], d: [x, x], f: 3}\n"
        "- name: b\n  workload: w\n  settings: {alow_tf32: true, allow_tf32: 1, overflow_mode: 5, power_limit: hot}\n"
        "  requires: {platform: [cudda], memory: 2gb, devices: 0, capability: 8.0, package: []}\n  timeout: soon\n"
        "  platforms: {gpu: {}}\n"
    )
    for line, words in [
        (2, "`py` is reserved"),
        (3, "unknown key `case` (did you mean `cases`?)"),
        (4, "defaults: unknown key `teir` (did you mean `tier`?)"),
        (6, "case `a`: `workload` is missing"),
        (7, "case `a`: unknown key `worklaod` (did you mean `workload`?)"),
        (8, "metrics.time: unknown key `worse_buy` (did you mean `worse_by`?)"),
        (8, "metrics.time.better: `less` is not one of them"),
        (9, "two cases are named `a`: lines 6 and 9"),
        (12, "`n` stands in both params (line 11) and matrix"),
        (12, "matrix.e: is an empty list"),
        (12, "matrix.d: the value `x` stands twice"),
        (12, "matrix.f: must be a list"),
        (15, "there is no setting `alow_tf32` (did you mean `allow_tf32`?)"),
        (15, "`allow_tf32`: must be true or false, not `1`"),
        (15, "`power_limit`: must be a number, not `hot`"),
        (16, "there is no platform `cudda` (did you mean `cuda`?)"),
        (16, "`2gb` is no size"),
        (16, "`0` is no number of devices"),
        (16, "`8.0` is no capability"),
        (16, "requires.package: must be a package or a list of them, not an empty list"),
        (17, "`soon` is no duration"),
        (18, "there is no platform `gpu`"),
    ]:
        assert any(one.startswith(f"s.accel.yaml:{line}: ") and words in one for one in said), (line, words, said)
    assert len(said) == 22
    lines = [int(one.split(":")[1]) for one in said]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases: [{name: a, workload: w}]\n", "`schema` is missing"),
        ("schema: pytest-accel/suite/9\ncases: [{name: a, workload: w}]\n", "upgrade"),
        ("schema: pytest-accel/suite/1\n", "`cases` is missing"),
        ("schema: pytest-accel/suite/1\ncases: []\n", "the list is empty"),
        ("schema: pytest-accel/suite/1\ncases:\n", "cases: must be a list, not nothing"),
        ("schema: pytest-accel/suite/1\ncases: {name: a, workload: w}\n", "cases: must be a list, not a map"),
        ("schema: pytest-accel/suite/1\ncases: [gemm]\n", "case 1: must be a map (`key: value`), not `gemm`"),
        ("schema: pytest-accel/suite/1\ncases: [{workload: w}]\n", "case 1: `name` is missing"),
        ("schema: pytest-accel/suite/1\nsetup: my_pkg\ncases: [{name: a, workload: w}]\n", "names no function"),
        ("schema: pytest-accel/suite/1\ncases: [{name: a, workload: 'p.m:'}]\n", "names no function"),
        ("schema: pytest-accel/suite/1\ncases: [{name: a/b, workload: w}]\n", "the name `a/b` holds `/`"),
    ],
)
def test_a_wrong_file_is_told_in_words(suites, text, words):
    (said,) = suites.wrong(text)
    assert words in said


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("params: ", "params: must be a map (`key: value`), not nothing"),
        ("params: {x: .nan}", "not a finite number"),
        ("settings: {threads: 1.5}", "must be a whole number"),
        ("settings: {threads: [1]}", "must be a whole number, not a list"),
        ("params: {threads: 1}, settings: {threads: 1}", "stands in both params (line 3) and settings"),
        ("metrics: {t: {min: 2, max: 1}}", "min 2 is above max 1"),
        ("metrics: {t: {equals: null}}", "not null"),
        ("metrics: {t: {floor: -1}}", "`-1` is negative"),
        ("timeout: null", "`null` is no duration"),
        ("waive: {status: [Bad Word], reason: r, issue: i, expires: 2027-01-31}", "`Bad Word` is no status word"),
        ("waive: {status: x, reason: ' ', issue: i, expires: 2027-01-31}", "waive.reason: is blank"),
        ("waive: {status: x, reason: r, issue: i, expires: soon}", "`soon` is no date"),
        ("waive: {status: x, reason: r, issue: i, expires: 2027-01-31, until: x}", "waive: unknown key `until`"),
        ("requires: {package: 'a b'}", "is no package that can be imported"),
        ("requires: []", "requires: must be a map"),
    ],
)
def test_a_wrong_field_is_told_in_words(one_problem, fields, words):
    said = one_problem(f"- {{name: a, workload: w, {fields}}}\n")
    assert said.startswith("s.accel.yaml:3: case `a`: ")
    assert words in said


def test_the_line_of_an_item_deep_in_a_parameter_is_told(one_problem):
    said = one_problem("- name: a\n  workload: w\n  params:\n    sizes:\n      - 1\n      - [2,\n         on]\n")
    assert said.startswith("s.accel.yaml:9: case `a`: params.sizes: a plain `on`")


def test_a_setting_has_the_type_that_is_known_for_it(suites):
    settings = "{allow_tf32: true, overflow_mode: 8.0, power_limit: 400, threads: 2}"
    (variant,) = suites.variants(f"- {{name: a, workload: w, settings: {settings}}}")
    assert variant.settings == {"allow_tf32": True, "overflow_mode": "8.0", "power_limit": 400.0, "threads": 2}
    assert variant.key == 's/a[allow_tf32=true,overflow_mode="8.0",power_limit=400.0,threads=2]'


def test_without_known_settings_any_is_taken(suites):
    suites.path.write_text("schema: pytest-accel/suite/1\ncases: [{name: a, workload: w, settings: {x: 1}}]\n")
    assert expand(load_suite(suites.path, platforms=("cpu",)), "cpu")[0].settings == {"x": 1}


def test_a_waiver_names_metrics_or_a_status(suites):
    rest = "reason: r, issue: i, expires: 2027-01-31"
    case = "- name: a\n  workload: w\n  waive:"
    (both,) = suites.variants(
        f"{case}\n  - {{status: unsupported, {rest}}}\n  - {{metrics: {{t: {{up_to: 5}}}}, {rest}}}\n"
    )
    assert [waiver.status for waiver in both.waivers] == [("unsupported",), ()]
    assert both.waivers[1].metrics == {"t": Tolerance(5.0, False)}
    for broken in (f"{{{rest}}}", f"{{metrics: {{}}, {rest}}}"):
        (said,) = suites.wrong_cases(f"{case} {broken}\n")
        assert "neither metrics nor a status" in said


def test_a_waiver_has_a_reason_an_issue_and_an_end(suites):
    said = suites.wrong_cases("- name: a\n  workload: w\n  waive: {status: [unsupported]}\n")
    missing = [
        f"s.accel.yaml:5: case `a`: waive: `{name}` is missing (add it)" for name in ("reason", "issue", "expires")
    ]
    assert said == missing


def test_duplicate_keys_in_a_case_name_both_lines(suites):
    said = suites.wrong_cases(
        "- name: a\n  workload: w\n  metrics:\n    e:\n      worse_by: 1.0e-3\n      unit: us\n      worse_by: 1.0\n"
    )
    assert said == ["s.accel.yaml:9: the key `worse_by` stands twice: lines 7 and 9 (remove one of them)"]


def test_a_byte_order_mark_and_windows_line_ends_give_the_same_variants(suites):
    plain = expand(suites.load(WHOLE), "cuda")
    assert expand(suites.load(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode()), "cuda") == plain


def test_merge_keys_make_cases_alike(suites):
    one, two = suites.variants("- &base {name: a, workload: w, params: {n: 1}}\n- <<: *base\n  name: b\n")
    assert (one.params, one.line) == (two.params, 3)
    assert (two.case, two.line) == ("b", 4)


def test_importing_types_and_keys_brings_neither_pydantic_nor_torch():
    modules = ", ".join(
        f"pytest_accel.suite.{name}" for name in ("types", "keys", "units", "load", "expand", "suitability")
    )
    code = f"import sys, {modules}\nprint(sorted({{'pydantic', 'torch', 'numpy'}} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


VALUES = ["1", "on", "~", "''", "1e-3", "3%", "2GiB", "60s", "'x'", "*q", "2.10"]
VALUES += ["{}", "[]", "[on, 1]", "{a: 1}", "{on: 1}", "[[]]", "{a: {b: [no]}}", "{cpu: {params: {n: 2}}}"]
FIELDS = [
    "name",
    "workload",
    "params",
    "matrix",
    "settings",
    "requires",
    "metrics",
    "platforms",
    "tier",
    "timeout",
    "waive",
]
FIELDS += ["on", "''", "platform", "memory", "when", "up_to", "cpu", "status"]
PAIRS = st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES)), max_size=6)


@given(PAIRS.filter(lambda pairs: len(dict(pairs)) == len(pairs)), PAIRS)
def test_no_suite_ends_in_anything_but_variants_or_a_config_error(tmp_path_factory, case, inner):
    path = tmp_path_factory.getbasetemp() / "fuzz.accel.yaml"
    within = "{" + ", ".join(f"{name}: {value}" for name, value in dict(inner).items()) + "}"
    lines = [f"  {name}: {value}" for name, value in case]
    lines += [f"  {name}: {within}" for name in ("waive", "requires", "metrics") if name not in dict(case)]
    path.write_text("schema: pytest-accel/suite/1\ncases:\n- n: 1\n" + "\n".join(lines) + "\n")
    problems = problems_of(path)
    assert all(problem.mend and problem.path == str(path) and problem.line for problem in problems)


def problems_of(path):
    try:
        return () if expand(load_suite(path, platforms=("cpu", "cuda"), settings_known={"a": bool}), "cpu") else None
    except ConfigError as error:
        return error.problems


def test_every_shipped_suite_loads_and_expands_on_every_platform():
    from pytest_accel.stack.registry import names, settings_known

    found = sorted((Path(__file__).parents[2] / "suites").glob("*.accel.yaml"))
    assert found
    known = {name: kind for allowed in settings_known().values() for name, kind in allowed.items()}
    for path in found:
        suite = load_suite(path, platforms=names(), settings_known=known)
        for platform in names():
            assert expand(suite, platform)
