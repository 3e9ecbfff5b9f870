"""The heap: a queue gives out every key in order, and the k best are those of a sort, ties and all."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.structures.heap import best_first, offer, pop, push

keys_drawn = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf])


@given(st.lists(st.one_of(st.none(), keys_drawn), max_size=60))
def test_a_queue_gives_the_smallest_key_whatever_came_between(steps: list[float | None]) -> None:
    """None takes one out."""
    keys, entries, size = np.empty(len(steps)), np.empty(len(steps), np.int64), 0
    held: dict[int, float] = {}
    for number, key in enumerate([*steps, *[None] * len(steps)]):
        if key is not None:
            size, held[number] = push(keys, entries, size, key, number), key
        elif held:
            assert keys[0] == min(held.values()) == held.pop(int(entries[0]))
            size = pop(keys, entries, size)
        assert size == len(held)


@given(st.lists(keys_drawn, max_size=40), st.integers(1, 9))
def test_the_k_best_are_those_of_a_sort(scores: list[float], k: int) -> None:
    label = np.random.default_rng(len(scores)).permutation(len(scores))
    best, rows, size = np.empty(k), np.empty(k, np.int32), 0
    for row, score in enumerate(scores):
        size = offer(label, best, rows, size, score, row)
    best_first(label, best, rows, size)
    wanted = sorted(range(len(scores)), key=lambda row: (-scores[row], label[row]))[:k]
    assert rows[:size].tolist() == wanted
    assert best[:size].tolist() == [scores[row] for row in wanted]
