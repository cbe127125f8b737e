"""The order, number and arithmetic of timed blocks, on a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from tvm_gnn.bench import Case, Entrant, Timing, time_alone, time_in_layer
from tvm_gnn.bench.protocol import layer
from tvm_gnn.errors import InputError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.registry import parse_op


@dataclass
class Clock:
    """Time in milliseconds that passes only while something sleeps or runs; integers, so sums are exact."""

    now_ms: int = 0
    events: list[str] = field(default_factory=list)

    def timing(self, rounds: int, drain_ms: int = 12, warm_ms: int = 2, block_ms: int = 4) -> Timing:
        return Timing(rounds, drain_ms, warm_ms, block_ms, clock=lambda: self.now_ms, sleep=self.sleep)

    def sleep(self, duration: float) -> None:
        self.events.append(f"sleep {duration:g}")
        self.now_ms += int(duration)

    def run(self, name: str, cost_ms: int) -> Callable[[], None]:
        def call() -> None:
            self.events.append(name)
            self.now_ms += cost_ms

        return call


def test_blocks_come_in_turn_drained_and_warmed() -> None:
    clock = Clock()
    samples = time_alone({"a": clock.run("a", 1), "b": clock.run("b", 3), "c": clock.run("c", 50)}, clock.timing(2))
    one_round = [
        *["sleep 12", *["a"] * 2, *["a"] * 4],
        *["sleep 12", *["b"] * 1, *["b"] * 2],
        *["sleep 12", *["c"] * 1, *["c"] * 1],
    ]
    assert clock.events == one_round * 2
    assert samples == {"a": [1, 1], "b": [3, 3], "c": [50, 50]}


def test_a_sample_is_the_mean_of_its_own_block() -> None:
    clock = Clock()
    costs = iter([2, 1, 5, 2, 4])  # warm, block of two; warm, block of one

    def run() -> None:
        clock.now_ms += next(costs)

    assert time_alone({"a": run}, clock.timing(2)) == {"a": [3, 4]}


def test_zero_lengths_still_call_once() -> None:
    clock = Clock()
    samples = time_alone({"a": clock.run("a", 7)}, clock.timing(3, warm_ms=0, block_ms=0))
    assert samples == {"a": [7, 7, 7]}
    assert clock.events.count("a") == 6


def test_defaults_are_the_written_protocol() -> None:
    timing = Timing()
    assert (timing.rounds, timing.drain_s, timing.warm_s, timing.block_s) == (15, 0.012, 0.002, 0.004)


def test_no_rounds_is_refused() -> None:
    with pytest.raises(InputError, match=r"rounds: must be at least 1 \(got 0\)"):
        Timing(rounds=0)


@pytest.mark.parametrize("takes", ["numpy", "torch"])
def test_layer_computes_relu_of_a_x_w(graphs: dict[str, Graph], takes: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    graph = graphs["wide"]
    case = Case(graph, parse_op("u_mul_e_sum"), 6)
    dense = np.zeros((graph.num_dst, graph.num_src))
    rows = np.repeat(np.arange(graph.num_dst), np.diff(graph.indptr))
    np.add.at(dense, (rows, graph.indices), case.w)
    seen = []

    def kernel(h: object) -> object:
        array = np.asarray(h)
        seen.append((type(h), array.copy()))
        y = (dense @ array).astype(np.float32)
        return torch.from_numpy(y) if takes == "torch" else y

    got = layer(case, Entrant("fake", kernel, takes))()  # type: ignore[arg-type]
    (kind, hidden), *more = seen
    assert not more
    assert kind is (torch.Tensor if takes == "torch" else np.ndarray)
    weight, *_ = np.linalg.lstsq(case.x.astype(np.float64), hidden, rcond=None)
    np.testing.assert_allclose(case.x @ weight, hidden, atol=1e-4)  # hidden is x times one (F, F) matrix
    np.testing.assert_allclose(got.numpy(), np.maximum(dense @ hidden, 0), rtol=1e-5, atol=1e-5)


def test_layers_and_dense_part_are_timed_in_turn(case: Case) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    clock = Clock()

    def kernel(name: str, cost_ms: int) -> Callable[[object], object]:
        run = clock.run(name, cost_ms)
        return lambda h: (run(), np.zeros((case.graph.num_dst, case.feat), np.float32))[1]

    # The dense part takes no time on this clock, so blocks end only by a warm-up and a block of zero length.
    timing = clock.timing(3, warm_ms=0, block_ms=0)
    samples = time_in_layer(case, [Entrant("a", kernel("a", 2)), Entrant("b", kernel("b", 9))], timing)
    assert samples.layers == {"a": [2, 2, 2], "b": [9, 9, 9]}
    assert samples.dense == [0, 0, 0]
    assert clock.events == ["sleep 12", "a", "a", "sleep 12", "b", "b", "sleep 12"] * 3
