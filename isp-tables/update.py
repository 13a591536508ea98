#!/usr/bin/env python3
"""Derive the ISP tables from openly licensed prefix-to-AS data.

The road: pinned npm package -> (start, end, AS number) rows -> operators of operators.toml
-> merged ranges -> shortest list of prefixes -> <operator>.txt, <operator>.txt.sha256, SOURCES.md

The same package and the same operators.toml give the same bytes on every machine and every day.
"""

import argparse
import base64
import csv
import hashlib
import io
import ipaddress
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPERATORS = "operators.toml"
SOURCES = "SOURCES.md"
MEMBERS = {4: "package/asn-ipv4-num.csv", 6: "package/asn-ipv6-num.csv"}
BITS = {4: 32, 6: 128}
# A shrink of more than this share of an operator's addresses needs a person's word (R12).
MAX_SHRINK = 0.30
# The source has a handful of overlapping rows; more than this means a broken download.
MAX_BAD_ROWS = 100
# The start of a header line that only this command's files have.
OURS = b"\n# source: npm "
# Nothing outside these can be a customer's address.
GLOBAL_UNICAST = {4: (1 << 24, (224 << 24) - 1), 6: (0x2000 << 112, (0x4000 << 112) - 1)}

EXAMPLES = """examples:
  update.py                        rewrite the tables from the pinned package version
  update.py --check                say whether the committed tables are what the source yields; writes nothing
  update.py --version 2.3.2026061719
                                   move to another version of the package and pin it in operators.toml
  update.py --package asn.tgz      use a package fetched earlier (`npm pack NAME@VERSION`); needs no network
  update.py --find 'deutsche tel'  list AS numbers by organisation, largest first, to add an operator
"""


class Refused(Exception):
    """Why nothing was written, and what to do about it."""


@dataclass(frozen=True)
class Source:
    """The package everything is derived from."""

    package: str
    version: str
    integrity: str
    licence: str
    attribution: tuple

    @property
    def date(self):
        """The day of the data, which the version ends with: 2.3.2026061719 -> 2026-06-17."""
        found = re.search(r"\.(20\d\d)(\d\d)(\d\d)\d*$", self.version)
        if not found:
            raise Refused(f"version {self.version} does not end in a date, as in 2.3.2026061719")
        return "-".join(found.groups())


@dataclass(frozen=True)
class Operator:
    """One table: a network and the AS numbers that originate its prefixes."""

    id: str
    name: str
    country: str
    asns: tuple


@dataclass(frozen=True)
class Table:
    """An operator's prefixes, by family, as sorted (first address, length)."""

    operator: Operator
    prefixes: dict

    def text(self, source):
        """The file, byte for byte."""
        count = {family: len(rows) for family, rows in self.prefixes.items()}
        lines = [
            f"# {self.operator.name} ({self.operator.country})",
            f"# source: npm {source.package} {source.version}, data of {source.date}",
            f"# licence: {source.licence}; attribution in {SOURCES}",
            f"# AS numbers: {len(self.operator.asns)}, listed in {OPERATORS}",
            f"# entries: {count[4] + count[6]} ({count[4]} IPv4, {count[6]} IPv6)",
        ]
        for family in (4, 6):
            lines += (cidr(family, *row) for row in self.prefixes[family])
        return "\n".join(lines) + "\n"


