#!/usr/bin/env python3
"""Makes sim/worlds/planetlab.json from a public matrix of round trips.

The matrix: https://github.com/uofa-rzhu3/NetLatency-Data (MIT licence), folder PlanetLab: 18 time slices of the
round-trip times between 490 PlanetLab nodes, in milliseconds, without places or names.

usage: planetlab-world.py FOLDER > sim/worlds/planetlab.json
"""
import json
import random
import statistics
import sys

SITES = 12


def median_matrix(folder):
    slices = []
    for t in range(1, 19):
        try:
            with open(f"{folder}/PlanetLabData_{t}") as file:
                slices.append([[float(x) for x in line.split()] for line in file if line.strip()])
        except FileNotFoundError:
            continue
    size = len(slices[0])
    both = lambda i, j: [v for s in slices for v in (s[i][j], s[j][i]) if v > 0]
    value = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            seen = both(i, j)
            value[i][j] = value[j][i] = statistics.median(seen) if seen else None
    return value


def main():
    value = median_matrix(sys.argv[1])
    size = len(value)
    known = lambda i: [v for j, v in enumerate(value[i]) if j != i and v is not None]
    usual = {i: statistics.median(known(i)) for i in range(size) if len(known(i)) > size * 0.8}
    # sites are well connected, and far from each other
    able = [i for i, _ in sorted(usual.items(), key=lambda it: it[1])[: int(len(usual) * 0.7)]]
    sites = [able[0]]
    while len(sites) < SITES:
        apart = lambda i: min(value[i][s] if value[i][s] is not None else 0 for s in sites)
        sites.append(max((i for i in able if i not in sites), key=apart))
    rng = random.Random(1)
    clients = [i for i in range(size) if i not in sites and all(value[i][s] is not None for s in sites)]
    rng.shuffle(clients)
    zipf = sum(1 / (n + 1) for n in range(len(clients)))
    prefixes = []
    for n, i in enumerate(clients):
        prefix = {
            # each in a /16 of its own: no one's neighbour says anything of another
            "prefix": f"{240 + n // 256}.{n % 256}.0.0/24",
            "lat": 0,
            "lon": 0,
            "rate": round(120 / zipf / (n + 1), 4),
            "rtt_ms": {f"node{s}": round(value[i][s], 1) for s in sites},
            "believed": {},
        }
        if rng.random() < 0.3:
            prefix["answers_probes"] = False
        prefixes.append(prefix)
    head = {
        "version": 1,
        "name": "PlanetLab, 12 of 490 nodes as sites",
        "model": {"swing": 0.05},
        "sites": [{"name": f"node{s}", "lat": 0, "lon": 0} for s in sites],
    }
    text = json.dumps(head, indent=2)[:-2]
    print(text + ',\n  "prefixes": [')
    print(",\n".join("    " + json.dumps(p, separators=(",", ":")) for p in prefixes))
    print("  ]\n}")


main()
