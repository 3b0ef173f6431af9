"""The pool of workers: what it yields, on how many threads, and that all commands use it."""

import os
import re
import signal
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

import experiments
from experiments.pool import PoolError, WorkerLostError, as_finished
from experiments.shell import guarded, make_console

ROOM = Path(experiments.__file__).parent


def square(number: int) -> int:
    return number**2


def pid_of(_: int) -> int:
    return os.getpid()


def threads(_: int) -> list[int]:
    import scipy.linalg  # noqa: F401

    return [library["num_threads"] for library in threadpool_info()]


def fall(number: int) -> int:
    if number == 1:
        raise ZeroDivisionError("one")
    return number


def end_abruptly(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_gives_its_result_with_its_number(workers):
    assert dict(as_finished(square, [3, 1, 2], workers)) == {0: 9, 1: 1, 2: 4}
    assert list(as_finished(square, [], workers)) == []


def test_one_worker_is_this_process_and_two_are_others():
    assert {pid for _, pid in as_finished(pid_of, range(3), 1)} == {os.getpid()}
    assert os.getpid() not in {pid for _, pid in as_finished(pid_of, range(3), 2)}


def test_a_worker_has_one_thread():
    found = [counts for _, counts in as_finished(threads, range(2), 2)]
    assert [set(counts) for counts in found] == [{1}, {1}]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_job_raises_is_raised(workers):
    with pytest.raises(ZeroDivisionError, match="one"):
        list(as_finished(fall, range(3), workers))


def test_a_pool_is_whole_again_after_the_loss_of_a_worker():
    with pytest.raises(WorkerLostError, match=r"died \(SIGKILL\)"):
        list(as_finished(end_abruptly, range(3), 2))
    assert len(list(as_finished(square, range(3), 2))) == 3


def test_a_job_that_ends_the_workers_of_a_cluster_is_one_sentence():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, dashboard_address=None) as cluster,
    ):
        address = cluster.scheduler_address
        with pytest.raises(WorkerLostError, match=f"ended several workers of {address}"):
            list(as_finished(end_abruptly, [1], 1, address))


@pytest.mark.filterwarnings("error")
def test_results_that_nobody_wants_any_more_are_given_up_silently():
    results = as_finished(square, range(100), 2)
    assert next(results)[1] in range(0, 10_000)
    results.close()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (WorkerLostError("it died."), "it died. All is kept."),
        (PoolError("no worker."), "no worker."),
        (MemoryError("unable to allocate"), "there is not enough memory: unable to allocate."),
        (MemoryError(), "there is not enough memory: none is left."),
    ],
)
def test_a_loss_says_what_is_kept(error, sentence, capsys):
    def work():
        raise error

    assert guarded(work, make_console(), (), "All is kept.") == 2
    assert capsys.readouterr().out == f"Error: {sentence}\n"


def test_no_command_has_a_pool_of_its_own():
    pool = re.compile(r"(Parallel|ProcessPoolExecutor|parallel_config|Pool)\(")
    texts = {path: path.read_text(encoding="utf-8") for path in ROOM.rglob("*.py")}
    users = {path.relative_to(ROOM).as_posix() for path, text in texts.items() if pool.search(text)}
    # The fuzzer stops by the clock, and Ctrl-C within a property would look like its failure.
    assert users == {"pool.py", "fuzz/command.py"}
