"""People who have the plugin installed and use nothing of it must not notice."""

from __future__ import annotations

import subprocess
import sys

import pytest

PLAIN = "def test_a():\n    pass\ndef test_b():\n    assert 0\n"


@pytest.mark.parametrize("arguments", [[], ["-q"], ["-n", "1"], ["-x"]])
def test_a_run_without_accel_items_is_the_same_with_and_without_the_plugin(pytester, arguments):
    pytester.makepyfile(test_plain=PLAIN)

    def outcome(*more):
        result = pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest", *arguments, *more
        )
        lines = [
            line
            for line in result.outlines
            if not line.startswith(("plugins:", "platform", "=")) and " in " not in line
        ]
        return result.ret, lines

    assert outcome() == outcome("-p", "no:accel")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["--collect-only", "-q"], ["-q"]])
def test_torch_is_not_imported_for_other_peoples_tests(pytester, arguments):
    pytester.makepyfile(test_plain="def test_a():\n    import sys\n    assert 'torch' not in sys.modules\n")
    script = (
        "import sys, pytest\n"
        f"code = pytest.main({arguments!r})\n"
        "heavy = [name for name in ('torch', 'numpy', 'pydantic', 'rich') if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "sys.exit(int(code))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=pytester.path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_collecting_suites_imports_no_torch_and_starts_no_process(project):
    project.suite("- {name: a, workload: gemm, params: {m: 8, n: 8, k: 8, dtype: float32}}")
    script = (
        "import sys, pytest\n"
        "code = pytest.main(['--collect-only', '-q', '--accel=cpu'])\n"
        "assert 'torch' not in sys.modules\n"
        "import subprocess\n"
        "assert not subprocess._active\n"
        "sys.exit(int(code))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=project.path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "s/gemm" in done.stdout.replace("s/a", "s/gemm")
