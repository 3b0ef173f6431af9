"""Control tasks: clone an expert's behaviour, then let the clone act in the environment.

Behaviour is recorded with a tenth of the actions random, so that the states from which one has
to recover occur too; the label is always the expert's action. Class `k` is action `k` of the
environment. Acrobot therefore has three classes although its expert never takes action 1 (no
torque): the network is not told in advance which actions the expert avoids.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np

from experiments.tasks.task import (
    Environment,
    FloatArray,
    IntArray,
    Policy,
    Split,
    Task,
    TaskError,
    normalised_split,
)

TRAIN_SAMPLES, VALID_SAMPLES, TEST_SAMPLES = 10_000, 2_000, 2_000
RANDOM_ACTIONS = 0.1
"""Fraction of random actions while the expert is recorded."""

EPISODES_AT_ONCE = 4
EPISODES_PER_SEED = 1_000_000
FIRST_EVALUATION = 500_000
"""Episode number from which on a seed's episodes are for evaluation, never for data."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Observations, the expert's actions, and the number of the episode of each sample."""

    observations: FloatArray
    actions: IntArray
    episodes: IntArray


@dataclass(frozen=True, eq=False)
class Episode:
    """One complete episode: what was observed before each step, and the sum of rewards."""

    observations: FloatArray
    total: float


def push_towards_balance(observations: FloatArray) -> IntArray:
    """Push the cart to the right when position, speed, angle and its rate lean that way."""
    lean: FloatArray = observations @ np.array([0.1, 0.5, 3.0, 1.0])
    return (lean > 0).astype(np.int64)


def pump_energy(observations: FloatArray) -> IntArray:
    """Torque Acrobot's joint in the direction in which its second link already turns."""
    return np.where(observations[:, 5] > 0, 2, 0).astype(np.int64)


def play(environment: Environment, act: Policy, reset_seeds: list[int]) -> list[Episode]:
    """Play one episode for each reset seed, all in step: `act` is called once per time step."""
    gymnasium = _import_gymnasium()
    games = [gymnasium.make(environment.gym_id, disable_env_checker=True) for _ in reset_seeds]
    current = np.stack([game.reset(seed=s)[0] for game, s in zip(games, reset_seeds, strict=True)])
    seen: list[list[FloatArray]] = [[] for _ in games]
    totals = np.zeros(len(games))
    running = np.arange(len(games))
    while running.size:
        actions = _checked_actions(act(current[running]), len(running), environment)
        ended = np.zeros(len(running), dtype=bool)
        for k, (i, action) in enumerate(zip(running, actions, strict=True)):
            seen[i].append(current[i].copy())
            current[i], reward, terminated, truncated, _ = games[i].step(int(action))
            totals[i] += reward
            ended[k] = terminated or truncated
        running = running[~ended]
    for game in games:
        game.close()
    return [Episode(np.stack(rows), float(total)) for rows, total in zip(seen, totals, strict=True)]


def record(environment: Environment, samples: int, seed: int, first_episode: int) -> Recording:
    """Record whole episodes in turn until there are enough samples; drop what is over."""
    observations: list[FloatArray] = []
    episodes: list[IntArray] = []
    number, missing = first_episode, samples
    while missing > 0:
        reset_seeds = _reset_seeds(seed, number, EPISODES_AT_ONCE)
        noisy = _with_random_actions(environment, np.random.default_rng(reset_seeds))
        for episode in play(environment, noisy, reset_seeds):
            observations.append(episode.observations)
            episodes.append(np.full(len(episode.observations), number))
            missing -= len(episode.observations)
            number += 1
    x = np.concatenate(observations)[:samples]
    return Recording(x, environment.expert(x), np.concatenate(episodes)[:samples])


def record_parts(environment: Environment, seed: int) -> tuple[Recording, Recording, Recording]:
    """Record training, validation and test one after the other: they share no episode."""
    train = record(environment, TRAIN_SAMPLES, seed, 0)
    valid = record(environment, VALID_SAMPLES, seed, int(train.episodes[-1]) + 1)
    test = record(environment, TEST_SAMPLES, seed, int(valid.episodes[-1]) + 1)
    return train, valid, test


