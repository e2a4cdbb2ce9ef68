"""Each way in which a workload can end is an outcome of its own, and costs nobody else anything."""

from __future__ import annotations

import math
import time

import pytest


def test_metrics_of_every_kind_come_back_as_they_were(bench):
    bench.work(
        """
        import numpy, enum
        class Word(str, enum.Enum):
            FINE = "fine"
        def kinds(accel):
            return {"float": 1.5, "int": 2**70, "flag": True, "word": Word.FINE, "samples": (1, 2.5), "array": numpy.arange(3),
                    "scalar": numpy.float32(0.5), "zero_d": numpy.array(7)}
        """
    )
    result = bench.runner().measure(bench.request("kinds"))
    assert result.outcome == "measured"
    assert result.metrics == {
        "float": 1.5, "int": 2**70, "flag": True, "word": "fine", "samples": [1, 2.5], "array": [0, 1, 2], "scalar": 0.5,
        "zero_d": 7,
    }  # fmt: skip


def test_non_finite_metrics_come_through(bench):
    bench.work(
        """
        def odd(accel, given):
            return {"nan": float("nan"), "inf": float("inf"), "samples": [1.0, float("-inf")], "given": given}
        """
    )
    metrics = bench.runner().measure(bench.request("odd", given=math.inf)).metrics
    assert math.isnan(metrics["nan"])
    assert metrics["inf"] == metrics["given"] == math.inf
    assert metrics["samples"] == [1.0, -math.inf]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("None", "returned None"),
        ("{}", "no metric"),
        ("[1]", "list"),
        ("{1: 2}", "metric named 1"),
        ("{'': 2}", "metric named ''"),
        ("{'a': None}", "'a' is None"),
        ("{'a': {'b': 1}}", "'a' is dict"),
        ("{'a': []}", "empty sequence"),
        ("{'a': [1, 'x']}", "sample 1 is str"),
        ("{'a': 1j}", "complex"),
        ("{'a': b'x'}", "bytes"),
    ],
)
def test_what_is_no_metric_is_a_configuration_error_that_says_why(returned, says):
    from pytest_accel.runner.metrics import BadReturn, metrics_of

    with pytest.raises(BadReturn, match=says):
        metrics_of(eval(returned))


def test_a_bad_return_and_bad_arguments_leave_the_process_trusted(bench):
    bench.work(
        """
        def nothing(accel):
            return None
        def strict(accel, n):
            return {"n": n}
        """
    )
    runner = bench.runner()
    bad = runner.measure(bench.request("nothing"))
    assert (bad.outcome, bad.code) == ("config", "config")
    assert "returned None" in bad.reason
    unknown = runner.measure(bench.request("strict", n=1, m=2))
    assert unknown.outcome == "config"
    assert "'m'" in unknown.reason
    good = runner.measure(bench.request("strict", n=1))
    assert good.metrics == {"n": 1}
    assert bad.pid == unknown.pid == good.pid


def test_a_workload_says_itself_that_it_is_unfit_or_skips(bench):
    bench.work(
        """
        import unittest, pytest
        def hot(accel):
            accel.unfit("throttled", "too hot")
        def skip(accel):
            accel.skip("needs two devices")
        def skip_pytest(accel):
            pytest.skip("by pytest")
        def skip_unittest(accel):
            raise unittest.SkipTest("by unittest")
        def refuse(accel):
            from pytest_accel.measure.types import BadArguments
            raise BadArguments("k must be even")
        """
    )
    runner = bench.runner()
    said = {
        name: runner.measure(bench.request(name)) for name in ("hot", "skip", "skip_pytest", "skip_unittest", "refuse")
    }
    assert (said["hot"].outcome, said["hot"].code, said["hot"].reason) == ("unfit", "throttled", "too hot")
    assert [said[name].outcome for name in ("skip", "skip_pytest", "skip_unittest")] == ["skipped"] * 3
    assert said["skip_pytest"].reason == "by pytest"
    assert (said["refuse"].outcome, said["refuse"].reason) == ("config", "k must be even")
    assert len({result.pid for result in said.values()}) == 1


