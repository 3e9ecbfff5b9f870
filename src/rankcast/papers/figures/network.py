"""Broker networks of the range top-k paper: what methods cost on the way to subscribers, and at the end.

The networks are those of `rankcast.papers.network`. Every run ends with a comparison of all subscribers'
lists, which they kept by the messages that reached them, with an engine of their own. Each repetition of a
case plays another draw of objects, subscriptions and updates; all methods play the same ones, and counters
are over all draws together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from rankcast import RangeTopK
from rankcast.bench.runner import Answers, Contender, Figure, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, range_topk
from rankcast.papers.figures.range_topk import (
    KS,
    REDUNDANCY,
    RELAX,
    TRACE,
    TRACE_REDUNDANCY,
    TRACE_RELAX,
    trace,
)
from rankcast.papers.network import topology
from rankcast.papers.network.diagonal import Diagonal, Walks
from rankcast.papers.network.routing import Routed, Routing
from rankcast.papers.network.simulation import MOST_RELAXED, Simulation, Stage
from rankcast.papers.network.topology import Topology, Workload
from rankcast.papers.network.traffic import Outcome, method, pooled, with_needed

Draw = Callable[[], Workload]

played = partial(case, unit="event", runs=1)


def uniform(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Draw uniform objects and subscriptions, and uniform steps of y: those in the middle of a longer run.

    Steps drive values apart, so fewer are affected as a run goes on; the paper's figures are means over one.
    """
    run, count = parameters["run"], parameters["events"]
    objects = range_topk.objects(parameters["objects"], rng)
    subscriptions = range_topk.subscriptions(parameters["subscriptions"], rng)
    events = range_topk.uniform_events(objects, run, rng)
    begin = (run - count) // 2
    objects["y"][events["id"][:begin]] = events["y"][:begin]
    middle = {name: column[begin : begin + count] for name, column in events.items()}
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
        outcomes = self.outcomes.setdefault(name, [])
        outcomes.append(simulation.play(stage, method(name)))
        return outcomes

    def figures(self, name: str) -> dict[str, float]:
        """The figures of a method over all draws; what an exact one of the others needed is known."""
        whole = {each: pooled(outcomes) for each, outcomes in self.outcomes.items()}
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
    playing, paper_values = Playing(graph, draw, parameters["k"], rng), paper or {}

    def contender(name: str) -> Contender:
        return Contender(
            name,
            run=lambda drawn: playing.play(name, drawn),
            prepare=lambda: playing.turn(name),
            counters=lambda _, __: playing.figures(name),
            work=min(parameters["events"], MOST_RELAXED) if name == "relax" else None,
            runs=parameters["draws"] - 1 if "draws" in parameters else None,
            paper=paper_values.get(name, {}),
        )

    def agrees(answers: Answers) -> bool:
        return all(each.exact_lists for outcomes in answers.values() for each in outcomes)

    return Trial(work=parameters["events"], contenders=[contender(name) for name in names], agrees=agrees)


SMALL: Grid = {
    "nodes": [400],
    "brokers": [50],
    "objects": [1_000],
    "subscriptions": [20_000],
    "run": [5_000],
    "events": [200],
}
FULL: Grid = {
    "nodes": [20_000],
    "brokers": [1_000],
    "objects": [10_000],
    "subscriptions": [2_000_000],
    "run": [50_000],
    "events": [1_000],
}
GROUND: Grid = {"nodes": [20_000], "brokers": [1_000]}
METHODS = ("unicast", "unicast-direct", "relax", "dense", "sparse", "sparse(0.5)", "sparse(1)")
TRAFFIC = [
    Figure(title, "k", y, log_y=True)
    for title, y in (
        ("(a): bytes between brokers an event", "overlay_bytes"),
        ("(b): bytes over IP links an event", "ip_bytes"),
    )
]


