"""A few lines of plain torch that call an operator on the very input that failed. No torch here."""

from __future__ import annotations

from pytest_accel.workloads.opcover.calls import WEIGHTS
from pytest_accel.workloads.opinfo import ENOUGH, SEED_BASE


def code(op: str, variant: str, dtype: str, index: int, *, device: str, wide: str, seed: int, backward: bool) -> str:
    """Python text that prints the device's results and the host's in ``wide``; runs with torch (and expecttest) alone."""
    first = SEED_BASE + seed * ENOUGH
    lines = [
        "import random, numpy, torch",
        "from torch.testing._internal.common_methods_invocations import op_db",
        f"entry = next(e for e in op_db if (e.name, e.variant_test_name) == {(op, variant)!r})",
        f"samples = iter(entry.sample_inputs('cpu', torch.{dtype}, requires_grad={backward}))",
        f"for i in range({first}, {first + index + 1}):",
        "    random.seed(i), torch.manual_seed(i), numpy.random.seed(i)",
        "    sample = next(samples)",
    ]
    if backward:
        lines += [
            "def run(s):",
            "    tensors = [t for t in torch.utils._pytree.tree_leaves((s.input, s.args, s.kwargs)) if torch.is_tensor(t)]",
            "    out = s.output_process_fn_grad(entry(s.input, *s.args, **s.kwargs))",
            "    out = [t for t in torch.utils._pytree.tree_leaves(out) if torch.is_tensor(t) and t.requires_grad]",
            f"    row = torch.tensor({WEIGHTS})",
            "    weights = [row.repeat(t.numel())[: t.numel()].reshape(t.shape) for t in out]",
            "    pair = lambda w: torch.complex(w, w.flip(-1) if w.dim() else w)",
            "    weights = [(pair(w) if t.is_complex() else w).to(t) for w, t in zip(weights, out)]",
            "    leaves = [t for t in tensors if t.requires_grad]",
            "    return torch.autograd.grad(out, leaves, weights, allow_unused=True)",
        ]
    else:
        lines.append("run = lambda s: entry(s.input, *s.args, **s.kwargs)")
    keep = ".detach().requires_grad_(x.requires_grad)" if backward else ""
    lines += [
        f"to = lambda x: x.to({device!r}){keep} if torch.is_tensor(x) else x",
        "print('device:', run(sample.transform(to)))",
    ]
    if wide:
        lines += [
            f"widen = lambda x: x.to(torch.{wide}){keep} if getattr(x, 'dtype', None) == torch.{dtype} else "
            f"(torch.{wide} if x == torch.{dtype} else x)",
            f"print('{wide} on the host:', run(sample.transform(widen)))",
        ]
    else:
        lines.append("print('host:', run(sample))")
    return "\n".join(lines) + "\n"