def test_what_does_not_import_says_so(bench):
    bench.work("def here(accel):\n    return {'a': 1}\n")
    (bench.folder / "broken_work.py").write_text("import not_there_at_all\n", encoding="utf-8")
    runner = bench.runner()
    request = bench.request("not_here")
    gone = runner.measure(request)
    assert gone.outcome == "import-failed"
    assert "not_here" in gone.reason
    broken = runner.measure(type(request)("k", "broken_work:f", {}, {}, 10.0))
    assert broken.outcome == "import-failed"
    assert "not_there_at_all" in broken.reason
    setup = runner.measure(bench.request("here", setup="no_setup"))
    assert setup.outcome == "import-failed"
    assert "setup" in setup.reason
    assert runner.measure(bench.request("here")).pid == gone.pid


def test_an_exception_is_an_error_with_a_code_and_a_traceback_that_begins_in_the_workload(bench):
    bench.work(
        """
        def bad(accel):
            raise NotImplementedError("aten::x is not implemented here")
        def leave(accel):
            raise SystemExit(0)
        def stop(accel):
            raise KeyboardInterrupt
        def mute(accel):
            class Odd(Exception):
                def __str__(self):
                    raise ValueError
            raise Odd
        def long(accel):
            raise RuntimeError("Could not run this:\\n\\n  no kernel\\n" + "and so on, " * 99)
        """
    )
    runner = bench.runner()
    long = runner.measure(bench.request("long"))
    assert long.reason == "RuntimeError: Could not run this: no kernel"
    assert long.detail.count("and so on") >= 99
    bad = runner.measure(bench.request("bad"))
    assert (bad.outcome, bad.code) == ("error", "unsupported")
    assert bad.reason == "NotImplementedError: aten::x is not implemented here"
    assert bad.detail.startswith("Traceback")
    assert "in bad" in bad.detail
    assert "execute.py" not in bad.detail
    for name in ("leave", "stop", "mute"):
        assert runner.measure(bench.request(name)).outcome == "error"


def test_a_segfault_names_its_signal_and_shows_where(bench):
    bench.work(
        """
        import ctypes
        def fault(accel):
            print("about to fall")
            ctypes.string_at(0)
        """
    )
    result = bench.runner().measure(bench.request("fault"))
    assert (result.outcome, result.code) == ("crash", "crash")
    assert "SIGSEGV" in result.reason
    assert result.out == "about to fall\n"
    assert "in fault" in result.detail


def test_an_exit_names_its_code(bench):
    bench.work("import os\ndef leave(accel):\n    os._exit(7)\n")
    result = bench.runner().measure(bench.request("leave"))
    assert result.outcome == "crash"
    assert "exit code 7" in result.reason


def test_a_hang_ends_at_its_limit_and_shows_where(bench):
    bench.work(
        """
        import time
        def hang(accel):
            time.sleep(60)
        """
    )
    begin = time.monotonic()
    result = bench.runner().measure(bench.request("hang", timeout=0.5))
    assert result.outcome == "timeout"
    assert "0.5 s" in result.reason
    assert "in hang" in result.detail
    assert time.monotonic() - begin < 10


def test_a_hang_that_ignores_signals_ends_too(bench):
    bench.work(
        """
        import signal, time
        def deaf(accel):
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
            time.sleep(60)
        """
    )
    assert bench.runner().measure(bench.request("deaf", timeout=0.3)).outcome == "timeout"


def test_output_of_python_and_c_goes_to_its_own_variant(bench):
    bench.work(
        """
        import ctypes, os, sys
        def talk(accel, word):
            print("python", word)
            print("error", word, file=sys.stderr)
            ctypes.CDLL(None).printf(b"c %s", word.encode())
            os.write(2, b"raw\\n")
            return {"said": accel.stderr_text().count("error " + word)}
        """
    )
    runner = bench.runner()
    one, two = (runner.measure(bench.request("talk", word=word)) for word in ("one", "two"))
    assert (one.out, one.err) == ("python one\nc one", "error one\nraw\n")
    assert (two.out, two.err) == ("python two\nc two", "error two\nraw\n")
    assert one.metrics == two.metrics == {"said": 1}


def test_huge_output_is_cut_in_its_middle_and_does_not_pile_up(bench):
    bench.work(
        """
        def loud(accel):
            print("begin")
            for _ in range(3000):
                print("x" * 1000)
            print("end")
            return {"a": 1}
        def quiet(accel):
            print("quiet")
            return {"a": 1}
        """
    )
    runner = bench.runner()
    loud = runner.measure(bench.request("loud"))
    assert loud.outcome == "measured"
    assert loud.out.startswith("begin\n")
    assert loud.out.endswith("end\n")
    assert len(loud.out) < 70_000
    assert "bytes left out" in loud.out
    assert runner.measure(bench.request("quiet")).out == "quiet\n"


