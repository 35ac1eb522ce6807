"""All two-way marginals of a graphical model at once, for AIM.

mbi eliminates variables anew for every pair of columns that no clique of its model holds,
which is nearly all of AIM's time on a wide table. Here the junction tree is calibrated once,
and each column a is carried through it: with S the columns that clique C shares with the one
before it, and T those that it shares with the next,

    P(a, T) = sum_S P(a, S) P(T | S),   P(a, b) = sum_S P(a, S) P(b | S)  for b in C.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

if TYPE_CHECKING:
    import networkx as nx

Array = NDArray[np.float64]
Clique = tuple[str, ...]


def two_way_marginals(model: Any) -> dict[Clique, Array]:
    """Marginals of all columns and pairs of columns of an mbi model, flat, in its order."""
    from mbi.junction_tree import make_junction_tree

    names = list(model.domain)
    tree = make_junction_tree(model.domain, model.potentials.cliques)[0]
    beliefs = _beliefs(model, tree)
    found = {}
    for name in names:
        home = min((clique for clique in tree if name in clique), key=len)
        found[(name,)] = _onto(beliefs[home], home, (name,))
        found |= _carried(name, home, tree, beliefs)
    total = float(model.total)
    marginals = {(name,): total * found[(name,)] for name in names}
    for one, other in itertools.combinations(names, 2):
        apart = np.outer(found[(one,)], found[(other,)])
        marginals[one, other] = total * found.get((one, other), apart).ravel()
    return marginals


def _beliefs(model: Any, tree: nx.Graph) -> dict[Clique, Array]:
    """Probabilities of every clique of the junction tree."""
    from mbi.junction_tree import message_passing_order

    expanded = model.potentials.expand(list(tree))
    logs = {clique: np.asarray(expanded[clique].values, dtype=np.float64) for clique in tree}
    messages: dict[tuple[Clique, Clique], Array] = {}
    for one, other in message_passing_order(tree):
        log = logs[one]
        if (other, one) in messages:
            log = log - _spread(messages[other, one], other, one)
        axes = tuple(i for i, name in enumerate(one) if name not in other)
        messages[one, other] = logsumexp(log, axis=axes)
        logs[other] = logs[other] + _spread(messages[one, other], one, other)
    return {clique: np.exp(log - logsumexp(log)) for clique, log in logs.items()}


def _spread(message: Array, one: Clique, other: Clique) -> Array:
    """A message, in the order of `one`, with the axes of `other`."""
    shared = [name for name in one if name in other]
    order = [shared.index(name) for name in other if name in shared]
    sizes = iter(message.transpose(order).shape)
    return message.transpose(order).reshape([next(sizes) if n in shared else 1 for n in other])


def _onto(belief: Array, clique: Clique, wanted: Clique) -> Array:
    """Sum of a clique's table over all columns but those `wanted`, in that order."""
    axes = tuple(i for i, name in enumerate(clique) if name not in wanted)
    left = [name for name in clique if name in wanted]
    return belief.sum(axis=axes).transpose([left.index(name) for name in wanted])


def _carried(
    name: str, home: Clique, tree: nx.Graph, beliefs: dict[Clique, Array]
) -> dict[Clique, Array]:
    """P(name, b) for all columns b that `home` is connected with."""
    found = {(name, b): _onto(beliefs[home], home, (name, b)) for b in home if b != name}
    stack = []
    for clique in tree.neighbors(home):
        shared = _shared(home, clique)
        if name in shared:
            stack.append((home, clique, None))
        else:
            joint = _onto(beliefs[home], home, (name, *shared))
            stack.append((home, clique, joint.reshape(len(joint), -1)))
    while stack:
        before, clique, joint = stack.pop()
        belief = beliefs[clique]
        shared = _shared(before, clique)
        for b in clique:
            if b != name and (name, b) not in found:
                found[name, b] = _next(name, joint, belief, clique, shared, (b,))
        for after in tree.neighbors(clique):
            if after == before:
                continue
            wanted = _shared(clique, after)
            if name in wanted:
                stack.append((clique, after, None))
            else:
                stack.append((clique, after, _next(name, joint, belief, clique, shared, wanted)))
    return found


def _shared(one: Clique, other: Clique) -> Clique:
    return tuple(name for name in one if name in other)


def _next(
    name: str, joint: Array | None, belief: Array, clique: Clique, shared: Clique, wanted: Clique
) -> Array:
    """P(name, wanted), (size of name, cells of wanted), from P(name, shared) and a clique."""
    if joint is None:
        table = _onto(belief, clique, (name, *wanted))
        return table.reshape(len(table), -1)
    kept = tuple(n for n in wanted if n in shared)
    summed = tuple(n for n in shared if n not in wanted)
    new = tuple(n for n in wanted if n not in shared)
    table = _onto(belief, clique, (*kept, *summed, *new))
    cells = [int(np.prod(table.shape[a:b])) for a, b in _cuts(len(kept), len(summed), len(new))]
    given = table.reshape(cells)
    before = given.sum(axis=2, keepdims=True)
    given = np.divide(given, before, out=np.zeros_like(given), where=before > 0)
    sizes = dict(zip(clique, belief.shape, strict=True))
    left = joint.reshape(-1, *(sizes[n] for n in shared))
    order = [0, *(1 + shared.index(n) for n in (*kept, *summed))]
    left = left.transpose(order).reshape(len(joint), cells[0], cells[1])
    out = np.matmul(left.transpose(1, 0, 2), given).transpose(1, 0, 2)
    out = out.reshape(len(joint), *(sizes[n] for n in (*kept, *new)))
    back = [0, *(1 + (*kept, *new).index(n) for n in wanted)]
    return out.transpose(back).reshape(len(joint), -1)


def _cuts(*lengths: int) -> list[tuple[int, int]]:
    ends = list(itertools.accumulate(lengths))
    return [(end - length, end) for end, length in zip(ends, lengths, strict=True)]
