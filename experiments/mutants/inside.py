"""What runs inside a forked process: pytest, watched test by test.

Every event is written to a file as a line of JSON at once, so that what a process did before it
hung or crashed is known. A test that takes too long ends the process: an exception raised by an
alarm in the middle of compiled code could leave that in pieces.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TextIO, TypeAlias

import pytest
from hypothesis import Phase, settings

Hook: TypeAlias = Generator[None, Any, Any]
"""A hook that is wrapped around others."""
EXAMPLES = 6
PHASES = (Phase.explicit, Phase.generate)
MEMORY_BYTES = 8 << 30
"""A fault in a size must not take the machine down."""
LOST_S = 60.0
"""Time for a case whose own is not known, because the fault renamed it."""
TIMED_OUT = 90
"""Exit code of a process whose test took too long."""
ARGUMENTS = ("-q", "--tb=no", "-p", "no:cacheprovider")
# Scalars of numpy warn where compiled code does not: of overflow, and of what is not a number.
QUIET = "ignore::RuntimeWarning:.*kernels"


class Watch:
    """A pytest plugin that runs chosen tests in a given order, each for a limited time."""

    def __init__(
        self, events: TextIO, limits: dict[str, float] | None, skip: Sequence[str], limit: float
    ) -> None:
        self.events, self.limits, self.skip, self.limit = events, limits, set(skip), limit

    def say(self, **event: Any) -> None:
        """Write an event down."""
        self.events.write(json.dumps(event) + "\n")
        self.events.flush()

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let kernels warn."""
        config.addinivalue_line("filterwarnings", QUIET)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Hook:
        """Let properties be tried on few examples, and let no failure be made smaller."""
        few = settings(settings.get_profile("ci"), max_examples=EXAMPLES, phases=PHASES)
        settings.register_profile("mutants", few)
        settings.load_profile("mutants")
        return (yield)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is asked for; `limits` is also the order."""
        if self.limits is None:
            known = ((item, {item.nodeid, item.nodeid.partition("[")[0]}) for item in items)
            self.say(event="collected", tests=[item.nodeid for item in items])
            items[:] = [item for item, names in known if not names & self.skip]
            return
        self._rename({item.nodeid for item in items})
        order = {name: k for k, name in enumerate(self.limits)}
        items[:] = [item for item in items if self._asked(item.nodeid)]
        items.sort(key=lambda item: order[self._asked(item.nodeid)])

    def _rename(self, present: set[str]) -> None:
        """Ask for all cases of a test if one is gone: a fault may change how a case is called."""
        assert self.limits is not None
        for name in [name for name in self.limits if "[" in name and name not in present]:
            self.limits[name.partition("[")[0]] = LOST_S

    def _asked(self, test: str) -> str:
        """Return the name under which a test was asked for: its own, or that of its class."""
        names = (test, test.partition("[")[0], test.rpartition("::")[0])
        return next((name for name in names if name in (self.limits or {})), "")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Hook:
        """Time a test with its fixtures."""
        limit = self.limit if self.limits is None else self.limits[self._asked(item.nodeid)]
        self.say(test=item.nodeid, event="start")
        started = time.process_time()  # of this process alone: other work does not slow it down
        signal.signal(signal.SIGPROF, self._end)
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            seconds = time.process_time() - started
            self.say(test=item.nodeid, event="end", seconds=round(seconds, 4))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what did not pass."""
        if report.outcome != "passed":
            reason = str(report.longrepr)[-300:] if report.failed else ""
            self.say(test=report.nodeid, event=report.outcome, reason=reason)

    def _end(self, *_: object) -> None:
        os._exit(TIMED_OUT)


class CallTrace(Watch):
    """Notes, too, which functions each test enters, and which are entered to collect them."""

    def __init__(self, events: TextIO, skip: Sequence[str], limit: float, root: Path) -> None:
        super().__init__(events, None, skip, limit)
        self.root = f"{root}{os.sep}"
        self.entered: set[CodeType] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Hook:
        """Trace what is imported: that runs modules, bodies of classes, and what they call."""
        with self._tracing():
            result = yield from super().pytest_collection()
        self.say(event="collecting", functions=self._functions())
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Hook:
        """Trace a test while it is timed."""
        with self._tracing():
            result = yield from super().pytest_runtest_protocol(item)
        self.say(test=item.nodeid, event="entered", functions=self._functions())
        return result

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        self.entered.clear()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> None:
        self.entered.add(frame.f_code)

    def _functions(self) -> list[str]:
        return sorted({name for code in self.entered if (name := self._name(code))})

    def _name(self, code: CodeType) -> str:
        """Return `file:function` as mutants are named, or nothing for code from elsewhere."""
        file = code.co_filename.removeprefix(self.root)
        if file == code.co_filename or file.startswith(("tests/", "experiments/mutants/")):
            return ""
        parts = code.co_qualname.replace("<locals>.", "").split(".")
        name = ".".join(part for part in parts if not part.startswith("<"))
        return f"{file}:{name or '<module>'}"


def run_tests(job: Mapping[str, Any], root: Path) -> int:
    """Run pytest as a job says, in this process; return its exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
        os.dup2(nothing.fileno(), sys.stderr.fileno())
    with open(job["events"], "w", encoding="utf-8") as events:
        if job["limits"] is None:
            plugin: Watch = CallTrace(events, job["skip"], job["limit"], root)
            return int(pytest.main([*ARGUMENTS, *job["files"]], plugins=[plugin]))
        sys.dont_write_bytecode = bool(job["limits"])  # of a fault
        plugin = Watch(events, job["limits"], (), 0.0)
        return int(pytest.main([*ARGUMENTS, "-x", *job["files"]], plugins=[plugin]))