def load_behaviour(environment: Environment, seed: int) -> Split:
    """Return recorded behaviour, normalised feature by feature."""
    recordings = record_parts(environment, seed)
    train, valid, test = ((part.observations, part.actions) for part in recordings)
    episodes = "/".join(str(len(np.unique(part.episodes))) for part in recordings)
    return normalised_split(
        train,
        valid,
        test,
        per_feature=True,
        description=f"expert in {environment.gym_id}, {episodes} episodes with "
        f"{RANDOM_ACTIONS:.0%} random actions",
    )


def policy_return(task: Task, policy: Policy, episodes: int = 20, seed: int = 0) -> FloatArray:
    """Return the sum of rewards of each episode that `policy` plays, `(episodes,)`.

    The same seed starts every policy from the same states, and from none that is in the data.
    """
    if episodes < 1:
        raise TaskError(f"A return needs at least 1 episode, not {episodes}.")
    reset_seeds = _reset_seeds(seed, FIRST_EVALUATION, episodes)
    played = play(_environment(task), policy, reset_seeds)
    return np.array([episode.total for episode in played])


def cloned_policy(split: Split, predict: Callable[[FloatArray], IntArray]) -> Policy:
    """Turn a classifier of normalised inputs into a policy on raw observations."""
    return lambda observations: predict(split.normalise(observations))


def expert_policy(task: Task) -> Policy:
    """Return the policy that the task imitates."""
    return _environment(task).expert


def random_policy(task: Task, seed: int = 0) -> Policy:
    """Return a policy of uniformly random actions; it draws on with every call."""
    actions, rng = _environment(task).actions, np.random.default_rng(seed)
    return lambda observations: rng.integers(actions, size=len(observations))


def _with_random_actions(environment: Environment, rng: np.random.Generator) -> Policy:
    def act(observations: FloatArray) -> IntArray:
        strays = rng.random(len(observations)) < RANDOM_ACTIONS
        random_actions = rng.integers(environment.actions, size=len(observations))
        return np.where(strays, random_actions, environment.expert(observations))

    return act


def _reset_seeds(seed: int, first_episode: int, episodes: int) -> list[int]:
    """Seeds that no other episode shares, be it of another part or of another seed."""
    start = seed * EPISODES_PER_SEED + first_episode
    return list(range(start, start + episodes))


def _environment(task: Task) -> Environment:
    if task.environment is None:
        raise TaskError(f"Task {task.name!r} has no environment in which a policy could act.")
    return task.environment


def _checked_actions(actions: IntArray, count: int, environment: Environment) -> IntArray:
    actions = np.asarray(actions)
    if actions.shape != (count,) or actions.dtype.kind not in "iu":
        raise TaskError(
            f"The policy answered {count} observations with {actions.dtype} of shape "
            f"{actions.shape}, expected integers of shape ({count},)."
        )
    if actions.min() < 0 or actions.max() >= environment.actions:
        wrong = actions[(actions < 0) | (actions >= environment.actions)][0]
        raise TaskError(
            f"The policy chose action {wrong}; {environment.gym_id} has {environment.actions}."
        )
    return actions


def _import_gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ImportError:
        raise TaskError(
            'The control tasks need gymnasium: pip install "settle[control]".'
        ) from None
    return gymnasium


def _control_task(name: str, title: str, inputs: int, environment: Environment) -> Task:
    load = partial(load_behaviour, environment)
    return Task(name, title, inputs, environment.actions, load, environment)


CARTPOLE = _control_task(
    "cartpole", "CartPole-BC", 4, Environment("CartPole-v1", 2, push_towards_balance)
)
ACROBOT = _control_task("acrobot", "Acrobot-BC", 6, Environment("Acrobot-v1", 3, pump_energy))
