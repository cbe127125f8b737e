"""The bridge to MetaSchedule: a space's decisions as sampling instructions of a trace, evolved by `EvolutionarySearch`.

The trace samples every decision and notes it on the root block of the task's TensorIR function (static shapes, which
MetaSchedule needs). Lowering reads the notes: `templates` builds the schedule they name on the same function with
symbolic shapes, the one that is measured and served. Traces so stay valid whatever a decision changes in the loops,
replaying one costs microseconds, and what is measured is exactly what is served.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ..templates.space import Decisions, Space
from ..toolchain.importing import import_tvm
from .cost_model import CostModel
from .task import Task

POPULATION = 96
GENERATIONS = 3
_NOTE = "tvm_gnn."


class Evolution:
    """One MetaSchedule search over a task's space.

    Parameters
    ----------
    task : Task
    model : CostModel
        Trained; its predictions are the fitness.
    seed : int
    batch : int
        Candidates per call of `generate`.
    is_seen : callable
        Whether a candidate was proposed before; such a one may breed but is not proposed again.
    """

    def __init__(
        self, task: Task, model: CostModel, seed: int, batch: int, is_seen: Callable[[Decisions], bool]
    ) -> None:
        import_tvm()
        from tvm.s_tir import meta_schedule as ms

        self._ms = ms
        self._space = task.space
        self._module = task.static_module()
        self._target = task.target.tvm_target()
        self._committed = 0
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self._module)
        rng = random.Random(seed)
        self._context = ms.TuneContext(
            mod=self._module,
            target=self._target,
            space_generator=ms.space_generator.ScheduleFn(
                lambda sch: sample(sch, self._space),
                sch_rules=[],
                postprocs=[_legal_only(ms, self._space)],
                mutator_probs={_make_one_move(ms, self._space, rng): 1.0},
            ),
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=POPULATION,
                init_measured_ratio=0.3,
                init_min_unmeasured=16,
                genetic_num_iters=GENERATIONS,
                genetic_mutate_prob=0.85,
                eps_greedy=0.0,
            ),
            rand_state=seed % (2**31 - 1) + 1,
            num_threads=1,
            task_name=task.op.name,
            logger=_quiet_logger(),
        )
        self._context.pre_tuning(
            max_trials=1 << 30,
            num_trials_per_iter=batch,
            design_spaces=self._context.generate_design_space(),
            database=self._database,
            cost_model=_fitness(ms, self._space, model, is_seen),
        )

    def generate(self, measured: list[tuple[Decisions, float]]) -> list[Decisions]:
        """The next batch; `measured` is everything measured so far with its seconds, oldest first."""
        for choice, seconds in measured[self._committed :]:
            self._database.commit_tuning_record(self._record(choice, seconds))
        self._committed = len(measured)
        candidates = self._context.generate_measure_candidates()
        if not candidates:
            return []
        results = [self._ms.runner.RunnerResult([1.0], None) for _ in candidates]
        self._context.notify_runner_results(candidates, results)  # only ends the iteration: times come by `measured`
        return [decisions_of(candidate.sch.trace, self._space) for candidate in candidates]

    def _record(self, choice: Decisions, seconds: float) -> Any:
        from tvm.s_tir import Schedule

        schedule = Schedule(self._module)
        sample(schedule, self._space, choice)
        arguments = self._ms.arg_info.ArgInfo.from_entry_func(self._module, remove_preproc=True)
        return self._ms.database.TuningRecord(schedule.trace, self._workload, [seconds], self._target, arguments)


def sample(sch: Any, space: Space, choice: Decisions | None = None) -> None:
    """Write the space into the trace of a schedule: sample every decision (or take `choice`), note it on the root."""
    root = sch.get_sblock("root")
    for decision in space.decisions:
        count = len(decision.values)
        fixed = None if choice is None else decision.values.index(choice[decision.name])
        index = sch.sample_categorical(list(range(count)), [1.0 / count] * count, decision=fixed)
        sch.annotate(root, _NOTE + decision.name, index)


def decisions_of(trace: Any, space: Space) -> Decisions:
    """The decisions that a trace made, in the space's order."""
    chosen = [int(trace.decisions[inst]) for inst in trace.insts if inst in trace.decisions]
    return {d.name: d.values[index] for d, index in zip(space.decisions, chosen, strict=True)}