def main(argv=None):
    """Run the command; the exit code is 0 done, 1 refused or different, 2 wrong usage."""
    args = parse_arguments(argv)
    try:
        source, operators = load_operators(args.dir / OPERATORS)
        package = args.package.read_bytes() if args.package else None
        if args.version and args.version != source.version:
            source = Source(source.package, args.version, "", source.licence, source.attribution)
        if package is None:
            package = download(source)
        integrity = verify(package, source)
        source = Source(source.package, source.version, integrity, source.licence, source.attribution)
        if args.find:
            return find(package, args.find)
        tables = derive(read_rows(package), operators)
        files = render(tables, source)
        if args.check:
            return check(args.dir, files)
        if not args.force:
            guard(args.dir, tables)
        write(args.dir, files, source)
        return 0
    except Refused as why:
        print(f"update.py: {why}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader has seen enough; nothing is left to say, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as why:
        print(f"update.py: {why}", file=sys.stderr)
        return 1


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        description="Derive the ISP tables from openly licensed prefix-to-AS data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="compare with the files in place and write nothing")
    parser.add_argument("--version", metavar="VERSION", help="package version, instead of the pinned one")
    parser.add_argument("--package", metavar="FILE", type=Path, help="a .tgz fetched earlier, instead of a download")
    parser.add_argument("--force", action="store_true", help=f"write even if an operator shrinks by over {MAX_SHRINK * 100:.0f} percent")
    parser.add_argument("--find", metavar="REGEX", help="list the AS numbers whose organisation matches, and stop")
    parser.add_argument("--dir", metavar="DIR", type=Path, default=HERE, help="folder of operators.toml and the tables")
    return parser.parse_args(argv)


def load_operators(path):
    """operators.toml, checked: ids are file names, an AS number belongs to one operator."""
    try:
        import tomllib
    except ModuleNotFoundError:
        raise Refused("needs Python 3.11 or newer (it has the TOML reader)") from None
    try:
        spec = tomllib.loads(path.read_text(encoding="utf-8"))
        pinned = spec["source"]
        source = Source(
            pinned["package"], pinned["version"], pinned["integrity"], pinned["licence"], tuple(pinned["attribution"])
        )
        operators = [
            Operator(id, entry["name"], entry["country"], tuple(entry["asns"]))
            for id, entry in spec["operator"].items()
        ]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as why:
        raise Refused(f"{path}: {type(why).__name__}: {why}; see the entries there for the form") from None
    owner = {}
    for operator in operators:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", operator.id):
            raise Refused(f"{path}: operator `{operator.id}`: an id has lower-case letters, digits and dashes only")
        if not operator.asns:
            raise Refused(f"{path}: operator `{operator.id}` has no asns")
        for asn in operator.asns:
            if type(asn) is not int or not 0 < asn < 1 << 32:
                raise Refused(f"{path}: operator `{operator.id}`: {asn!r} is not an AS number")
            if asn in owner:
                raise Refused(f"{path}: AS{asn} is in `{owner[asn]}` and in `{operator.id}`; leave it in one")
            owner[asn] = operator.id
    return source, operators


def download(source):
    """The package's bytes, by the registry's own client."""
    wanted = f"{source.package}@{source.version}"
    print(f"fetching {wanted} with npm pack", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="isp-tables-") as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, wanted]
        try:
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=600)
        except FileNotFoundError:
            raise Refused("npm is not installed; install it, or fetch the package elsewhere and use --package") from None
        except subprocess.TimeoutExpired:
            raise Refused(f"npm pack {wanted} took longer than 10 minutes; try again") from None
        except subprocess.CalledProcessError as why:
            raise Refused(f"npm pack {wanted} failed ({why.returncode}); is there such a version?") from None
        found = list(Path(folder).glob("*.tgz"))
        if len(found) != 1:
            raise Refused(f"npm pack {wanted} left {len(found)} packages, not one")
        return found[0].read_bytes()


def verify(package, source):
    """The package's integrity string, which must be the pinned one when one is pinned."""
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
    if source.integrity and integrity != source.integrity:
        raise Refused(
            f"the package is not the pinned {source.package} {source.version}:\n"
            f"  pinned {source.integrity}\n  found  {integrity}\n"
            "use --version for another version, or --version with --package for another file"
        )
    return integrity


def read_rows(package):
    """(family, first, last, AS number, organisation) of every row, in the source's order."""
    try:
        with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as archive:
            for family, member in MEMBERS.items():
                yield from parse_rows(family, member, archive.extractfile(member).read().decode("utf-8"))
    except (tarfile.TarError, KeyError, EOFError, UnicodeDecodeError) as why:
        raise Refused(f"not a readable package: {why}") from None


