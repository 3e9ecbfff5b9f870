"""What the cases of broker networks share: draws of workloads on networks, and methods that play them.

Each repetition of a case plays another draw of objects, subscriptions and updates; all methods play the same
ones, and counters are over all draws together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rankcast.bench.case import Answers, Contender, Parameters, Trial
from rankcast.bench.workloads import Columns, range_topk
from rankcast.papers.network import topology
from rankcast.papers.network.simulation import MOST_RELAXED, Simulation, Stage
from rankcast.papers.network.topology import Topology, Workload
from rankcast.papers.network.traffic import Outcome, method, pooled, with_needed

Draw = Callable[[], Workload]


def uniform(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Draw uniform objects and subscriptions, and uniform steps of y: those in the middle of a longer run.

    Steps drive values apart, so fewer are affected as a run goes on; the paper's figures are means over one.
    """
    run, played = parameters["run"], parameters["events"]
    objects = range_topk.objects(parameters["objects"], rng)
    subscriptions = range_topk.subscriptions(parameters["subscriptions"], rng)
    events = range_topk.uniform_events(objects, run, rng)
    begin = (run - played) // 2
    objects["y"][events["id"][:begin]] = events["y"][:begin]
    middle = {name: column[begin : begin + played] for name, column in events.items()}
    return Workload(objects, ranges_of(subscriptions), middle)


def ranges_of(subscriptions: Columns) -> Columns:
    """The ends of subscriptions, whose ids are their places."""
    return {name: column for name, column in subscriptions.items() if name != "id"}


class Playing:
    """Simulations on one ground, one for each draw; the last one is kept for all methods to play."""

    def __init__(self, ground: Topology, draw: Draw, k: int, rng: np.random.Generator) -> None:
        self._ground, self._draw, self._k, self._rng = ground, draw, k, rng
        self._made = 0
        self._last: tuple[Simulation, Stage] | None = None
        self.outcomes: dict[str, list[Outcome]] = {}

    def turn(self, name: str) -> tuple[Simulation, Stage]:
        """The simulation that a method plays next: its n-th is that of everybody's n-th."""
        if self._last is None or len(self.outcomes.setdefault(name, [])) == self._made:
            self._last = None
            simulation = Simulation(self._draw(), self._ground, rng=self._rng)
            self._last, self._made = (simulation, simulation.stage(self._k)), self._made + 1
        return self._last

    def play(self, name: str, drawn: tuple[Simulation, Stage]) -> list[Outcome]:
        """Let a method play a draw; all that it has played."""
        simulation, stage = drawn
        told = self.outcomes.setdefault(name, [])
        told.append(simulation.play(stage, method(name)))
        return told

    def figures(self, name: str) -> dict[str, float]:
        """The figures of a method over all draws; what an exact one of the others needed is known."""
        whole = {each: pooled(told) for each, told in self.outcomes.items()}
        with_needed(list(whole.values()))
        figures = whole[name].figures()
        return {**figures, "zones_a_message": figures["zones_touched"] / max(1e-9, figures["messages"])}


def trial(
    parameters: Parameters,
    draw: Draw,
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    ground: str = "internet",
    paper: Mapping[str, Mapping[str, float]] | None = None,
) -> Trial:
    """Let methods play the same draws on one network and count; the first draw warms, and counts too."""
    graph = topology.make(ground, parameters["nodes"], parameters["brokers"], rng)
    playing, told = Playing(graph, draw, parameters["k"], rng), paper or {}

    def contender(name: str) -> Contender:
        return Contender(
            name,
            run=lambda drawn: playing.play(name, drawn),
            prepare=lambda: playing.turn(name),
            counters=lambda _, __: playing.figures(name),
            work=min(parameters["events"], MOST_RELAXED) if name == "relax" else None,
            runs=parameters["draws"] - 1 if "draws" in parameters else None,
            paper=told.get(name, {}),
        )

    def agrees(answers: Answers) -> bool:
        return all(each.exact_lists for outcomes in answers.values() for each in outcomes)

    return Trial(work=parameters["events"], contenders=[contender(name) for name in names], agrees=agrees)
