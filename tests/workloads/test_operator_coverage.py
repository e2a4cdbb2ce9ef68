"""The whole database: every dtype, both directions, both routes, and what may make an operator without a tolerance right."""

from __future__ import annotations

import pytest

from pytest_accel.workloads import operators, opinfo
from pytest_accel.workloads.opcover import calls, reproduce
from pytest_accel.workloads.operators import operator, operator_backward
from pytest_accel.workloads.samples import Sample, cast, choose, moved, tensors

torch = pytest.importorskip("torch")
SEEN = ("supported", 0)


def entry(op, variant=""):
    return opinfo.find(op, variant)[0]


@pytest.fixture
def changed(monkeypatch):
    """Change one route of every operator: ``put(call=…)`` or ``put(plain=…)`` with a function of (call, *args)."""

    def put(**changes):
        find = opinfo.find

        def found(name, variant):
            entries = []
            for each in find(name, variant):
                fields = {**vars(each)}
                for route, change in changes.items():
                    own = fields[route]
                    fields[route] = lambda *a, own=own, change=change, **k: change(own, *a, **k)
                entries.append(opinfo.Operator(**fields))
            return entries

        monkeypatch.setattr(opinfo, "find", found)

    return put


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("add", "int8"),
        ("cumsum", "uint8"),
        ("logical_or", "bool"),
        ("mean", "complex64"),
        ("mm", "complex128"),
        ("exp", "int32"),
        ("eye", "float8_e4m3fn"),
        ("fft.fft", "float64"),
        ("as_strided", "float16"),
        ("nextafter", "bfloat16"),
        ("to_sparse", "float32"),
    ],
)
def test_every_kind_of_dtype_is_judged(accelerator, op, dtype):
    found = operator(accelerator, op, dtype)
    assert (found["status"], found["faults"]) == SEEN, accelerator.notes
    assert found["samples"] >= 1
    assert found["available"] >= found["samples"]


@pytest.mark.parametrize(
    "op", ["mm", "softmax", "nn.functional.layer_norm", "nn.functional.conv2d", "linalg.qr", "index_select"]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_judged(accelerator, op, dtype):
    found = operator_backward(accelerator, op, dtype)
    if op == "linalg.qr" and dtype == "bfloat16":
        assert found["status"] == "no-sample"
    else:
        assert (found["status"], found["faults"]) == SEEN, accelerator.notes
        assert found["max_ulp"] < 30


def test_a_halved_gradient_is_wrong_while_the_result_is_right(accelerator, changed):
    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient / 2 if gradient.dtype == torch.float16 else gradient

    changed(call=lambda call, x, *args, **kwargs: call(Halved.apply(x), *args, **kwargs))
    assert operator(accelerator, "nn.functional.silu", "float16")["status"] == "supported"
    found = operator_backward(accelerator, "nn.functional.silu", "float16")
    assert (found["status"], found["faults"] > 0) == ("wrong", True)
    assert "gradient 0" in accelerator.notes["reproduce"]["reason"]


def test_the_reproducer_of_a_gradient_runs_and_gives_what_was_measured(accelerator, capsys):
    sample = next(s for s in entry("addcmul").samples(torch.float32, 0, gradients=True))
    measured = calls.backward(entry("addcmul").call, moved(sample, torch.device("cpu")))
    code = reproduce.code("addcmul", "", "float32", sample.index, device="cpu", wide="float64", seed=0, backward=True)
    scope: dict[str, object] = {}
    exec(code + "shown = run(sample.transform(to))", scope)
    assert all(torch.equal(a, b) for a, b in zip(measured, scope["shown"], strict=True))
    assert "float64 on the host" in capsys.readouterr().out


def test_a_fault_in_the_method_alone_is_found_by_the_second_route(accelerator, changed):
    changed(plain=lambda call, x, *args, **kwargs: call(x, *args, **kwargs) * 1.01)
    assert operator(accelerator, "exp", "float32")["status"] == "wrong"


def test_a_method_that_takes_no_such_arguments_is_one_route_less_and_no_fault(accelerator, changed):
    def refuse(call, *args, **kwargs):
        raise TypeError("unexpected keyword argument 'out_dtype'")

    changed(plain=refuse)
    assert operator(accelerator, "exp", "float32")["status"] == "supported"


def test_an_operator_without_a_tolerance_of_its_own_is_still_held_to_one(accelerator, changed):
    changed(call=lambda call, x, *args, **kwargs: call(x, *args, **kwargs) * (1.01 if x.dtype == torch.float32 else 1))
    assert operator(accelerator, "special.i1e", "float32")["status"] == "wrong"


def test_a_whole_number_off_by_one_is_wrong(accelerator, changed, monkeypatch):
    monkeypatch.setattr(operators.golden_of, "__defaults__", None)
    first = []

    def off(call, *args, **kwargs):
        out = call(*args, **kwargs)
        first.append(out)
        return out + 1 if len(first) % 4 in (3, 0) else out  # the golden is computed twice, then the device calls

    changed(call=off)
    assert operator(accelerator, "bitwise_and", "int32", samples=1)["status"] == "wrong"


def test_what_host_and_device_both_refuse_is_unsupported(accelerator, changed):
    def missing(call, *args, **kwargs):
        raise AssertionError("Jiterator is only supported on other devices")

    changed(call=missing)
    found = operator(accelerator, "exp", "float32")
    assert (found["status"], found["faults"], found["samples"]) == ("unsupported", 0, 0)


def test_what_only_the_host_refuses_has_no_golden_result_and_is_never_supported(accelerator, changed):
    def refuse(call, x, *args, **kwargs):
        if x.dtype == torch.float64:
            raise RuntimeError("not in float64")
        return call(x, *args, **kwargs)

    changed(call=refuse)
    found = operator(accelerator, "exp", "float32")
    assert (found["status"], found["faults"], found["samples"]) == ("no-golden", 0, 0)


def test_an_operator_that_only_another_torch_has_is_no_sample_and_not_a_wrong_name(accelerator, monkeypatch):
    monkeypatch.setattr(opinfo, "database", list)
    found = operator(accelerator, "mm", "float32")
    assert (found["status"], found["faults"], found["available"]) == ("no-sample", 0, 0)
    assert "no 'mm'" in accelerator.notes["no_sample"]


def test_each_sample_leaves_a_breadcrumb_with_code_that_runs(fake_platform):
    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.stack.types import Stack

    crumbs: list[str] = []
    operator(Accelerator(fake_platform, 0, Stack("fake"), crumb=crumbs.append), "mm", "float16", samples=2)
    assert len(crumbs) == 2
    assert "of mm (float16): float16[" in crumbs[0]
    assert "op_db" in crumbs[0]


def test_a_sample_that_does_not_begin_its_storage_keeps_all_of_it():
    base = torch.arange(12.0, dtype=torch.float16)
    view = base[4:8]
    for made in (
        cast(Sample(0, "", (view,), {}), torch.float16, torch.float64),
        moved(Sample(0, "", (view,), {}), torch.device("cpu")),
    ):
        (copy,) = tensors(made.args)
        assert copy.as_strided((2,), (1,), 10).tolist() == [10.0, 11.0]
        assert copy.data_ptr() != view.data_ptr()


def test_huge_samples_are_left_out_where_there_are_smaller_ones():
    sizes = [10, 60_000, 20]
    samples = [Sample(i, "", (torch.empty(n),), {}) for i, n in enumerate(sizes)]
    assert [sample.index for sample in choose(samples, 6)] == [0, 2]
    assert [sample.index for sample in choose(samples[1:2], 6)] == [1]
