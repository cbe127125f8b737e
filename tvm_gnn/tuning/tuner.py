"""One tuning run: propose, build, check and measure until the budget is spent, compare the best, keep the winner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..cache import ArtifactStore, RecordLog
from ..errors import ArtifactError, DependencyError, InputError, RecordError, TuneError
from ..templates.space import Decisions
from ..toolchain.environment import environment
from . import workload
from .budget import Budget
from .builder import Builder
from .cost_model import CostModel
from .finals import Final, pick_winner
from .history import read_history
from .publishing import Publisher
from .recording import Recorder
from .report import Observer, TuneReport
from .runner import Runner, RunResult
from .scratch import scratch_folder
from .search import EvolutionarySearch, Search, batch_size
from .shipped import model_file
from .task import Task
from .trials import Trials

FINALISTS = 4
# What the final comparison costs beside the finalists' own time: rounds of short blocks for each.
_FINALS_S_EACH = 0.15

SearchFactory = Callable[[Task, CostModel, int], Search]


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
        self._model = CostModel(task, seed)
        self._model_file = models / f"{task.key.digest}.trees"
        self._search = search(task, self._model, seed)
        self._warnings: list[str] = []
        self._interrupted = False
        machine, warn = environment(task.target), self._warnings.append
        self._trials = Trials(task, budget, Recorder(task, log, machine, seed, warn), observer, warn)
        self._publisher = Publisher(task, store, machine, seed, warn)

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
                self._observer.started(self._task, self._budget, self._trials.reused)
                self._search_until_spent(builder, runner)
                final = self._compare(builder, runner)
                artifact = self._publisher.publish(final)
                self._save_model()
                if artifact is not None:
                    self._publish_for_other_edge_order(final, builder, runner)
            finally:
                builder.close()
                if runner is not None:
                    runner.close()
        return self._report(final, None if artifact is None else str(artifact.path))

    def _check_places(self) -> None:
        # Before the budget is spent on what could not be kept.
        try:
            self._store.check_writable(self._task.key, self._task.graph.signature.exact)
            self._log.check_writable()
        except (ArtifactError, RecordError) as error:
            raise InputError(str(error)) from error

    def _resume(self) -> None:
        """Take over what the log knows: this graph's trials as done, other graphs' as training data."""
        history = read_history(self._log, self._task)
        self._warnings += history.warnings
        self._model.start_from(model_file(self._task))
        history.teach(self._model, self._model_file)
        self._trials.take_over(history)
        if history.default_s is not None:
            self._observe(history.trials, history.default_s)
        self._search.skip([self._task.space.default, *(choice for choice, _ in history.trials)])

    def _search_until_spent(self, builder: Builder, runner: Runner) -> None:
        trials, default = self._trials, self._task.space.default
        try:
            if trials.default_s is None:
                self._measure([default], builder, runner)
            if trials.default_s is None:
                return  # `_compare` says why
            (built,) = builder.build([self._task.code_spec(default)])
            if built.library is None:
                return  # nothing else will build either; `_compare` says why
            trials.default_library = built.library
            while not self._is_spent():
                count = min(batch_size(trials.finished), self._budget.trials_left(trials.finished))
                batch = self._search.propose(count)
                if not batch:
                    return
                self._measure(batch, builder, runner)
        except KeyboardInterrupt:
            self._interrupted = True

    def _is_spent(self) -> bool:
        trials = self._trials
        finals_s = (FINALISTS + 2) * (_FINALS_S_EACH + 20 * (trials.default_s or 0.0))
        return self._budget.trials_left(trials.finished) == 0 or self._budget.left_s() < finals_s

    def _measure(self, batch: list[Decisions], builder: Builder, runner: Runner) -> None:
        """Build a batch, run what was built until the budget is spent, teach the search."""
        trials = self._trials
        built = builder.build([self._task.code_spec(choice) for choice in batch])
        done: list[tuple[Decisions, float | None]] = []
        try:
            for choice, result in zip(batch, built, strict=True):
                if trials.default_s is not None and self._is_spent():
                    break
                if result.missing_dependency:
                    raise DependencyError(result.error or "a dependency of the build is missing")
                done.append((choice, trials.measure(choice, result, runner)))
        finally:
            if done and trials.default_s is not None:
                self._observe(done, trials.default_s)

    def _observe(self, trials: list[tuple[Decisions, float | None]], default_s: float) -> None:
        self._search.observe([choice for choice, _ in trials], [time_s for _, time_s in trials], default_s)

    def _compare(self, builder: Builder, runner: Runner) -> Final:
        """Re-measure the best few and the default in turn; the default wins unless it is beaten."""
        task, default = self._task, self._task.space.default
        if self._trials.default_s is None:
            details = "; ".join(self._warnings) or "interrupted before the default schedule was measured"
            raise TuneError(f"tune: no schedule could be measured ({details}). Nothing was stored.")
        finalists = [default, *(choice for choice in self._trials.best(FINALISTS) if choice != default)]
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

    def _publish_for_other_edge_order(self, final: Final, builder: Builder, runner: Runner) -> None:
        try:
            self._publisher.publish_for_other_edge_order(final, builder, runner)
        except KeyboardInterrupt:
            self._interrupted = True

    def _save_model(self) -> None:
        try:
            self._model.save(self._model_file)
        except OSError as error:
            self._warnings.append(f"the cost model is not kept: {error}")

    def _report(self, final: Final, artifact: str | None) -> TuneReport:
        task, trials = self._task, self._trials
        valid = trials.statuses["ok"]
        failures = {status: count for status, count in trials.statuses.items() if status != "ok"}
        return TuneReport(
            dataset=task.graph.name or "unnamed",
            op=task.op.name,
            feat=task.feat,
            dtype=task.dtype,
            target=task.target.kind,
            threads=task.target.threads,
            signature={"exact": task.graph.signature.exact, "bucket": task.graph.signature.bucket},
            trials={
                "measured": trials.measured,
                "valid": valid,
                "failed": trials.measured - valid,
                "failures": failures,
                "reused": trials.reused,
            },
            first_candidate_s=trials.first_candidate_s,
            tune_s=self._budget.elapsed_s(),
            default_ms=final.default_ms,
            best_ms=final.best_ms,
            speedup=final.speedup,
            decisions=final.decisions,
            artifact=artifact,
            cost_model=self._model.report(),
            records=str(self._log.path),
            seed=self._seed,
            interrupted=self._interrupted,
            warnings=self._warnings,
        )
