#!/usr/bin/env python3
"""Asks Knot, NSD, BIND and PowerDNS about random zones and writes their replies, one JSON object a line, for
differential.rs.

usage: differential.py ZONES SEED OUTPUT
knotd, nsd, named and pdns_server (with its bind backend) must be installed; all traffic is on 127.0.0.1.
"""
import json, os, random, shutil, socket, struct, subprocess, sys, tempfile, time

LABELS = ["a", "b", "c", "*", "a", "b"]
TYPES = ["A", "AAAA", "TXT", "MX", "SRV", "NS", "CNAME", "DNAME", "DS"]


def name_in(rng, origin, most=3):
    depth = rng.choice([0, 1, 1, 1, 2, 2, 3][: most + 4])
    labels = [rng.choice(LABELS) for _ in range(depth)]
    return ".".join(labels + [origin])


def target(rng, origin, zones):
    kind = rng.random()
    if kind < 0.72:
        return name_in(rng, origin)
    if kind < 0.80:
        return name_in(rng, rng.choice(zones))
    return rng.choice(["ns.out.example.", "a.out.example.", "*.out.example."])


def zone(rng, origin, zones):
    """Record lines by owner and type; what all servers would refuse is left out."""
    sets = {(origin, "SOA"): [f"ns.out.example. host.out.example. {rng.randrange(1, 9)} 7200 3600 86400 {rng.choice([60, 900, 7200])}"]}
    sets[(origin, "NS")] = [target(rng, origin, zones) for _ in range(rng.choice([1, 1, 2]))]
    for _ in range(rng.randrange(2, 12)):
        owner = name_in(rng, origin)
        rtype = rng.choices(TYPES, [6, 3, 3, 2, 1, 5, 4, 3, 1])[0]
        at_owner = {t for o, t in sets if o == owner}
        if at_owner & {"CNAME"} or (rtype == "CNAME" and at_owner):
            continue
        if rtype == "DNAME" and "DNAME" in at_owner:
            continue
        if rtype == "DNAME" and "NS" in at_owner and owner != origin or rtype == "NS" and "DNAME" in at_owner and owner != origin:
            continue
        if rtype == "DS" and (owner == origin or "NS" not in at_owner):
            continue
        if rtype == "NS" and owner == origin:
            continue
        data = sets.setdefault((owner, rtype), [])
        for _ in range(1 if rtype in ("CNAME", "DNAME") else rng.choice([1, 1, 2])):
            data.append({
                "A": lambda: f"192.0.2.{rng.randrange(256)}",
                "AAAA": lambda: f"2001:db8::{rng.randrange(1, 256):x}",
                "TXT": lambda: f'"text{rng.randrange(9)}"',
                "MX": lambda: f"{rng.randrange(9)} {target(rng, origin, zones)}",
                "SRV": lambda: f"1 {rng.randrange(9)} 80 {target(rng, origin, zones)}",
                "DS": lambda: f"{rng.randrange(9)} 8 2 " + "ab" * 32,
            }.get(rtype, lambda: target(rng, origin, zones))())
    lines = []
    for (owner, rtype), data in sets.items():
        ttl = rng.choice([60, 300, 3600])
        lines += [f"{owner} {ttl} IN {rtype} {d}" for d in dict.fromkeys(data)]
    return "\n".join(lines) + "\n"


def questions(rng, origin):
    out = set()
    while len(out) < 14:
        out.add((name_in(rng, origin, 6), rng.choices(TYPES + ["SOA"], [6, 2, 2, 2, 1, 3, 3, 2, 2, 1])[0]))
    return sorted(out)


NUMBERS = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "DNAME": 39, "DS": 43}


