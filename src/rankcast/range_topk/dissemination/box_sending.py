"""Events change boards of boxes, and messages tell it: event by event, or the net change of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.box_lists import BoxListings, last_of
from rankcast.range_topk.corners import CornerIndex
from rankcast.range_topk.dissemination import post as corner_post
from rankcast.range_topk.dissemination.corner_merge import Post, empty_post
from rankcast.range_topk.dissemination.post import BETTER, GONE, Former, Mail, Pairs
from rankcast.range_topk.dissemination.slab_painting import FEW
from rankcast.range_topk.kernels import events as corner_events
from rankcast.range_topk.kernels.corner_next import Values
from rankcast.range_topk.kernels.corner_steps import Events, steps_of
from rankcast.range_topk.kernels.events import AFFECTED, EVENT, SEARCHES, SINCE, TOUCHED, TRIED, Log
from rankcast.range_topk.objects import grown


class Wish(NamedTuple):
    """What messages are wanted: how far an item may rank (-1: within k), one for each distinct box."""

    most: int = -1
    one_by_one: bool = False


class BoxSender:
    """Brings listings with one shelf at most through events, as their `play` does, and writes messages."""

    def __init__(self, listings: BoxListings) -> None:
        self._listings = listings
        self._now = 0  # the last moment, and the last message; which ones every slot has heard of last
        self._letters = 0
        self._heard: NDArray[np.int64] = np.empty(0, np.int64)
        self._mark: NDArray[np.int64] = np.empty(0, np.int64)

    def send(self, events: Events, wish: Wish) -> Post:
        """Apply events one by one; the messages that tell those affected."""
        objects, done = self._listings.objects, 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        shelf, post, values = self._shelf(), self._post(), Values(objects.value, objects.label)
        if shelf is None:
            objects.settle(*last_of(events))
            return post
        log, mail, tree = self._log(shelf, 1), self._mail(wish, shelf), shelf.tree
        while done < len(events.row):
            done, post = corner_post.play(tree, objects.index.tree, events, values, log, post, mail, done)
            if done < len(events.row):
                objects.index.reserve()
        self._letters = int(post.size[2])
        self._count(log)
        return post

    def send_net(self, events: Events, former: Former, wish: Wish) -> Post:
        """Apply events; the messages of their net change."""
        objects, post, last = self._listings.objects, self._post(), last_of(events)
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        shelf, values = self._shelf(), Values(objects.value, objects.label)
        if shelf is None:
            objects.settle(*last)
            return post
        tree, (steps, spells) = shelf.tree, steps_of(events, objects.index.tree, objects.value)
        log = self._log(shelf, len(spells.row))
        objects.hide(last.row)
        corner_events.tell(tree, objects.index.tree, steps, spells, values, log)
        log.tally[EVENT] += 2 * len(events.row)
        objects.settle(*last)
        most = 2 * tree.board.shape[1] * int(log.tally[TOUCHED])
        pairs = Pairs(*(np.empty(most, np.int32) for _ in Pairs._fields))
        size = int(corner_post.pair(tree, objects.index.tree, values, log, former, pairs))
        pairs = _in_sending_order(Pairs._make(column[:size] for column in pairs), values)
        mail = self._mail(wish, shelf)
        sent: Post = corner_post.send_pairs(tree, objects.index.tree, values, former, pairs, post, mail)
        self._letters = int(sent.size[2])
        self._count(log)
        return sent

    def _shelf(self) -> CornerIndex | None:
        return next(iter(self._listings.shelves.values()), None)

    def _post(self) -> Post:
        """No messages yet; they are numbered on over all calls."""
        post = empty_post(FEW, self._listings.width)
        post.size[2] = self._letters
        return post

    def _mail(self, wish: Wish, shelf: CornerIndex) -> Mail:
        if len(shelf.tree.row) > len(self._mark):
            self._mark = grown(self._mark, len(shelf.tree.row), -1)
        return Mail(self._mark, wish.most, wish.one_by_one)

    def _log(self, shelf: CornerIndex, spells: int) -> Log:
        """An empty log for a shelf."""
        tree = shelf.tree
        if len(tree.row) > len(self._heard):
            self._heard = grown(self._heard, len(tree.row), -1)
        log = Log(
            np.empty(len(shelf), np.int32),
            np.empty((len(shelf), tree.board.shape[1]), np.int32),
            self._heard,
            np.empty(len(tree.parent), np.int32),
            np.zeros(spells + 1, np.int32),
            np.zeros(6, np.int64),
        )
        log.tally[SINCE] = log.tally[EVENT] = self._now
        return log

    def _count(self, log: Log) -> None:
        """Add up what a log has counted."""
        self._now = int(log.tally[EVENT])
        self._listings.count(*(int(log.tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))


def _in_sending_order(pairs: Pairs, values: Values) -> Pairs:
    """What got worse or left first, then by value; an item that is gone from its place before all others."""
    value = np.where(pairs.kind == GONE, -np.inf, values.value[pairs.item])
    order = np.lexsort((pairs.kind, values.label[pairs.item], value, pairs.kind == BETTER))
    return Pairs._make(column[order] for column in pairs)