@played(
    "network.figure-14",
    small={**SMALL, "k": [1, 10]},
    full={**FULL, "events": [500], "k": KS},
    seed=81,
    reproduces="[Range Fig. 14]",
    figures=TRAFFIC,
)
def figure_14(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count bytes between brokers and over IP links an event, by method, over k: two draws."""
    return trial(parameters, lambda: uniform(parameters, rng), METHODS, rng)


@played(
    "network.figure-17",
    small={"nodes": [400], "brokers": [50], **TRACE, "events": [200], "k": [10]},
    full={**GROUND, **TRACE, "events": [1_000], "k": KS},
    seed=82,
    reproduces="[Range Fig. 17; Table V]",
    figures=TRAFFIC,
)
def figure_17(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count traffic and redundancy on real P/E changes (../shared/data, nothing to run without it)."""
    count, k = parameters["events"], parameters["k"]

    def draw() -> Workload:
        drawn = trace(parameters, rng)
        events = {name: column[:count] for name, column in drawn.events.items()}
        return Workload(drawn.objects, ranges_of(drawn.subscriptions), events)

    names = ("unicast", "unicast-direct", "relax", "dense", "sparse", "sparse(1)")
    paper = {"sparse(1)": {"redundancy": TRACE_REDUNDANCY[k]}, "relax": {"redundancy": TRACE_RELAX[k]}}
    return trial(parameters, draw, names, rng, paper=paper)


@case(
    "network.table-2",
    small={**SMALL, "k": [5], "draws": [2]},
    full={**FULL, "events": [12_500], "k": KS, "draws": [6]},
    seed=83,
    unit="event",
    runs=5,
    reproduces="[Range Table II]",
)
def table_2(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count what subscribers receive for nothing, as a share of what they must, on a network."""
    k, paper = parameters["k"], {}
    if parameters["subscriptions"] == FULL["subscriptions"][0]:
        rows = {"sparse(0.5)": REDUNDANCY[0.5], "sparse(1)": REDUNDANCY[1.0], "relax": RELAX}
        paper = {name: {"redundancy": row[k]} for name, row in rows.items()}
    names = ("sparse", "sparse(0.5)", "sparse(1)", "relax")
    return trial(parameters, lambda: uniform(parameters, rng), names, rng, ground="power-law", paper=paper)


@played(
    "network.simulator",
    small={**SMALL, "k": [10]},
    full={**FULL, "k": [10]},
    seed=84,
)
def simulator(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Time the simulator itself: zones, subscribing, all methods and the check, one after the other."""
    work = uniform(parameters, rng)
    graph = topology.make("internet", parameters["nodes"], parameters["brokers"], rng)
    chosen = [method(name) for name in (*METHODS, "sparse-unmerged", "sparse*50")]

    def run(_: None) -> list[Outcome]:
        simulation = Simulation(work, graph, rng=np.random.default_rng(1))
        return simulation.run(parameters["k"], chosen)

    return Trial(
        work=parameters["events"],
        contenders=[Contender("all methods", run, counters=lambda _, outcomes: {"methods": len(outcomes)})],
        agrees=lambda answers: all(each.exact_lists for each in answers["all methods"]),
    )


@played(
    "network.merging",
    small={**SMALL, "brokers": [20, 200], "subscriptions": [50, 20_000], "k": [10]},
    full={**FULL, "brokers": [100, 1_000, 4_000], "subscriptions": [100, 2_000_000], "k": [10]},
    seed=85,
    figures=[
        Figure(title, "brokers", y, series=("subscriptions",), log_x=True, log_y=True)
        for title, y in (
            ("bytes between brokers an event, merged and not", "overlay_bytes"),
            ("zones touched a message", "zones_a_message"),
            ("messages sent an event", "messages"),
        )
    ],
)
def merging(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Weigh fewer, larger tiles against more, smaller ones, over the number of zones.

    Merging pays where zones are full; with far more zones than subscriptions it costs.
    """
    names = ("dense", "sparse-unmerged", "sparse", "sparse(0.5)", "sparse(1)")
    return trial(parameters, lambda: uniform(parameters, rng), names, rng, ground="power-law")


@case(
    "network.covering",
    small={
        "nodes": [200],
        "brokers": [20],
        "objects": [300],
        "subscriptions": [2_000],
        "run": [1_500],
        "events": [200],
    },
    full={
        "nodes": [2_000],
        "brokers": [100],
        "objects": [1_000],
        "subscriptions": [2_000, 10_000, 50_000],
        "run": [5_000],
        "events": [500],
    },
    seed=86,
    unit="subscription",
    runs=1,
    reproduces="[Covering §I]",
    figures=[Figure("entries a routing table", "subscriptions", "table_entries", log_y=True)],
)
def covering(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count what covering saves in a tree of routers: messages, table entries; event traffic is the same."""
    work = uniform(parameters, rng)
    graph = topology.make("power-law", parameters["nodes"], parameters["brokers"], rng)
    routing = Routing(work, graph, rng=rng)

    def contender(name: str, *, covers: bool) -> Contender:
        return Contender(
            name, lambda _: routing.run(10, covering=covers), counters=lambda _, routed: routed.figures
        )

    def agrees(answers: Answers) -> bool:
        routed: list[Routed] = list(answers.values())
        return all(each.exact_lists and not each.missed for each in routed)

    return Trial(
        work=parameters["subscriptions"],
        contenders=[contender("covering", covers=True), contender("no covering", covers=False)],
        agrees=agrees,
    )


@played(
    "network.figure-20",
    small={"objects": [2_000], "servers": [20], "events": [500], "k": [1, 10]},
    full={"objects": [100_000], "servers": [100], "events": [20_000], "k": KS},
    seed=87,
    reproduces="[Range Fig. 20]",
    figures=[
        Figure("20: servers traversed a firstk", "k", "firstk_steps"),
        Figure("20: servers traversed a miny", "k", "miny_steps"),
    ],
)
def figure_20(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count the neighbours that a question along the diagonal walks to."""
    objects = range_topk.objects(parameters["objects"], rng)
    events = range_topk.uniform_events(objects, parameters["events"], rng)
    k, servers = parameters["k"], parameters["servers"]

    def counters(_: Diagonal, walks: Walks) -> dict[str, float]:
        questions = {"firstk": int(walks.firstk.sum()), "miny": int(walks.miny.sum())}
        return {
            **{name: count / parameters["events"] for name, count in questions.items()},
            "firstk_steps": int(walks.firstk_steps.sum()) / questions["firstk"],
            "miny_steps": int(walks.miny_steps.sum()) / max(1, questions["miny"]),
            "expected_if_even": 2 * k * servers / parameters["objects"],
        }

    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "servers",
                lambda diagonal: diagonal.follow(events["id"], events["y"], k),
                lambda: Diagonal(objects["x"], objects["y"], servers),
                counters=counters,
            )
        ],
        agrees=lambda answers: same_questions(objects, events, k, answers["servers"]),
    )


def same_questions(objects: Columns, events: Columns, k: int, walks: Walks) -> bool:
    """Whether servers together asked as often as one server that holds everything."""
    one = RangeTopK(k=k)
    one.publish(objects)
    before = one.stats()
    one.disseminate(events, method="dense")
    questions = {name: one.stats()[name] - before[name] for name in ("firstk", "miny")}
    return questions == {"firstk": int(walks.firstk.sum()), "miny": int(walks.miny.sum())}
