"""Tests of the generator and of the tables in place. No network: `python3 -m unittest discover isp-tables`."""

import contextlib
import hashlib
import io
import ipaddress
import random
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

import update

HERE = Path(__file__).resolve().parent

# (address, operator or None for an address of nobody in the tables)
KNOWN = [
    ("36.110.1.1", "chinatelecom"),
    ("240e::1", "chinatelecom"),
    ("123.125.0.1", "chinaunicom"),
    ("2408:8000::1", "chinaunicom"),
    ("111.13.0.1", "chinamobile"),
    ("2409:8000::1", "chinamobile"),
    ("166.111.8.28", "cernet"),
    ("2001:da8::1", "cernet"),
    ("159.226.1.1", "cstnet"),
    ("80.128.0.1", "dtag"),
    ("24.0.0.1", "comcast"),
    ("126.0.0.1", "softbank"),
    ("49.36.0.1", "jio"),
    ("192.0.2.1", None),
    ("203.0.113.5", None),
    ("2001:db8::1", None),
    ("10.0.0.1", None),
    ("127.0.0.1", None),
]

SPEC = """[source]
package = "@example/asn"
version = "{version}"
integrity = "{integrity}"
licence = "CC BY 4.0"
attribution = ["Example"]

[operator.north]
name = "North"
country = "NO"
asns = [64496, 64497]

[operator.south]
name = "South"
country = "ZA"
asns = [64499]
"""


def number(text):
    return int(ipaddress.ip_address(text))


def row(first, last, asn):
    return f'{number(first)},{number(last)},{asn},"An organisation, Ltd"\n'


V4 = row("1.0.0.0", "1.0.0.255", 64496) + row("1.0.1.0", "1.0.1.255", 64497) + row("2.0.0.1", "2.0.0.2", 64499)
V6 = row("2a00::", "2a00:0:ffff:ffff:ffff:ffff:ffff:ffff", 64496)


def package(v4=V4, v6=V6):
    """A package as the registry's client would leave it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for family, text in ((4, v4), (6, v6)):
            entry = tarfile.TarInfo(update.MEMBERS[family])
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Workplace(unittest.TestCase):
    """A folder with a small operators.toml, and the command run on it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.spec()

    def spec(self, text=SPEC, integrity=""):
        filled = text.replace("{version}", "1.2.2026061719").replace("{integrity}", integrity)
        (self.folder / update.OPERATORS).write_text(filled)

    def run_update(self, *arguments, content=None):
        fetched = self.folder / "asn.tgz"
        fetched.write_bytes(package() if content is None else content)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = update.main(["--dir", str(self.folder), "--package", str(fetched), *arguments])
        return code, out.getvalue() + err.getvalue()

    def table(self, operator):
        text = (self.folder / f"{operator}.txt").read_text()
        return [line for line in text.splitlines() if not line.startswith("#")]


