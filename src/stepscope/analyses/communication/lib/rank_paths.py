"""Through which other rank the clock of each rank is compared with that of the reference."""

import heapq
from collections import defaultdict
from collections.abc import Mapping

__all__ = ["paths"]


def paths(circles: Mapping[tuple[int, ...], float], reference: int) -> dict[int, int]:
    """The rank before each rank that can be reached, in an order in which every rank comes after the one before it.

    `circles` are sets of ranks that took part in the same collectives, with the uncertainty of one comparison among
    them. A rank that shares a circle with the reference is compared directly, any other along the path whose
    uncertainties add up to least (Dijkstra's).
    """
    of_rank: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for circle in circles:
        for rank in circle:
            of_rank[rank].append(circle)
    before: dict[int, int] = {}
    queue = [(0.0, reference, reference)]
    seen: set[tuple[int, ...]] = set()
    while queue:
        cost, rank, parent = heapq.heappop(queue)
        if rank in before or (rank == reference and seen):
            continue
        if rank != reference:
            before[rank] = parent
        for circle in of_rank[rank]:
            if circle in seen:
                continue  # its first rank to be reached is the cheapest way into it
            seen.add(circle)
            step = 0.0 if rank == reference else circles[circle]  # nothing undercuts a direct comparison
            for other in circle:
                heapq.heappush(queue, (cost + step, other, rank))
    return before
