#!/usr/bin/env python3
"""Compares what the advisor of the module ebbpool says on a stock server with servers that really run so.

    sudo postgres/rivals/advice.py DIRECTORY [--workloads tatp,zipf,tpcb] [--buffers 4096,8192] [--write docs/postgres.md]

Debian's unchanged server runs each workload of validate.py with the advisor, and answers for the clock sweep and ebb at several
sizes. Then it runs the same workload at half and twice the size, and with ebb, redirected. Printed are the reads, the writes and the
bill of each, in % of the first server, as the advisor says and as the other servers counted; what the advisor of the server with ebb
says of the clock sweep; and how much of the processor time of the first server the advisor took. DIRECTORY/advice.json stores
the results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

WINGS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(WINGS / place) for place in ("postgres", "capture/rivals", "capture/rivals/postgres", "tests")]

from documents import table, write_block
from servers import Server, built, open_to_all
from validate import ALWAYS, ASYMMETRY, QUIET, WORKLOADS, Session, Workload, run_benchmark

#: The runs with the advisor, at the size of the server.
ADVISED = ("advised", "ebb 1")
TICKS = os.sysconf("SC_CLK_TCK")
MODULE = ["shared_preload_libraries=ebbpool", f"ebbpool.asymmetry={ASYMMETRY}"]


def processor_ms(pid: int) -> float:
    """Of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * sum(map(int, fields[11:15])) / TICKS


def of_server(server: Server) -> float:
    """Processor time of all of its processes."""
    main = server.pid()
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return processor_ms(main) + sum(processor_ms(int(child)) for child in children)


def counted(session: Session) -> dict[str, int]:
    counters = session.counters() | session.background()
    return {"reads": counters["reads"], "writes": counters["backends"] + counters["cleaner"] + counters["checkpoints"]}