class Command(Workplace):
    def test_writes_tables_checksums_and_sources(self):
        code, said = self.run_update()
        self.assertEqual(code, 0, said)
        self.assertEqual(self.table("north"), ["1.0.0.0/23", "2a00::/32"])
        self.assertEqual(self.table("south"), ["2.0.0.1/32", "2.0.0.2/32"])
        digest, name = (self.folder / "north.txt.sha256").read_text().split()
        self.assertEqual(digest, hashlib.sha256((self.folder / "north.txt").read_bytes()).hexdigest())
        self.assertEqual(name, "north.txt")
        header = (self.folder / "north.txt").read_text()
        for part in ("2026-06-17", "CC BY 4.0", "entries: 2 (1 IPv4, 1 IPv6)"):
            self.assertIn(part, header)
        self.assertIn("| `south` | South | ZA | 1 | 2 | 0 | 2 |", (self.folder / update.SOURCES).read_text())

    def test_a_second_run_changes_nothing_and_check_agrees(self):
        self.run_update()
        before = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        self.assertEqual(self.run_update()[0], 0)
        self.assertEqual(before, {path.name: path.read_bytes() for path in self.folder.iterdir()})
        self.assertEqual(self.run_update("--check")[0], 0)

    def test_check_names_what_differs_and_writes_nothing(self):
        self.run_update()
        (self.folder / "north.txt").write_text("# touched\n")
        code, said = self.run_update("--check")
        self.assertEqual(code, 1)
        self.assertIn("differs from the source: north.txt", said)
        self.assertNotIn("south", said)
        self.assertEqual((self.folder / "north.txt").read_text(), "# touched\n")

    def test_a_shrink_waits_for_force(self):
        self.run_update()
        smaller = package(v4=row("1.0.0.0", "1.0.0.255", 64496) + row("2.0.0.1", "2.0.0.2", 64499))
        self.spec()
        before = (self.folder / "north.txt").read_bytes()
        code, said = self.run_update(content=smaller)
        self.assertEqual(code, 1)
        self.assertIn("north: IPv4 addresses down by 50%", said)
        self.assertEqual((self.folder / "north.txt").read_bytes(), before)
        self.assertEqual(self.run_update("--force", content=smaller)[0], 0)
        self.assertEqual(self.table("north"), ["1.0.0.0/24", "2a00::/32"])

    def test_a_package_other_than_the_pinned_one_is_refused(self):
        self.spec(integrity="sha512-AAAA")
        code, said = self.run_update()
        self.assertEqual(code, 1)
        self.assertIn("not the pinned", said)
        self.assertFalse((self.folder / "north.txt").exists())

    def test_another_version_is_pinned_with_its_integrity(self):
        self.spec(integrity="sha512-AAAA")
        self.assertEqual(self.run_update("--version", "1.2.2026070100")[0], 0)
        pinned = tomllib.loads((self.folder / update.OPERATORS).read_text())["source"]
        self.assertEqual(pinned["version"], "1.2.2026070100")
        self.assertTrue(pinned["integrity"].startswith("sha512-") and len(pinned["integrity"]) > 90)
        self.assertIn("2026-07-01", (self.folder / "north.txt").read_text())
        self.assertEqual(self.run_update("--check")[0], 0)

    def test_tables_of_dropped_operators_go_and_a_users_own_stay(self):
        self.run_update()
        (self.folder / "mine.txt").write_text("192.0.2.0/24\n")
        self.spec(SPEC.split("[operator.south]")[0])
        self.assertEqual(self.run_update()[0], 0)
        self.assertFalse((self.folder / "south.txt").exists())
        self.assertFalse((self.folder / "south.txt.sha256").exists())
        self.assertTrue((self.folder / "mine.txt").exists())

    def test_find_lists_by_size(self):
        code, said = self.run_update("--find", "ORGANISATION")
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[0] for line in said.splitlines()[1:]], ["64496", "64497", "64499"])

    def test_bad_input_is_refused_with_place_and_reason(self):
        cases = [
            (dict(content=b"not a package"), "not a readable package"),
            (dict(content=package(v4="1,2\n")), "package/asn-ipv4-num.csv:1: expected start,end,asn,organisation"),
            (dict(content=package(v4="5,4,64496,x\n")), "is no IPv4 range"),
            (dict(content=package(v4="0,4294967296,64496,x\n")), "is no IPv4 range"),
            (dict(content=package(v4=V4.splitlines(True)[0] * 200)), "rows overlap"),
            (dict(content=package(v4=row("1.0.0.0", "1.0.0.1", 64496))), "`south`: none of its AS numbers"),
        ]
        for arguments, wanted in cases:
            with self.subTest(wanted):
                code, said = self.run_update(**arguments)
                self.assertEqual(code, 1)
                self.assertIn(wanted, said)

    def test_bad_operators_are_refused(self):
        cases = [
            (SPEC.replace("64499", "64496"), "AS64496 is in `north` and in `south`"),
            (SPEC.replace("operator.north", "operator.North"), "`North`: an id has lower-case"),
            (SPEC.replace("[64499]", "[]"), "`south` has no asns"),
            (SPEC.replace("64499", '"64499"'), "is not an AS number"),
            (SPEC.replace('country = "ZA"', ""), "KeyError: 'country'"),
            (SPEC.replace("asns = [64499]", "asns = ["), "TOMLDecodeError"),
            (SPEC.replace("{version}", "1.2.3"), "does not end in a date"),
        ]
        for text, wanted in cases:
            with self.subTest(wanted):
                self.spec(text)
                code, said = self.run_update()
                self.assertEqual(code, 1)
                self.assertIn(wanted, said)


    def test_help_shows_examples(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
            update.main(["--help"])
        self.assertEqual(end.exception.code, 0)
        self.assertIn("update.py --check", out.getvalue())
        self.assertIn("30 percent", out.getvalue())


class Aggregate(unittest.TestCase):
    def test_equals_the_library_on_random_ranges(self):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        kinds = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
        for round in range(300):
            family = dice.choice((4, 6))
            top = (1 << update.BITS[family]) - 1
            base = dice.choice((0, top - 4000, dice.randrange(top - 4000)))
            ranges = []
            for _ in range(dice.randrange(1, 12)):
                first = base + dice.randrange(3000)
                ranges.append((first, first + dice.randrange(900)))
            networks = [
                network
                for first, last in ranges
                for network in ipaddress.summarize_address_range(kinds[family](first), kinds[family](last))
            ]
            wanted = [str(network) for network in ipaddress.collapse_addresses(networks)]
            found = [update.cidr(family, *prefix) for prefix in update.aggregate(family, ranges)]
            self.assertEqual(found, wanted, f"seed {seed}, round {round}")

    def test_whole_families(self):
        self.assertEqual(update.aggregate(4, [(0, (1 << 32) - 1)]), [(0, 0)])
        self.assertEqual(update.aggregate(6, [(0, (1 << 128) - 1)]), [(0, 0)])
        self.assertEqual(update.aggregate(4, []), [])


class InPlace(unittest.TestCase):
    """The committed tables."""

    @classmethod
    def setUpClass(cls):
        cls.source, cls.operators = update.load_operators(HERE / update.OPERATORS)
        cls.tables = {operator.id: update.read_table(HERE / f"{operator.id}.txt") for operator in cls.operators}

    def test_every_checksum_holds(self):
        for operator in self.operators:
            path = HERE / f"{operator.id}.txt"
            wanted = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            self.assertEqual((HERE / f"{path.name}.sha256").read_text(), wanted)

    def test_headers_tell_source_and_count(self):
        for operator in self.operators:
            text = (HERE / f"{operator.id}.txt").read_text()
            table = update.Table(operator, self.tables[operator.id])
            self.assertEqual(text, table.text(self.source), operator.id)

    def test_sorted_and_as_short_as_can_be(self):
        for id, families in self.tables.items():
            for family, prefixes in families.items():
                ranges = [(first, first + (1 << update.BITS[family] - length) - 1) for first, length in prefixes]
                self.assertEqual(prefixes, update.aggregate(family, ranges), id)

    def test_known_addresses(self):
        for text, wanted in KNOWN:
            address = ipaddress.ip_address(text)
            family, value = address.version, int(address)
            found = [
                id
                for id, families in self.tables.items()
                for first, length in families[family]
                if value >> update.BITS[family] - length == first >> update.BITS[family] - length
            ]
            self.assertEqual(found, [wanted] if wanted else [], text)

    def test_no_table_is_forgotten(self):
        found = {path.stem for path in HERE.glob("*.txt")}
        self.assertEqual(found, set(self.tables))


if __name__ == "__main__":
    unittest.main()
