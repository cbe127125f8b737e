"""One tuning run: propose, build, check and measure until the budget is spent, compare the best, keep the winner."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..cache import KERNEL_FILE, ArtifactStore, ReadResult, Record, RecordLog
from ..errors import ArtifactError, DependencyError, InputError, RecordError, TuneError
from ..templates.space import Decisions
from ..toolchain.environment import environment
from ..toolchain.importing import import_tvm
from . import workload
from .budget import Budget
from .builder import Builder, BuildResult
from .cost_model import CostModel
from .evolution import trace_json
from .features import has_features
from .finals import Final, pick_winner
from .report import Observer, TrialEvent, TuneReport
from .runner import RUN_TIMEOUT_S, Runner, RunResult
from .scratch import scratch_folder
from .search import EvolutionarySearch, Search, batch_size, frozen
from .task import Task

FINALISTS = 4
# What the final comparison costs beside the finalists' own time: rounds of short blocks for each.
_FINALS_S_EACH = 0.15
_MOST_PRIOR_RECORDS = 4000
_LEAST_TIMEOUT_S = 5.0

SearchFactory = Callable[[Task, CostModel, int], Search]


@dataclass
class _Progress:
    """What is known so far in one run."""

    ok: dict[tuple[object, ...], tuple[Decisions, float]] = field(default_factory=dict)
    reused: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    default_s: float | None = None
    default_library: Path | None = None
    first_candidate_s: float | None = None
    interrupted: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def measured(self) -> int:
        return sum(self.statuses.values())

    def best(self, count: int) -> list[Decisions]:
        """The fastest schedules so far."""
        return [choice for choice, _ in sorted(self.ok.values(), key=lambda entry: entry[1])[:count]]


class Tuner:
    """Tunes one task; everything it starts is ended when `run` returns.

    Parameters
    ----------
    task : Task
        Not empty (`Task.is_empty`).
    budget : Budget
    log : RecordLog
        Finished trials of this task in it count and are not measured again.
    store : ArtifactStore
    models : Path
        Folder of the cost models.
    observer : Observer
    seed : int
        In [0, 2**63).
    search : callable
        Makes the search; default: evolutionary.
    """

    def __init__(
        self,
        task: Task,
        budget: Budget,
        log: RecordLog,
        store: ArtifactStore,
        models: Path,
        observer: Observer,
        seed: int = 0,
        search: SearchFactory = EvolutionarySearch,
    ) -> None:
        if not 0 <= seed < 1 << 63:
            raise InputError(f"seed: must be an integer in [0, 2**63) (got {seed}).")
        self._task = task
        self._budget = budget
        self._log = log
        self._store = store
        self._observer = observer
        self._seed = seed
        self._environment = environment(task.target)
        self._model = CostModel(task, seed)
        self._model_file = models / f"{task.key.digest}.ubj"
        self._search = search(task, self._model, seed)
        self._progress = _Progress()
        self._static_module: Any = None

    def run(self) -> TuneReport:
        """Tune, compare, store.

        Raises
        ------
        InputError
            The store or the log cannot be written, or ``CC`` names no compiler.
        TuneError
            No candidate was right and measurable, not even the default, or the temporary folder is full.
        DependencyError
            TVM, xgboost or a compiler is missing.
        """
        self._check_places()
        with scratch_folder() as folder:
            builder = Builder(self._task.target, folder, workers=self._task.target.threads)
            runner: Runner | None = None
            try:
                self._resume()
                workload.write(self._task, folder, self._seed)
                runner = Runner(folder)
                self._observer.started(self._task, self._budget, self._progress.reused)
                self._search_until_spent(builder, runner)
                final = self._compare(builder, runner)
                artifact = self._publish(final)
                self._save_model()
                if artifact is not None:
                    self._publish_for_other_edge_order(final, builder, runner)
            finally:
                builder.close()
                if runner is not None:
                    runner.close()
        return self._report(final, artifact)

    def _check_places(self) -> None:
        # Before the budget is spent on what could not be kept.
        try:
            self._store.check_writable(self._task.key, self._task.graph.signature.exact)
            self._log.check_writable()
        except (ArtifactError, RecordError) as error:
            raise InputError(str(error)) from error

    def _search_until_spent(self, builder: Builder, runner: Runner) -> None:
        try:
            if self._progress.default_s is None:
                self._trials([self._task.space.default], builder, runner)
            if self._progress.default_s is None:
                return  # `_compare` says why
            (default,) = builder.build([self._task.code_spec(self._task.space.default)])
            if default.library is None:
                return  # nothing else will build either; `_compare` says why
            self._progress.default_library = default.library
            while not self._is_spent():
                finished = self._progress.reused + self._progress.measured
                batch = self._search.propose(min(batch_size(finished), self._budget.trials_left(finished)))
                if not batch:
                    return
                self._trials(batch, builder, runner)
        except KeyboardInterrupt:
            self._progress.interrupted = True

    def _is_spent(self) -> bool:
        progress = self._progress
        finals_s = (FINALISTS + 2) * (_FINALS_S_EACH + 20 * (progress.default_s or 0.0))
        no_trials_left = self._budget.trials_left(progress.reused + progress.measured) == 0
        return no_trials_left or self._budget.left_s() < finals_s

    def _trials(self, batch: list[Decisions], builder: Builder, runner: Runner) -> None:
        """Build a batch, run what was built until the budget is spent, teach the search."""
        progress, task = self._progress, self._task
        built = builder.build([task.code_spec(choice) for choice in batch])
        done: list[Decisions] = []
        times: list[float | None] = []
        try:
            for choice, result in zip(batch, built, strict=True):
                if progress.default_s is not None and self._is_spent():
                    break
                if result.missing_dependency:
                    raise DependencyError(result.error or "a dependency of the build is missing")
                run = self._run(choice, result, runner)
                done.append(choice)
                known = progress.ok.get(frozen(choice))
                times.append(known[1] if run.status == "ok" and known else None)
        finally:
            if done and progress.default_s is not None:
                self._search.observe(done, times, progress.default_s)

    def _run(self, choice: Decisions, built: BuildResult, runner: Runner) -> RunResult:
        progress = self._progress
        if built.library is None:
            run = RunResult(status=built.status, reason=built.error)
        else:
            # A hung candidate must not eat much more than what is left of the budget.
            timeout_s = min(RUN_TIMEOUT_S, max(_LEAST_TIMEOUT_S, self._budget.left_s()))
            against = None
            if progress.default_library is not None:
                against = (progress.default_library, self._task.launch(self._task.space.default))
            run = runner.run(built.library, self._task.launch(choice), timeout_s, against)
        time_s = run.time_s
        if run.speedup is not None and progress.default_s is not None:
            time_s = progress.default_s / run.speedup  # as if measured when the default first was
        if time_s is not None:
            progress.ok[frozen(choice)] = (choice, time_s)
            if progress.first_candidate_s is None:
                progress.first_candidate_s = self._budget.elapsed_s()
            if choice == self._task.space.default:
                progress.default_s = time_s
        elif choice == self._task.space.default:
            progress.warnings.append(f"default schedule: {run.status}: {run.reason}")
        progress.statuses[run.status] += 1
        self._record(choice, run)
        best = min((seconds for _, seconds in progress.ok.values()), default=None)
        self._observer.trial(
            TrialEvent(
                progress.measured,
                choice,
                run.status,
                _ms(time_s),
                _ms(best),
                _ms(progress.default_s),
                run.reason,
            )
        )
        return run

    def _record(self, choice: Decisions, run: RunResult) -> None:
        progress = self._progress
        trace = self._trace(choice)
        try:
            record = Record(
                task=self._task.key.as_dict(),
                graph=self._task.graph_fields,
                decisions=choice,
                trace=trace,
                timings_s=run.timings_s,
                status=run.status,  # type: ignore[arg-type]
                reason=run.reason,
                environment=self._environment,
                seed=self._seed,
                trial=progress.reused + progress.measured - 1,
                default_s=statistics.median(run.against_s) if run.against_s else progress.default_s,
            )
            self._log.append(record)
        except RecordError as error:
            if not any("records are not kept" in warning for warning in progress.warnings):
                progress.warnings.append(f"records are not kept: {error}")

    def _trace(self, choice: Decisions) -> list[Any]:
        import_tvm()
        if self._static_module is None:
            self._static_module = self._task.static_module()
        return trace_json(self._static_module, self._task.space, choice)

    def _resume(self) -> None:
        """Take over what the log knows: this graph's trials as done, other graphs' as training data."""
        task, progress = self._task, self._progress
        try:
            known = self._log.for_task(task.key)
        except RecordError as error:
            progress.warnings.append(f"earlier records are not used: {error}")
            known = ReadResult([], [])
        if known.damaged:
            progress.warnings.append(f"{self._log.path}: {len(known.damaged)} damaged lines were skipped")
        own: dict[tuple[object, ...], Record] = {}
        others: list[Record] = []
        for record in known.records:
            if record.graph["exact"] != task.graph.signature.exact:
                others.append(record)
            elif self._fits(record):
                own[frozen(record.decisions)] = record
        known_default = own.get(frozen(task.space.default))
        default_s = _median_s(known_default) if known_default else None
        for record in own.values():
            time_s = _median_s(record)
            if time_s is not None and default_s is not None:
                # Relative to the default in the same rounds, as in `_run`.
                seconds = time_s * default_s / (record.default_s or default_s)
                progress.ok[frozen(record.decisions)] = (record.decisions, seconds)
        default = progress.ok.get(frozen(task.space.default))
        self._learn_from(others[-_MOST_PRIOR_RECORDS:])
        if default is None:
            own = {}  # without the default's time the others' times mean nothing: start over
            progress.ok.clear()
        else:
            progress.default_s = default[1]
            choices = [record.decisions for record in own.values()]
            times = [progress.ok[key][1] if key in progress.ok else None for key in own]
            self._search.observe(choices, times, progress.default_s)
        progress.reused = len(own)
        self._search.skip([task.space.default, *(record.decisions for record in own.values())])

    def _fits(self, record: Record) -> bool:
        space = self._task.space
        try:
            space.check(record.decisions)
        except ValueError:
            return False
        # True counts as 1 there, but is no number of parts.
        return all(type(record.decisions[each.name]) is type(each.values[0]) for each in space.decisions)

    def _learn_from(self, records: list[Record]) -> None:
        graphs: dict[str, list[tuple[Record, float]]] = {}
        featureless = 0
        for record in records:
            if not has_features(self._task, record.graph):
                featureless += 1
            elif record.default_s is not None and self._fits(record):
                graphs.setdefault(record.graph["exact"], []).append((record, record.default_s))
        if featureless:
            self._progress.warnings.append(
                f"{self._log.path}: {featureless} records of graphs without this version's features were skipped"
            )
        for of_graph in graphs.values():
            speedups = [
                None if (time_s := _median_s(record)) is None else default_s / time_s for record, default_s in of_graph
            ]
            self._model.add([record.decisions for record, _ in of_graph], speedups, of_graph[0][0].graph)
        if graphs:
            self._model.fit()
        elif self._model_file.is_file():  # a FIFO would be waited for
            self._model.load(self._model_file)

    def _compare(self, builder: Builder, runner: Runner) -> Final:
        """Re-measure the best few and the default in turn; the default wins unless it is beaten."""
        progress, task = self._progress, self._task
        default = task.space.default
        if progress.default_s is None:
            details = "; ".join(progress.warnings) or "interrupted before the default schedule was measured"
            raise TuneError(f"tune: no schedule could be measured ({details}). Nothing was stored.")
        finalists = [default, *(choice for choice in progress.best(FINALISTS) if choice != default)]
        built = builder.build([task.code_spec(choice) for choice in finalists])
        if built[0].library is None:
            reason = built[0].error or built[0].status
            if built[0].missing_dependency:
                raise DependencyError(reason)
            raise TuneError(f"tune: the default schedule cannot be built ({reason}). Nothing was stored.")
        self._observer.comparing(len(finalists))
        ready = [(c, b.library) for c, b in zip(finalists, built, strict=True) if b.library is not None]
        final = pick_winner(ready, task, runner)
        if isinstance(final, RunResult):
            raise TuneError(
                f"tune: the default schedule failed in the final comparison ({final.status}: {final.reason}). "
                "Nothing was stored."
            )
        return final

    def _publish(self, final: Final) -> str | None:
        task = self._task
        try:
            artifact = self._store.publish(
                task.key,
                task.graph.signature.exact,
                {KERNEL_FILE: final.library},
                graph=task.graph_fields,
                decisions=final.decisions,
                measured={"best_ms": final.best_ms, "default_ms": final.default_ms, "speedup": final.speedup},
                extra=self._origin(),
            )
        except ArtifactError as error:
            self._progress.warnings.append(f"the artifact is not kept: {error}")
            return None
        return str(artifact.path)

    def _publish_for_other_edge_order(self, final: Final, builder: Builder, runner: Runner) -> None:
        """Store the schedule for callers with the other edge order too, unless it was tuned for that one itself."""
        other = self._task.other_edge_order()
        if other is None:
            return
        kept = self._store.lookup(other.key, other.graph.signature.exact)
        if kept is not None and kept.extra.get("edge_order") == other.kernel_edge_order:
            return
        try:
            self._build_and_publish_for(other, final, builder, runner)
        except KeyboardInterrupt:
            self._progress.interrupted = True

    def _build_and_publish_for(self, other: Task, final: Final, builder: Builder, runner: Runner) -> None:
        (built,) = builder.build([other.code_spec(final.decisions)])
        launch = other.launch(final.decisions)
        if built.library is None:
            self._progress.warnings.append(f"not kept for the other edge order: {built.error}")
            return
        run = runner.run(built.library, launch, edge_order=other.kernel_edge_order)
        if run.time_s is None:
            self._progress.warnings.append(f"not kept for the other edge order: {run.status}: {run.reason}")
            return
        try:
            self._store.publish(
                other.key,
                other.graph.signature.exact,
                {KERNEL_FILE: built.library},
                graph=other.graph_fields,
                decisions=final.decisions,
                measured={"best_ms": run.time_s * 1e3},
                extra=self._origin(),
            )
        except ArtifactError as error:
            self._progress.warnings.append(f"the artifact for the other edge order is not kept: {error}")

    def _origin(self) -> dict[str, Any]:
        """What an artifact says of the run it comes from; its edge order is the one that was measured."""
        return {"environment": self._environment, "seed": self._seed, "edge_order": self._task.kernel_edge_order}

    def _save_model(self) -> None:
        try:
            self._model.save(self._model_file)
        except OSError as error:
            self._progress.warnings.append(f"the cost model is not kept: {error}")

    def _report(self, final: Final, artifact: str | None) -> TuneReport:
        task, progress = self._task, self._progress
        valid = progress.statuses["ok"]
        failures = {status: count for status, count in progress.statuses.items() if status != "ok"}
        return TuneReport(
            dataset=task.graph.name or "unnamed",
            op=task.op.name,
            feat=task.feat,
            dtype=task.dtype,
            target=task.target.kind,
            threads=task.target.threads,
            signature={"exact": task.graph.signature.exact, "bucket": task.graph.signature.bucket},
            trials={
                "measured": progress.measured,
                "valid": valid,
                "failed": progress.measured - valid,
                "failures": failures,
                "reused": progress.reused,
            },
            first_candidate_s=progress.first_candidate_s,
            tune_s=self._budget.elapsed_s(),
            default_ms=final.default_ms,
            best_ms=final.best_ms,
            speedup=final.speedup,
            decisions=final.decisions,
            artifact=artifact,
            cost_model=self._model.report(),
            records=str(self._log.path),
            seed=self._seed,
            interrupted=progress.interrupted,
            warnings=progress.warnings,
        )


def _median_s(record: Record) -> float | None:
    return statistics.median(record.timings_s) if record.timings_s else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
