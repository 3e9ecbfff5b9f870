"""Where an object would be in the skyline: its impact region, for explanations and pictures.

The impact region is the Voronoi cell of the object among all that are as good in every attribute [Moving
§3.2], here cut to a universe. Rivals are taken by their distance from the object: a bisector is half as far
away as its rival, so the first one beyond twice the farthest corner ends it.
"""

from __future__ import annotations

import numpy as np

from rankcast.moving.kernels.convex import box, clip, region_for
from rankcast.moving.kernels.region_parts import radius_of
from rankcast.moving.kernels.skyline_cells import bisector
from rankcast.tables.schema import Bools, Floats

NONE = np.empty((0, 2))


def impact_region(points: Floats, place: int, rivals: Bools, universe: Floats) -> Floats:
    """The corners (n, 2) of the impact region of one of the points (n, 2 + d), small attributes are good.

    `rivals` may compete; none is left if one of them is better at the same place. Cost: O(n), and a clip for
    each rival nearby.
    """
    here = points[place]
    as_good = rivals & (points[:, 2:] <= here[2:]).all(axis=1)
    as_good[place] = False
    spots = points[as_good, :2] - here[:2]
    away = np.hypot(*spots.T)
    together = as_good.nonzero()[0][away == 0.0]
    if (points[together, 2:] < here[2:]).any():
        return NONE
    one, two = (region_for(4 + len(spots), 1) for _ in range(2))
    corners = box(one, *(universe - np.tile(here[:2], 2)))
    for rival in np.argsort(away):
        radius = radius_of(one, corners)
        if not corners or away[rival] > 2 * radius:
            break
        if away[rival] > 0.0:
            nx, ny, c, _ = bisector(0.0, 0.0, *spots[rival], radius)
            corners = clip(one, 0, corners, (nx, ny, c, 0), two, 0)
            one, two = two, one
    found: Floats = np.column_stack([one.x[:corners], one.y[:corners]]) + here[:2]
    return found


def nearest_point(corners: Floats, place: Floats) -> Floats:
    """The point of a convex ring (n, 2), counter-clockwise, that is nearest to a place: itself if inside."""
    after = np.roll(corners, -1, axis=0)
    along, to = after - corners, place - corners
    if (along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0] >= 0).all():
        return place
    lengths = np.maximum((along * along).sum(axis=1), np.finfo(float).tiny)
    share = np.clip((to * along).sum(axis=1) / lengths, 0.0, 1.0)
    spots = corners + share[:, None] * along
    found: Floats = spots[np.argmin(np.hypot(*(spots - place).T))]
    return found