def trace_json(module: Any, space: Space, choice: Decisions) -> list[Any]:
    """The trace of a schedule on `module` in MetaSchedule's JSON form; `replay` reads it."""
    from tvm.s_tir import Schedule

    schedule = Schedule(module)
    sample(schedule, space, choice)
    plain: list[Any] = _plain(schedule.trace.as_json())
    return plain


def replay(trace: list[Any], module: Any, space: Space) -> Decisions:
    """The decisions of a stored trace, by applying it to `module`, whose shapes may be others than when it was made."""
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    schedule = Schedule(module)
    Trace.apply_json_to_schedule(trace, schedule)
    return decisions_of(schedule.trace, space)


def _plain(value: Any) -> Any:
    """TVM's strings, numbers and arrays as Python's own."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if hasattr(value, "value"):  # TVM's boxed constants
        return _plain(value.value)
    return [_plain(item) for item in value]


def _legal_only(ms: Any, space: Space) -> Any:
    from tvm.ir.utils import derived_object

    @derived_object
    class LegalOnly(ms.postproc.PyPostproc):  # type: ignore[misc]
        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def apply(self, sch: Any) -> bool:
            return space.legal(decisions_of(sch.trace, space))

        def clone(self) -> Any:
            return LegalOnly()

    return LegalOnly()


def _make_one_move(ms: Any, space: Space, rng: random.Random) -> Any:
    from tvm.ir.utils import derived_object

    @derived_object
    class MakeOneMove(ms.mutator.PyMutator):  # type: ignore[misc]
        """MetaSchedule's own mutators know tiles and unrolling only, not a plain categorical decision."""

        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def apply(self, trace: Any, _: Any) -> Any:
            sampled = [inst for inst in trace.insts if inst in trace.decisions]
            current = decisions_of(trace, space)
            for _attempt in range(8):
                decision = rng.choice(space.decisions)
                value = rng.choice(decision.values)
                moved = space.moved(current, decision.name, value, rng) if value != current[decision.name] else None
                if moved is None:
                    continue
                for inst, each in zip(sampled, space.decisions, strict=True):
                    if moved[each.name] != current[each.name]:
                        index = each.values.index(moved[each.name])
                        trace = trace.with_decision(inst, index, remove_postproc=True)
                return trace
            return None

        def clone(self) -> Any:
            return MakeOneMove()

    return MakeOneMove()


def _fitness(ms: Any, space: Space, model: CostModel, is_seen: Callable[[Decisions], bool]) -> Any:
    from tvm.ir.utils import derived_object

    @derived_object
    class Fitness(ms.cost_model.PyCostModel):  # type: ignore[misc]
        def load(self, path: str) -> None:
            raise NotImplementedError("the cost model is stored by tvm_gnn itself")

        def save(self, path: str) -> None:
            raise NotImplementedError("the cost model is stored by tvm_gnn itself")

        def update(self, context: Any, candidates: Any, results: Any) -> None:
            """The model learns in `Search.observe`."""

        def predict(self, context: Any, candidates: Any) -> Any:
            choices = [decisions_of(candidate.sch.trace, space) for candidate in candidates]
            # MetaSchedule wants positive scores: expected speed relative to the default, next to nothing when known.
            speed = np.exp2(model.predict(choices))
            return np.where([is_seen(choice) for choice in choices], 1e-9, speed)

    return Fitness()


def _quiet_logger() -> Any:
    import logging

    logger = logging.getLogger("tvm_gnn.metaschedule")
    logger.setLevel(logging.ERROR)
    return logger