def parse_rows(family, member, text):
    top = 1 << BITS[family]
    low, high = GLOBAL_UNICAST[family]
    previous, bad = -1, 0
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        try:
            first, last, asn, organisation = int(row[0]), int(row[1]), int(row[2]), row[3]
        except (ValueError, IndexError):
            raise Refused(f"{member}:{number}: expected start,end,asn,organisation, found {row!r}") from None
        if not 0 <= first <= last < top:
            raise Refused(f"{member}:{number}: {first}-{last} is no IPv{family} range")
        bad += first <= previous
        if bad > MAX_BAD_ROWS:
            raise Refused(f"{member}:{number}: over {MAX_BAD_ROWS} rows overlap; this is not the expected data")
        previous = last
        if low <= first and last <= high:
            yield family, first, last, asn, organisation


def derive(rows, operators):
    """One table an operator."""
    owner = {asn: operator.id for operator in operators for asn in operator.asns}
    ranges = {operator.id: {4: [], 6: []} for operator in operators}
    for family, first, last, asn, _ in rows:
        if asn in owner:
            ranges[owner[asn]][family].append((first, last))
    tables = []
    for operator in operators:
        prefixes = {family: aggregate(family, found) for family, found in ranges[operator.id].items()}
        if not any(prefixes.values()):
            raise Refused(f"operator `{operator.id}`: none of its AS numbers originates a prefix in this source")
        tables.append(Table(operator, prefixes))
    return tables


def aggregate(family, ranges):
    """The shortest sorted list of (first address, length) that covers exactly these ranges."""
    merged = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    prefixes = []
    for first, last in merged:
        while first <= last:
            # the largest block that starts here and ends within the range
            size = min(first & -first if first else 1 << BITS[family], 1 << (last - first + 1).bit_length() - 1)
            prefixes.append((first, BITS[family] - size.bit_length() + 1))
            first += size
    return prefixes


def cidr(family, first, length):
    address = ipaddress.IPv4Address(first) if family == 4 else ipaddress.IPv6Address(first)
    return f"{address}/{length}"


def render(tables, source):
    """File name -> bytes, of everything this command writes but operators.toml."""
    files = {}
    for table in tables:
        name = f"{table.operator.id}.txt"
        files[name] = table.text(source).encode()
        # R14, in the form that `sha256sum -c` reads
        files[f"{name}.sha256"] = f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n".encode()
    files[SOURCES] = sources_text(tables, source).encode()
    return files


def sources_text(tables, source):
    credits = "\n".join(f"- {line}" for line in source.attribution)
    rows = "\n".join(
        f"| `{t.operator.id}` | {t.operator.name} | {t.operator.country} | {len(t.operator.asns)} "
        f"| {len(t.prefixes[4])} | {len(t.prefixes[6])} | {covered(4, t.prefixes[4])} |"
        for t in tables
    )
    entries = sum(len(rows) for t in tables for rows in t.prefixes.values())
    return f"""# Sources of the ISP tables

Written by `update.py`; do not edit. {len(tables)} operators, {entries} entries.

| | |
|---|---|
| package | npm `{source.package}` |
| version | {source.version} |
| integrity | `{source.integrity}` |
| date of the data | {source.date} |
| licence of the data, and so of the tables | {source.licence}, https://creativecommons.org/licenses/by/4.0/ |

The program's own licence (MIT OR Apache-2.0) covers neither the data nor the tables. Whoever passes the tables on,
or shows results from them on a web page, gives this attribution, with the link to DB-IP:

{credits}

Changes made: rows were selected by AS number (`{OPERATORS}`), adjacent ranges merged, and written as prefixes.

What to know about the data: IPv4 is by origin in BGP (Route Views) first, then the RIRs, then DB-IP; IPv6 by the RIRs,
then DB-IP, and so the less certain half. **The publisher says in the package that it has errors and that npm gets no more
updates**; newer data is at its own site. So look at the addresses that matter to you with `portolan tables lookup ADDR`, and
put what you know better into a table of your own, which wins over a shipped one (FORMAT.md).

| operator | name | country | AS numbers | IPv4 prefixes | IPv6 prefixes | IPv4 addresses |
|---|---|---|---|---|---|---|
{rows}
"""