def test_a_workload_that_closes_its_streams_harms_nobody(bench):
    bench.work(
        """
        import os, sys
        def close(accel):
            sys.stdout.close()
            os.close(1)
            os.close(2)
            open(os.devnull)
            return {"a": 1}
        def talk(accel):
            print("out")
            print("err", file=sys.stderr)
            return {"a": 1}
        """
    )
    runner = bench.runner()
    assert runner.measure(bench.request("close")).outcome == "measured"
    after = runner.measure(bench.request("talk"))
    assert (after.out, after.err) == ("out\n", "err\n")


def test_a_fork_that_forgets_to_end_does_not_answer_twice(bench):
    bench.work(
        """
        import os
        def split(accel):
            return {"child": int(os.fork() == 0)}
        def after(accel):
            return {"pid": os.getpid()}
        """
    )
    runner = bench.runner()
    assert runner.measure(bench.request("split")).outcome == "measured"
    after = runner.measure(bench.request("after"))
    assert after.metrics == {"pid": after.pid}


def test_notes_declarations_version_settings_and_digest_come_with_the_metrics(bench):
    bench.work(
        """
        from pytest_accel.workloads.declare import workload
        @workload(version=3, metrics={"time": {"unit": "us", "kind": "timing", "worse_by": "3%"}})
        def told(accel, n=1):
            accel.note("series", [1, 2])
            return {"time": 1.0, "flag": accel.stack.settings["flag"]}
        """
    )
    runner = bench.runner(probe_part={"hardware": {"name": "made up"}, "settings": {}, "versions": {}})
    request = bench.request("told")
    plain = runner.measure(request)
    pinned = runner.measure(type(request)("k", request.workload, {"n": 1}, {"flag": True}, 10.0))
    assert plain.work_version == 3
    assert plain.declared["time"]["unit"] == "us"
    assert plain.notes == {"series": [1, 2]}
    assert plain.stack["hardware"] == {"name": "made up"}
    assert plain.stack["settings"] == {"flag": False}
    assert pinned.stack["settings"] == {"flag": True}
    assert pinned.metrics["flag"] == 1
    assert plain.digest == pinned.digest != ""
    assert plain.seconds < 1


def test_params_that_json_cannot_hold_are_a_configuration_error(bench):
    bench.work("def f(accel, x):\n    return {'a': 1}\n")
    runner = bench.runner()
    assert runner.measure(bench.request("f", x={1, 2})).outcome == "config"
    assert runner.measure(bench.request("f", x=1)).outcome == "measured"


def test_import_path_directory_and_environment_are_those_of_pytest(bench, monkeypatch):
    # A file that is named like a module of Python must not be taken for it.
    (bench.folder / "json.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("SEEN_BY_CHILD", "yes")
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry != str(bench.folder)])
    (bench.folder / "elsewhere").mkdir()
    monkeypatch.syspath_prepend(str(bench.folder / "elsewhere"))
    (bench.folder / "elsewhere" / f"{bench.module}.py").write_text(
        "import os, sys\ndef where(accel):\n"
        "    return {'cwd': os.getcwd(), 'env': os.environ['SEEN_BY_CHILD'], 'path': chr(10).join(sys.path),"
        " 'conftest': int('conftest' in sys.modules)}\n",
        encoding="utf-8",
    )
    metrics = bench.runner().measure(bench.request("where")).metrics
    assert metrics["cwd"] == str(bench.folder)
    assert metrics["env"] == "yes"
    assert metrics["path"].split("\n") == [entry or str(bench.folder) for entry in __import__("sys").path]
    assert metrics["conftest"] == 0


def test_death_is_noticed_at_once_though_a_child_keeps_the_pipe_open(bench):
    bench.work(
        """
        import os, time
        def leave(accel):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            os._exit(5)
        """
    )
    begin = time.monotonic()
    result = bench.runner().measure(bench.request("leave", timeout=50.0))
    assert "exit code 5" in result.reason
    assert time.monotonic() - begin < 15
    assert bench.soon_gone()
