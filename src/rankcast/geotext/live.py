"""Live results of `GeoTextTopK`: what happens to results when messages and subscriptions come and go.

`LiveResults` keeps three structures in step with the window and the subscriptions: posting lists of
subscriptions by term (which of them may a message enter?), a buffer for each subscription (its k best
messages and some that may follow), and posting lists of messages by term (which are the best for a
subscription that is new, or whose buffer has run short?). `RowColumns` has what
they need to know of a row.

A batch of messages is processed in four steps: expired messages leave the buffers; arrivals are listed;
arrivals are offered to the subscriptions whose bounds they pass; buffers that hold fewer than k, or may have
missed a message, are refilled by a search. Each step logs what enters and leaves results, and the answer is
the net change. (A message that is too late for the window never gets here: see `rankcast.geotext.window`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.geotext.brute_force import GeoTextState
from rankcast.geotext.buffers import ResultBuffers, empty_log, longer_log
from rankcast.geotext.copies import Shown
from rankcast.geotext.horizon import Horizon
from rankcast.geotext.indexes import LiveSettings, SubscriptionIndex, indexes
from rankcast.geotext.kernels import results
from rankcast.geotext.kernels.message_search import SearchResults
from rankcast.geotext.kernels.pair_scores import CHUNK, undecayed_scores
from rankcast.geotext.kernels.score import Scratch
from rankcast.geotext.kernels.skyband import log_lists, short_lists
from rankcast.geotext.places import former_unit
from rankcast.geotext.postings import (
    MessagePostings,
    RowColumns,
    outdated,
)
from rankcast.geotext.vector_index import VectorMessages, VectorReaders
from rankcast.geotext.vocabulary import Replaced
from rankcast.structures import integrity
from rankcast.structures.topk_lists import ENTER, LEAVE
from rankcast.tables.deltas import Changes, Lists, no_changes
from rankcast.tables.schema import Bools, Floats, Ints, Rows

SEARCH_BATCH = 4096  # subscriptions searched for at a time
MESSAGE_BATCH = 1024  # messages disseminated at a time, unless they have too many candidates
MAX_K = 2**28  # a larger k of a subscription counts as this
LOG_ROOM = 1 << 14  # lines that are kept room for from one batch to the next
FOLLOWS = 64  # times in a window's turnover that buffers follow what searches cost
SHORT_MOVE = 0.02  # of the extent of the bounds: a shorter move starts the search from the buffer
NO_ROWS = np.empty(0, np.int32)
NO_CHANGES = no_changes()
COUNTED = ("cells_pruned", "groups_pruned", "candidates", "verified")  # in the order of the counters
CHANGE_KINDS = (np.int32, np.int8, np.int32, np.float64, np.int64, np.float64)


def _empty_changes(size: int) -> tuple[Any, ...]:
    """Columns for so many changes."""
    return tuple([np.empty(size, kind) for kind in CHANGE_KINDS])


class LiveResults:
    """Current results of all subscriptions; the engine reports what arrives, changes and leaves.

    - Subscriptions: `enter`, `unlist`, `amended`, `leave`.
    - Messages: `publish`, `rescale`.
    - Reading: `lists`, `threshold`, `held_by`, `buffered`, `list_bytes`.
    - Snapshots: `state`, `restore`, `complete`, `check_restored`.
    """

    def __init__(self, state: GeoTextState, settings: LiveSettings, counters: dict[str, int]) -> None:
        self._state, self._settings, self._prune = state, settings, settings.prune
        self.method, self._counters, self._frame = settings.method, counters, state.frame
        self._postings, self._messages = indexes(state, settings)
        self._buffers = ResultBuffers(settings.refill, settings.limits, plain=state.sources is not None)
        self._columns = RowColumns(state)
        self._horizon = Horizon()
        self._missing: list[str] = []  # posting lists that a restored snapshot does not have
        # Not part of the state: none means anything between calls.
        self._scratch = Scratch(np.zeros(0), np.zeros(0, np.int32))
        self._unsure = np.zeros(0, np.bool_)  # by subscription: its buffer may have missed a message
        self._log, self._lines = empty_log(0, state.decays), 0
        self._terms = -1  # as many terms the arrays by term have room for

    # Subscriptions

    def enter(self, rows: Rows, alpha: Floats, k: Ints) -> None:
        """Subscriptions have been added to the slots: search their first results and list them."""
        self._make_rows()
        self._columns.alpha[rows], self._columns.k[rows] = alpha, np.minimum(k, MAX_K)
        self._search(rows)
        self._list(rows)

    def unlist(self, rows: Rows) -> None:
        """Make postings void of subscriptions that are about to change or leave. Cost: O(1) a term."""
        self._postings.drop(rows, self._state.interests.texts, self._columns.stamp)

    def amended(
        self, rows: Rows, alpha: Floats, k: Ints, moved: Floats, terms: Replaced | None, *, limited: bool
    ) -> None:
        """Update results of subscriptions that have changed in the slots (maybe their terms), and list them.

        A subscription that only wants fewer messages has them in its buffer. After a short move, or for a
        larger k, a search starts from the buffer, which gives it a high threshold at once; after a long move
        the messages of the buffer would be of little use. `limited`: their limits may have changed.
        """
        columns, searched, seeded, k = self._columns, rows, None, np.minimum(k, MAX_K)
        same = np.ones(rows.size, np.bool_) if terms is None else terms.same
        if limited:
            same = np.zeros(rows.size, np.bool_)
        if np.count_nonzero(same):
            same = same & (alpha == columns.alpha[rows])
            served = same & (moved == 0) & (k <= columns.k[rows])
            self._buffers.trim(rows[served], k[served])
            searched, seeded = rows[~served], (same & (moved < SHORT_MOVE))[~served]
        columns.alpha[rows], columns.k[rows] = alpha, k
        self._search(searched, seeded)
        self._list(rows)

    def reweighed(self) -> None:
        """All weights of terms have changed: list and search everything anew."""
        state, self._terms = self._state, -1
        self._postings, self._messages = indexes(state, self._settings)
        shown, live = state.window.rows().copy(), state.subscriptions.live()
        if state.copies is not None:
            shown = shown[state.copies.shows(shown)]
        self._messages.add(shown, state.texts.texts, self._idf(), self._columns.places())
        self._search(live, np.full(live.size, not state.interests.limits.radius.size))
        self._list(live)

    def leave(self, rows: Rows) -> None:
        """Subscriptions are about to leave. Cost: O(1) a term."""
        self.unlist(rows)
        self._buffers.forget(rows)

    def lists(self, rows: Rows) -> Lists:
        """The current results of subscriptions, in that order."""
        lists = self._buffers.lists(rows, self._columns.k)
        if not self._state.decays:
            return lists
        return lists._replace(score=self._undecayed(lists.subscription, lists.item, lists.score))

    def rescale(self, factor: float) -> None:
        """Multiply all gains by a factor; 0 if all messages are about to leave."""
        self._buffers.rescale(factor)
        self._horizon.rescale(factor)

    def threshold(self, row: int) -> float:
        """The score below which a message is not a candidate for a subscription."""
        return float(self._buffers.held.threshold[row])

    def held_by(self, row: int) -> tuple[Rows, Floats]:
        """All messages in the buffer of a subscription, best first, and their scores."""
        return self._buffers.held_by(row)

    def list_bytes(self) -> int:
        """Bytes of the posting lists of subscriptions."""
        return sum(array.nbytes for array in self._postings.lists)

    def buffered(self) -> int:
        """How many messages all buffers hold together."""
        return self._buffers.buffered()

    # Messages

    def publish(
        self, leaving: Rows, taken: Rows, write: Callable[[], Rows], times: Ints, shown: Shown | None = None
    ) -> Changes:
        """Process a batch; returns the net change of every result.

        Messages of rows `leaving` expire, those `taken` leave before their time; then `write` puts the
        arrivals, of these times, into the slots and returns their rows. Only what is `shown` is in any list.
        """
        if shown is not None and self._state.copies is not None:
            leaving, taken = (rows[self._state.copies.shows(rows)] for rows in (leaving, taken))
            taken = np.concatenate([taken, shown.hidden])
        self._lines, newest = 0, self._state.window.newest()
        if taken.size or self._state.sources is not None:
            self._make_rows()  # which lists are unsure is not part of a state
        if leaving.size:
            self._expire(leaving, early=False)
        if taken.size:
            self._expire(taken, early=True)
        expired = self._lines
        rows = write()
        self._columns.follow()
        if shown is None:
            overtaken = self._arrive(rows, times, newest)
        else:
            rows, overtaken = self._arrive_shown(rows, times, newest, shown)
        if self._state.decays:
            self._advance_horizon()
        changes, doubtful = self._disseminate(rows, overtaken, expired)
        if doubtful.size:
            self._refill(expired, doubtful)
            expired = 0
        if changes is None:
            changes = self._net_changes(expired)
        if self._buffers.refill == results.COST:
            costs, window, used = self._buffers.costs, len(self._state.window), self._state.subscriptions.used
            costs.gone, costs.entries = costs.gone + leaving.size + taken.size, self._messages.lists.row.size
            if costs.gone and costs.gone * min(used, FOLLOWS) >= window:
                self._buffers.follow(window, self._columns.k, used)
        return changes

    def _arrive(self, rows: Rows, times: Ints, newest: int) -> Bools:
        """Record the times of arrivals and list them; tells which of them a newer one overtook."""
        self._make_rows()
        idf, columns, slots, overtaken = (
            self._idf(),
            self._columns,
            self._state.messages,
            np.empty(rows.size, np.bool_),
        )
        texts, ages = tuple(self._state.texts.texts), tuple(columns.ages)
        self._messages.arrive(
            ages, rows, times, columns.arrivals, newest, overtaken, texts, idf, slots["x"], slots["y"]
        )
        columns.arrivals += rows.size
        return overtaken

    def _arrive_shown(self, rows: Rows, times: Ints, newest: int, shown: Shown) -> tuple[Rows, Bools]:
        """The same where some arrivals are not shown, and some messages are that came before: as late ones.

        Returns the rows that are shown, too. All keep the place that they came at.
        """
        self._make_rows()
        columns, again, came = self._columns, shown.again, self._columns.arrivals
        ages = columns.ages
        former = ages.arrival[again]
        listed = np.concatenate([rows[shown.first], again])
        overtaken = self._arrive(listed, np.concatenate([times[shown.first], ages.time[again]]), newest)
        overtaken[shown.first.size :] = True
        ages.time[rows], ages.arrival[rows] = times, came + np.arange(rows.size)
        ages.arrival[again], columns.arrivals = former, came + rows.size
        return listed, overtaken

    def _net_changes(self, expired: int) -> Changes:
        """The net change of what is logged; refills first what the first lines, of expiry, left short."""
        columns, held, size = self._columns, tuple(self._buffers.held), self._lines
        if not size:
            return NO_CHANGES
        told = _empty_changes(size)
        count = results.net_changes(
            tuple(self._log), size, expired, columns.k, self._unsure, self._state.subscriptions["sequence"],
            held, tuple(columns.ages), told,
        )  # fmt: skip
        if count == results.SHORT:
            self._refill(expired, NO_ROWS)
            return self._net_changes(0)
        return self._told(told, count)

    def _told(self, told: tuple[Any, ...], count: int) -> Changes:
        """The first net changes of those that were written; ends a batch."""
        if self._log.owner.size > LOG_ROOM:
            self._log = empty_log(0, self._state.decays)
        return Changes._make([column[:count] for column in told]) if count else NO_CHANGES

    def _expire(self, leaving: Rows, *, early: bool) -> None:
        """Take messages out of all buffers and posting lists."""
        columns, buffers, messages = self._columns, self._buffers, self._messages
        texts, lines, fits = tuple(self._state.texts.texts), -1, True
        while lines < 0:
            held, links, log = tuple(buffers.held), tuple(buffers.links), tuple(self._log)
            lines, fits = results.expire(
                held, links, leaving, columns.k, tuple(columns.ages), log, self._lines, texts,
                messages.lists.dead, early, buffers.refill, self._unsure,
            )  # fmt: skip
            if lines < 0:
                self._make_lines(-1 - lines)
        self._logged(lines)
        messages.forget(leaving)
        if not fits:
            messages.renew(leaving, columns.ages.stamp)

    def _disseminate(self, rows: Rows, overtaken: Bools, expired: int) -> tuple[Changes | None, Rows]:
        """Offer arrivals to the subscriptions whose bounds they pass, as many at a time as candidates fit.

        Returns the net changes, unless a buffer must be refilled first, and whose may have missed a message.
        """
        start, step, counters, changes = 0, MESSAGE_BATCH, np.zeros(4, np.int64), None
        unsure: list[Rows] = []
        columns, buffers, idf, count = self._columns, self._buffers, self._idf(), rows.size
        while start < count:
            part, behind = rows[start : start + step], overtaken[start : start + step]
            hits = self._postings.disseminate(
                columns.subscriptions(buffers.held.threshold), columns.messages(part), idf, self._scratch,
                self._prune, counters, columns.listed,
            )  # fmt: skip
            if hits is None:
                step = (part.size + 1) // 2
                continue
            start += part.size
            size = hits.score.size
            if not size:
                continue
            self._make_lines(2 * size)
            links = buffers.links
            if links.owner.shape[0] - links.free[1] < size // CHUNK + part.size:
                buffers.reserve_links(size, part.size)
            tells = start >= count and not unsure and not self._state.decays
            marked = doubtful, moved = np.empty(size, np.int32), np.empty(size, np.int32)
            told = _empty_changes(self._lines + 2 * size if tells else 0)
            lines, doubts, moves, number = results.take(
                tuple(buffers.held), tuple(buffers.links), tuple(hits), part, behind, columns.k,
                buffers.refill, tuple(columns.ages), self._unsure, columns.listed, self._horizon.gain,
                tuple(self._log), self._lines, marked, tells, expired,
                self._state.subscriptions["sequence"], told,
            )  # fmt: skip
            self._logged(lines)
            if number != results.SHORT:
                changes = self._told(told, number)
            if doubts:
                unsure.append(doubtful[:doubts])
            if moves:
                self._update(moved[:moves])
        for name, counted in zip(COUNTED, counters.tolist(), strict=True):
            self._counters[name] += counted
        return changes, np.concatenate(unsure) if unsure else NO_ROWS

    def _refill(self, expired: int, doubtful: Rows) -> None:
        """Refill buffers that hold fewer than k or may have missed a message [Geo Alg 2].

        They are those of the first lines of the log, where messages expired, and the doubtful ones.
        """
        columns, buffers = self._columns, self._buffers
        short = short_lists(buffers.held, self._log, expired, doubtful, columns.k, self._unsure)
        if not short.size:
            return
        self._log_lists(short, LEAVE)
        self._search(short)
        self._log_lists(short, ENTER)
        self._counters["reevaluations"] += short.size
        self._buffers.costs.filled(short.size)
        now, listed = buffers.held.threshold[short] / self._horizon.gain, columns.listed[short]
        moved = short[(now < listed) | (now > listed + results.RELIST_RISE)]
        if moved.size:
            self._relist(moved)

    def _log_lists(self, rows: Rows, op: int) -> None:
        """Log that the results of subscriptions come or go as a whole."""
        held, k = self._buffers.held, self._columns.k
        self._make_lines(int(np.minimum(held.size[rows], k[rows]).sum()))
        self._logged(log_lists(held, rows, op, k, self._columns.ages, self._log, self._lines))

    def _make_lines(self, more: int) -> None:
        """Make room for so many lines more in the log."""
        if self._lines + more > self._log.owner.size:
            self._log = longer_log(self._log, self._lines, more, self._state.decays)

    def _logged(self, lines: int) -> None:
        """The log has so many lines now, whose messages are all in the slots; adds the scores to report."""
        if self._state.decays:
            new = slice(self._lines, lines)
            log = self._log
            log.undecayed[new] = self._undecayed(log.owner[new], log.item[new], log.score[new])
        self._lines = lines

    def _undecayed(self, rows: Rows, items: Rows, scores: Floats) -> Floats:
        """The scores without decay, at the messages' own times; `scores` if scores do not decay."""
        if not self._state.decays:
            return scores
        columns = self._columns
        subscriptions = columns.subscriptions(self._buffers.held.threshold)
        found: Floats = undecayed_scores(rows, items, subscriptions, columns.messages(NO_ROWS), self._frame)
        return found

    # Buffers and posting lists

    def _make_rows(self) -> None:
        """Grow all arrays by row to the rows of the slots."""
        subscriptions, messages = self._state.subscriptions.used, self._state.messages.used
        buffers = self._buffers
        self._columns.make_rows(subscriptions, messages)
        if subscriptions > buffers.held.begin.size or messages > buffers.links.head.size:
            buffers.make_rows(subscriptions, messages)
        if self._unsure.size < self._columns.stamp.size:
            self._unsure = np.zeros(self._columns.stamp.size, np.bool_)

    def _idf(self) -> Floats:
        """The idf of every term; grows the arrays by term to as many."""
        idf: Floats = self._state.terms.slots["idf"]
        if idf.size == self._terms:
            return idf
        self._terms = idf.size
        self._postings.know(idf.size)
        self._messages.know(idf.size)
        if self._scratch.weight.size < idf.size:
            self._scratch = Scratch(np.zeros(idf.size), np.zeros(idf.size, np.int32))
        return idf

    def _search(self, rows: Rows, seeded: Bools | None = None) -> None:
        """Refill buffers from the messages of the window; where `seeded`, starting from what they hold."""
        if not rows.size:
            return
        if seeded is not None and not np.count_nonzero(seeded):
            seeded = None
        columns, window, idf, start = self._columns, len(self._state.window), self._idf(), 0
        messages = columns.messages(np.zeros(0, np.int32))
        subscriptions = columns.subscriptions(self._buffers.held.threshold)
        self._buffers.costs.entries = self._messages.lists.row.size
        while start < rows.size:
            part = rows[start : start + SEARCH_BATCH]
            keep = self._buffers.keeps(part, columns.k[part])
            wanted = self._buffers.wanted(keep, columns.k[part], window)
            part = part[: max(1, 64 * SEARCH_BATCH // int(wanted.max()))]
            keep, wanted = keep[: part.size], wanted[: part.size]
            shape = (part.size, int(wanted.max()))
            found = SearchResults(
                np.empty(shape, np.int32), np.empty(shape), *(np.zeros(part.size, t) for t in ("i4", "i8"))
            )
            if seeded is not None:
                self._buffers.seed(part, seeded[start : start + part.size], wanted, found)
            self._messages.search(
                part, wanted, subscriptions, messages, columns.ages, idf, self._scratch, found
            )
            self._buffers.fill(part, wanted, found, keep, columns.k[part], columns.ages)
            start += part.size

    def _list(self, rows: Rows) -> None:
        """Add postings of subscriptions that have none, with their current thresholds."""
        self._columns.listed[rows] = self._buffers.held.threshold[rows] / self._horizon.gain
        texts = self._state.interests.texts
        self._postings.add(rows, texts, self._idf(), self._columns.listed_columns(rows))

    def _relist(self, rows: Rows) -> None:
        """Replace postings of subscriptions by ones with their current thresholds."""
        self._columns.listed[rows] = self._buffers.held.threshold[rows] / self._horizon.gain
        self._update(rows)

    def _update(self, rows: Rows) -> None:
        """Replace postings of subscriptions by ones with the thresholds in `listed`."""
        texts = self._state.interests.texts
        self._postings.update(rows, texts, self._idf(), self._columns.listed_columns(rows))

    def _advance_horizon(self) -> None:
        """Where scores decay, list those anew whom the largest gain is about to reach; see `Horizon`."""
        top, slots, horizon = self._columns.top(), self._state.subscriptions, self._horizon
        for due in (horizon.overtaken, horizon.next):
            place = due(top, slots.used)
            rows = np.arange(place.start, place.stop, dtype=np.int32)
            rows = rows[slots["sequence"][rows] >= 0]
            rows = rows[self._buffers.held.threshold[rows] / horizon.gain < self._columns.listed[rows]]
            if rows.size:
                self._relist(rows)

    # Snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The header and arrays of all structures, under their names."""
        header, arrays = self._columns.state()
        header |= {**self._horizon.state(spread=self._state.decays), "unit": self._frame.unit}
        for name, part in self._structures().items():
            header[name], mine = part.state()
            arrays |= {f"{name}_{array}": values for array, values in mine.items()}
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        self._terms = -1
        self._horizon.restore(header, self._state.subscriptions.used)
        self._columns.restore(header, arrays)
        known = (*self._structures(), *self._columns.state()[1])
        odd = [name for name in arrays if not name.startswith(known)]
        integrity.need(not odd, odd[0] if odd else "", "is not known")
        moved = header.get("unit", former_unit(self._frame)) != self._frame.unit
        for name, part in self._structures().items():
            prefix = f"{name}_"
            held = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
            older = moved if name != "buffers" else False  # places were once embedded in the whole globe
            if older or (name == "readers" and outdated(held)) or (name == "messages" and name not in header):
                self._missing.append(name)  # of an older version: `complete` makes them
            else:
                part.restore(header[name], held)
        return self

    def complete(self) -> None:
        """Make the posting lists that a snapshot of an older version does not have, and links."""
        self._buffers.complete()
        if "messages" in self._missing:
            rows, texts = self._state.window.rows(), self._state.texts.texts  # before there were copies
            self._messages.add(rows, texts, self._idf(), self._columns.places())
        if "readers" in self._missing:
            self._list(self._state.subscriptions.live())
        self._missing.clear()
        if isinstance(self._postings, VectorReaders) and isinstance(self._messages, VectorMessages):
            rows, shown = self._state.subscriptions._live(), self._state.messages._live()
            if self._state.copies is not None:
                shown = shown[self._state.copies.shows(shown)]
            self._postings.again(rows, self._columns.listed_columns(rows))
            self._messages.again(shown)

    def check_restored(self) -> None:
        """Refuse structures from a snapshot that do not fit the rows of the slots; see `integrity`."""
        state, columns = self._state, self._columns
        columns.check_restored(state.subscriptions._live(), state.messages._live(), MAX_K)
        subscriptions, messages = (
            slots["sequence"][: slots.used] >= 0 for slots in (state.subscriptions, state.messages)
        )
        self._buffers.check_restored(subscriptions, messages, columns.k)
        if "readers" not in self._missing:
            self._postings.check_restored(state.interests.texts, columns.stamp, subscriptions)
        if state.copies is not None:
            live = np.flatnonzero(messages).astype(np.int32)
            messages[live] = state.copies.shows(live)
        if "messages" not in self._missing:
            self._messages.check_restored(state.texts.texts, columns.ages.stamp, messages)

    def _structures(self) -> dict[str, SubscriptionIndex | MessagePostings | ResultBuffers]:
        """The structures by the prefixes of their arrays in a snapshot."""
        return {"readers": self._postings, "messages": self._messages, "buffers": self._buffers}
