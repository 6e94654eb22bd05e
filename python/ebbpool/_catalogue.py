"""The policies, devices and generators to choose from."""

from __future__ import annotations

import json
import os

from . import _ebbpool
from ._table import Row, Table, table_of


def policies() -> Table:
    """All policies: name, what they do, how, when they win and lose, source, whether they are online, and whether costs
    change their choices.

    >>> "ebb" in policies().to_dict()["policy"]
    True
    """
    text = _ebbpool.policies_json()
    columns = ["policy", "summary", "how", "when", "source", "online", "looks_at_costs"]
    return table_of(json.loads(text), columns, text)


def policy(name: str) -> Row:
    """One policy with its parameters, of which each has name, value, default, what it does, and the values it takes.

    >>> policy("cfdc:cluster=16").policy
    'cfdc:cluster=16'
    """
    return Row(json.loads(_ebbpool.policy_json(name)))


def devices() -> Table:
    """The named devices and their asymmetries.

    >>> "flash-136" in devices().to_dict()["device"]
    True
    """
    text = _ebbpool.device_json()
    found = json.loads(text)
    rows = [
        {
            "device": one["name"],
            "asymmetry": one["policy_asymmetry"],
            **{f"asymmetry_{kind}": value for kind, value in one["asymmetries"].items()},
            "asymmetry_in_cache": one["asymmetry_in_cache"],
            "asymmetry_after_cache": one["asymmetry_after_cache"],
        }
        for one in found
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return table_of(rows, columns, text)


def device(name: str | os.PathLike[str]) -> Row:
    """One device, by its name or by the path of a profile, with all figures and their sources.

    >>> round(device("flash-136").policy_asymmetry)
    136
    """
    return Row(json.loads(_ebbpool.device_json(os.fspath(name))))


def generators() -> Table:
    """The generators of traces and their parameters, a row for each parameter.

    >>> "zipf" in generators().to_dict()["generator"]
    True
    """
    text = _ebbpool.generators_json()
    rows = [
        {"generator": one["generator"], "summary": one["summary"], "parameter": parameter["name"], **parameter}
        for one in json.loads(text)
        for parameter in one["parameters"]
    ]
    return table_of(rows, ["generator", "summary", "parameter", "default", "about", "values"], text)