def measure(server: Server, workload: Workload, buffers: int, settings: list[str], advised: bool) -> dict:
    """One run from a cold buffer."""
    server.restore()
    server.start(f"shared_buffers={buffers}", *workload.options, *ALWAYS, *QUIET, *settings)
    if advised:
        server.query("create extension ebbpool", "bench")
    session = Session(server)
    before = counted(session)
    if advised:
        server.query("select ebbpool_advise_reset()", "bench")
        time.sleep(2)
    busy = of_server(server)
    before_ms = processor_ms(server.process("ebbpool advisor")) if advised else 0.0
    since = time.monotonic()
    run_benchmark(server, workload, workload.transactions)
    cell = {"seconds": round(time.monotonic() - since, 1)}
    if advised:
        advisor = server.process("ebbpool advisor")
        cell["advisor_ms"] = processor_ms(advisor) - before_ms
        cell["server_ms"] = of_server(server) - busy
    after = counted(session)
    cell |= {key: after[key] - before[key] for key in after}
    if advised:
        time.sleep(12)
        rows = server.query("select policy, shared_buffers, reads, writes, bill, change, model_reads, model_writes, filled from ebbpool_advice", "bench")
        cell["advice"] = [row.split("|") for row in rows.splitlines()]
        cell["advisor"] = server.query("select * from ebbpool_advisor", "bench").split("|")
        cell["table"] = server.client("psql", "-d", "bench", "-Xqc", "select * from ebbpool_advice", "-c", "\\x", "-c", "select * from ebbpool_advisor")
    session.close()
    server.stop()
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--workloads", default="tatp,zipf,tpcb")
    parser.add_argument("--buffers", default="4096,8192", help="pages, several with commas")
    parser.add_argument("--again", action="store_true", help="repeat the advised runs")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    known = {workload.name: workload for workload in WORKLOADS}
    directory = arguments.directory.resolve()
    open_to_all(directory)
    path = directory / "advice.json"
    cells = json.loads(path.read_text()) if path.exists() else {}
    pg_config = built("debian", directory)
    built("module", pg_config, directory / "for-debian")
    rows, shares = [], []
    for name in arguments.workloads.split(","):
        server = Server(directory / name, pg_config)
        for buffers in map(int, arguments.buffers.split(",")):
            redirect = [*MODULE, "ebbpool.attach=redirect"]
            runs = {
                "advised": (buffers, [*MODULE, "ebbpool.attach=none", "ebbpool.advise=on"]),
                "clock 1": (buffers, []),
                "clock 1/2": (buffers // 2, []),
                "clock 2": (buffers * 2, []),
                "ebb 1": (buffers, [*redirect, "ebbpool.advise=on"]),
                "ebb 1/2": (buffers // 2, redirect),
                "ebb 2": (buffers * 2, redirect),
            }
            for what, (size, settings) in runs.items():
                key = f"{name} {buffers} {what}"
                if key in cells and not (arguments.again and what == "advised"):
                    continue
                if not server.template.exists():
                    server.make(known[name])
                cells[key] = measure(server, known[name], size, settings, what in ADVISED)
                shown = cells[key] if what not in ADVISED else {k: v for k, v in cells[key].items() if k not in ("advice", "table")}
                print(key, json.dumps(shown), cells[key].get("table", ""), sep="\n", file=sys.stderr, flush=True)
                path.write_text(json.dumps(cells, indent=1))
            rows += compared(cells, name, buffers)
            shares.append(costs(cells, name, buffers))
    text = table(["workload", "buffers", "policy", "size", "reads", "counted", "writes", "counted", "bill", "counted"], rows)
    text += "\n\n" + table(["workload", "buffers", "clock by ebb", "model's reads", "model's writes", "advisor's share of processor time"], shares)
    print(text)
    if arguments.write:
        first = cells[f"{arguments.workloads.split(',')[0]} {arguments.buffers.split(',')[0]} advised"]["table"].split("\n\n")[0]
        sizes = "" if arguments.buffers == parser.get_default("buffers") else f" --buffers {arguments.buffers}"
        caption = f"{time.strftime('%Y-%m-%d')}, by `sudo postgres/rivals/advice.py DIRECTORY{sizes} --write docs/postgres.md`, R = {ASYMMETRY}: the change "
        caption += "of the bill as the advisor says, and as servers counted that ran so; the same for the clock sweep, by a server "
        caption += "with ebb; how far the advisor's own clock sweep is from the server; its share of the server's processor time. Bills differ by at most "
        pairs = [row[-2:] for row in rows] + [share[2].split(", ") for share in shares]
        caption += f"{max(abs(points(says) - points(counted)) for says, counted in pairs):.1f} points."
        write_block(arguments.write, "advice", f"```text\n{first}\n```\n\n{caption}\n\n{shortened(rows, shares)}")


def points(percent: str) -> float:
    return float(percent.removesuffix(" %"))


def shortened(rows: list[list[str]], shares: list[list[str]]) -> str:
    """A table for a page: bills only, one row for each server."""
    lines = []
    for share in shares:
        bills = [f"{row[-2].removesuffix(' %')}, {row[-1]}" for row in rows if row[:2] == share[:2]]
        lines.append([*share[:2], *bills, *share[2:]])
    header = [f"{policy} x {size}" for policy, size in map(str.split, OTHERS)]
    return table(["workload", "buffers", *header, "clock by ebb", "model's reads", "writes", "processor"], lines)


#: What runs beside the advised server, with the number of its row in the view.
OTHERS = {"clock 1/2": 2, "clock 2": 4, "ebb 1/2": 9, "ebb 1": 10, "ebb 2": 11}


def change(found: float, then: float) -> str:
    return f"{100 * (found / then - 1):+.1f} %"


def figures(cell: dict) -> list[float]:
    return [cell["reads"], cell["writes"], cell["reads"] + float(ASYMMETRY) * cell["writes"]]


def compared(cells: dict, name: str, buffers: int) -> list[list[str]]:
    """The rows of a table: changes against the server, as the advisor says and as servers counted."""
    advice, stock = cells[f"{name} {buffers} advised"]["advice"], figures(cells[f"{name} {buffers} clock 1"])
    rows = []
    for what, at in OTHERS.items():
        policy, size = what.split()
        if advice[at][0] != policy:
            sys.exit(f"the rows of ebbpool_advice are others: {advice}")
        real = figures(cells[f"{name} {buffers} {what}"])
        row = [name, f"{buffers:,}", policy, size]
        for i in range(3):
            row += [change(float(advice[at][2 + i]), float(advice[0][2 + i])), change(real[i], stock[i])]
        rows.append(row)
    return rows


def costs(cells: dict, name: str, buffers: int) -> list[str]:
    """How far the advisor's own clock sweep is from the server, and its share of the processor time."""
    advised = cells[f"{name} {buffers} advised"]
    model = advised["advice"][3]
    followed, stock = cells[f"{name} {buffers} ebb 1"], cells[f"{name} {buffers} clock 1"]
    says, of_server = (float(followed["advice"][row][4]) for row in (3, 0))
    clock = f"{change(says, of_server).removesuffix(' %')}, {change(figures(stock)[2], figures(followed)[2])}"
    reads, writes = change(float(model[6]), advised["reads"]), change(float(model[7]), advised["writes"])
    return [name, f"{buffers:,}", clock, reads, writes, f"{100 * advised['advisor_ms'] / advised['server_ms']:.2f} %"]


if __name__ == "__main__":
    main()