def packet(ident, name, rtype):
    labels = [l for l in name.split(".") if l]
    wire = b"".join(bytes([len(l)]) + l.encode() for l in labels) + b"\0"
    return (struct.pack(">6H", ident, 0, 1, 0, 0, 1) + wire + struct.pack(">2H", NUMBERS[rtype], 1)
            + b"\0\0\x29\x10\0\0\0\0\0\0\0")


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(folder, zones):
    ports = {name: free_port() for name in ("knot", "nsd", "bind", "pdns")}
    def put(name, text):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
        return os.path.join(folder, name)
    files = {origin: put(f"zone{i}", text) for i, (origin, text) in enumerate(zones.items())}
    put("knot.conf", f"server:\n  rundir: {folder}/k\n  listen: 127.0.0.1@{ports['knot']}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 2\n"
        f"database:\n  storage: {folder}/k\nlog:\n  - target: {folder}/knot.log\n    any: warning\n"
        "template:\n  - id: default\n    semantic-checks: soft\n    zonefile-sync: -1\n    journal-content: none\nzone:\n"
        + "".join(f"  - domain: {o}\n    file: {f}\n" for o, f in files.items()))
    put("nsd.conf", f"server:\n  ip-address: 127.0.0.1@{ports['nsd']}\n  username: \"\"\n  zonesdir: \"\"\n  database: \"\"\n  pidfile: {folder}/nsd.pid\n  xfrdfile: {folder}/xfrd\n  xfrdir: {folder}\n  zonelistfile: {folder}/zl\n  logfile: {folder}/nsd.log\n  rrl-ratelimit: 0\n  round-robin: no\n  minimal-responses: no\n  server-count: 1\nremote-control:\n  control-enable: no\n"
        + "".join(f"zone:\n  name: {o}\n  zonefile: {f}\n" for o, f in files.items()))
    put("named.conf", f"options {{ directory \"{folder}\"; listen-on port {ports['bind']} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; pid-file \"{folder}/named.pid\"; session-keyfile \"{folder}/sk\"; check-names primary ignore; check-integrity no; check-sibling no; check-mx ignore; check-mx-cname ignore; check-srv-cname ignore; minimal-responses no; empty-zones-enable no; }};\ncontrols {{ }};\n"
        + "".join(f"zone \"{o}\" {{ type slave; masters {{ 127.0.0.1 port 1; }}; masterfile-format text; file \"{f}\"; }};\n" for o, f in files.items()))
    put("pdns.zones", "".join(f"zone \"{o}\" {{ type master; file \"{f}\"; }};\n" for o, f in files.items()))
    put("pdns.conf", f"launch=bind\nbind-config={folder}/pdns.zones\nlocal-address=127.0.0.1\nlocal-port={ports['pdns']}\nsocket-dir={folder}\nconfig-dir={folder}\n"
        "expand-alias=no\ndname-processing=yes\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nzone-cache-refresh-interval=0\nreceiver-threads=1\ndistributor-threads=1\nloglevel=3\nsecurity-poll-suffix=\n")
    os.mkdir(f"{folder}/k")
    quiet = {"stdout": open(f"{folder}/out", "w"), "stderr": subprocess.STDOUT}
    servers = [
        subprocess.Popen(["knotd", "-c", f"{folder}/knot.conf"], **quiet),
        subprocess.Popen(["nsd", "-d", "-c", f"{folder}/nsd.conf"], **quiet),
        subprocess.Popen(["named", "-f", "-c", f"{folder}/named.conf"], **quiet),
        subprocess.Popen(["pdns_server", f"--config-dir={folder}", "--daemon=no", "--guardian=no"], **quiet),
    ]
    return ports, servers


def ask(sock, port, message, tries=3):
    for _ in range(tries):
        sock.sendto(message, ("127.0.0.1", port))
        try:
            while True:
                reply = sock.recv(65535)
                if reply[:2] == message[:2]:
                    return reply
        except socket.timeout:
            continue
    return None


def main():
    count, seed, output = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rng = random.Random(seed)
    groups, zones = [], {}
    origins = [f"z{i}." for i in range(count)]
    for origin in origins:
        group = {origin: zone(rng, origin, origins)}
        if rng.random() < 0.15:
            inner = rng.choice(["a.", "b.a.", "c.", "*."]) + origin
            group[inner] = zone(rng, inner, origins)
        groups.append(group)
        zones.update(group)
    folder = tempfile.mkdtemp(prefix="differential")
    ports, servers = start(folder, zones)
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.settimeout(0.5)
        for name, port in ports.items():
            for _ in range(120):
                if ask(sock, port, packet(1, origins[-1], "SOA"), 1):
                    break
        time.sleep(2)
        ident = 0
        with open(output, "w") as out:
            for origin, group in zip(origins, groups):
                for name, rtype in questions(rng, origin):
                    ident = (ident + 1) % 65536
                    message = packet(ident, name, rtype)
                    replies = {s: (ask(sock, p, message) or b"").hex() for s, p in ports.items()}
                    out.write(json.dumps({"seed": seed, "zones": list(group.values()), "name": name, "type": rtype, "replies": replies}) + "\n")
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


main()