def covered(family, prefixes):
    return sum(1 << BITS[family] - length for _, length in prefixes)


def guard(folder, tables):
    """R12: a table that lost much of its address space waits for a person."""
    shrunk = []
    for table in tables:
        path = folder / f"{table.operator.id}.txt"
        if not path.exists():
            continue
        before = read_table(path)
        for family in (4, 6):
            old, new = covered(family, before[family]), covered(family, table.prefixes[family])
            if new < old * (1 - MAX_SHRINK):
                shrunk.append(f"  {table.operator.id}: IPv{family} addresses down by {1 - new / old:.0%}")
    if shrunk:
        raise Refused("nothing written, tables would shrink:\n" + "\n".join(shrunk) + "\nuse --force if that is right")


def read_table(path):
    """A table as this command writes it, back as (first address, length) by family."""
    prefixes = {4: [], 6: []}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        try:
            network = ipaddress.ip_network(line)
        except ValueError as why:
            raise Refused(f"{path}:{number}: {why}; restore the file or remove it") from None
        prefixes[network.version].append((int(network.network_address), network.prefixlen))
    return prefixes


def check(folder, files):
    """Say which files differ from what the source yields."""
    different = [name for name, wanted in files.items() if not same(folder / name, wanted)]
    different += [path.name for path in stray(folder, files)]
    for name in sorted(different):
        print(f"differs from the source: {name}")
    if different:
        print("run update.py to write them anew", file=sys.stderr)
        return 1
    print(f"{len(files)} files are what the source yields")
    return 0


def same(path, wanted):
    return path.exists() and path.read_bytes() == wanted


def stray(folder, files):
    """Tables that this command wrote for operators no longer listed; a user's own tables are left alone."""
    tables = [path for path in folder.glob("*.txt") if path.name not in files and OURS in path.read_bytes()[:400]]
    return tables + [sum for sum in (path.with_name(f"{path.name}.sha256") for path in tables) if sum.exists()]


def write(folder, files, source):
    """Every file whole or not at all; the table before the checksum that vouches for it."""
    for name, content in files.items():
        if not same(folder / name, content):
            replace(folder / name, content)
    for path in stray(folder, files):
        print(f"removing {path.name}: its operator is not in {OPERATORS}")
        path.unlink()
    pin(folder / OPERATORS, source)
    size = sum(map(len, files.values()))
    print(f"{len(files)} files, {size / 1e6:.1f} MB, data of {source.date}")


def replace(path, content):
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
        try:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
            os.chmod(temporary.name, 0o644)
            os.replace(temporary.name, path)
        except BaseException:
            os.unlink(temporary.name)
            raise


def pin(path, source):
    """Remember the version that the tables come from."""
    old = path.read_text(encoding="utf-8")
    new = re.sub(r'(?m)^version = ".*"$', f'version = "{source.version}"', old, count=1)
    new = re.sub(r'(?m)^integrity = ".*"$', f'integrity = "{source.integrity}"', new, count=1)
    if new != old:
        replace(path, new.encode())


def find(package, pattern):
    """List AS numbers by organisation."""
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error as why:
        raise Refused(f"--find {pattern}: {why}") from None
    found = {}
    for family, first, last, asn, organisation in read_rows(package):
        if wanted.search(organisation):
            entry = found.setdefault(asn, {4: 0, 6: 0, "organisation": organisation})
            entry[family] += last - first + 1
    lines = [f"{'AS number':>10} {'IPv4 addresses':>15} {'IPv6 /48s':>12}  organisation"]
    for asn, entry in sorted(found.items(), key=lambda item: (-item[1][4], -item[1][6])):
        lines.append(f"{asn:>10} {entry[4]:>15} {entry[6] >> 80:>12}  {entry['organisation']}")
    print("\n".join(lines), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
