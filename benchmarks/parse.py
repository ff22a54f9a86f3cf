"""How fast XML becomes columns, on one core: as it is read, by libxml2 alone, by others, and libexpat without handlers.

Each shape of data is a document in memory. The reader takes it in slices, from bytes to data frames and punctuations;
for "conforming", what is compiled is switched off; libexpat only looks whether it is well formed. The others
(`readers.py`: a loop over lxml, xml2arrow, pygixml) run where they are installed and give the same columns.

    python benchmarks/parse.py [--mib N] [--rounds N] [--shapes NAME...] [--plot FILE]

Prints a table, and JSON; seconds are those computed by the thread. The targets: flat at least 3.0 times as fast as
libexpat, all others 2.0; 1.5 times xml2arrow and 6 times the loop over lxml; and a byte of no shape takes more than
4 times as long as one of another.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.parsers import expat

import common
import polars as pl
import readers

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import SliceReader, StreamSpec, native
from xmlpunct.schema import Schema

OPEN = f'<stream xmlns:punct="{PUNCT_NAMESPACE}">\n'
COLUMNS = "sid STRING, hour INT, min INT, currtmp INT"
COLUMNS_OF = {
    "attributes": "sid STRING PATH '@sid', hour INT PATH '@hour', min INT, currtmp INT",
    "irregular": "sid STRING PATH '@sid', hour INT PATH '@hour', min INT, currtmp INT",
    "nested": "sid STRING PATH 'at/sid', hour INT PATH 'at/hour', min INT PATH 'at/min', currtmp INT",
    "osm": "id INT PATH '@id', lat DOUBLE PATH '@lat', lon DOUBLE PATH '@lon', by STRING PATH '@user'",
    "orders": "id INT PATH '@id', customer STRING, city STRING PATH 'to/city', total DOUBLE",
    "feed": "id STRING, title STRING, updated STRING, by STRING PATH 'author/name'",
}
COLUMNS_OF["single_quotes"] = COLUMNS_OF["attributes"]
ATOM = "http://www.w3.org/2005/Atom"
ROOTS = {
    "osm": '<osm version="0.6" generator="by hand">\n',
    "orders": "<orders>\n",
    "feed": f'<feed xmlns="{ATOM}" xmlns:geo="http://www.w3.org/2003/01/geo/wgs84_pos#">\n',
}
ROWS = {"osm": ("node",), "orders": ("order",), "feed": ("entry",)}
ROWS |= dict.fromkeys(("containers", "containers_of_ten"), ("day", "tempdata"))
SLICE = 2**21
FLAT, ANY = 3.0, 2.0
OTHERS = {"xml2arrow": 1.5, "lxml": 6.0}
EVENNESS = 4.0


def values(i: int) -> dict[str, object]:
    return {"sid": f"S{i % 7:02}", "hour": i // 3600 % 24, "min": i // 60 % 60, "currtmp": 60 + i % 37}


def children(found: dict[str, object], between: str = "") -> str:
    return between.join(f"<{name}>{value}</{name}>" for name, value in found.items())


def flat(i: int) -> str:
    return f"<tempdata>{children(values(i))}</tempdata>\n"


def pretty(i: int) -> str:
    gap = "\n    "
    return f"  <tempdata>{gap}{children(values(i), gap)}\n  </tempdata>\n"


def attributes(i: int) -> str:
    found = values(i)
    own = " ".join(f'{name}="{found.pop(name)}"' for name in ("sid", "hour"))
    return f"<tempdata {own}>{children(found)}</tempdata>\n"


def nested(i: int) -> str:
    found = values(i)
    last = children({"currtmp": found.pop("currtmp")})
    return f"<tempdata><at>{children(found)}</at>{last}</tempdata>\n"


def optional(i: int) -> str:
    """Any of the values may be absent, and their order changes."""
    found = [item for place, item in enumerate(values(i).items()) if (i * 7) >> place & 3]
    return f"<tempdata>{children(dict(found[::-1] if i % 3 else found))}</tempdata>\n"


def extra(i: int) -> str:
    return f"<tempdata>{children(values(i))}<note>what nobody has declared: {i}</note></tempdata>\n"


def entity(i: int) -> str:
    """One tuple of a thousand holds an entity."""
    return flat(i).replace("<sid>", "<sid>&amp;") if i % 1000 == 500 else flat(i)


def punctuated(i: int) -> str:
    """A punctuation after each hundred tuples."""
    said = f"<punct:tempdata><hour>{i // 3600 % 24}</hour><min>{i // 60 % 60}</min></punct:tempdata>\n"
    return flat(i) + (said if i % 100 == 99 else "")


def closed(i: int) -> str:
    """A punctuation after each tuple, all different."""
    return flat(i) + f"<punct:tempdata><sid>{i}</sid></punct:tempdata>\n"


def entities(i: int) -> str:
    """Every tuple holds an entity."""
    return flat(i).replace("<sid>", "<sid>&amp;")


def comments(i: int) -> str:
    """A comment in every other tuple."""
    return flat(i).replace("<hour>", "<!-- of the day --><hour>") if i % 2 else flat(i)


def rare_comments(i: int) -> str:
    """A comment in one of ten tuples."""
    return comments(i) if i % 10 == 5 else flat(i)


def ragged(i: int) -> str:
    """No two tuples look alike."""
    return flat(i).replace("</tempdata>", "".join(f"<x{i * k % 97}/>" for k in range(6)) + "</tempdata>")


def irregular(i: int) -> str:
    """Children are optional and reordered; some tuples have attributes, comments, mixed content."""
    found = values(i)
    own = "".join(f' {name}="{found.pop(name)}"' for name in ("sid", "hour") if (i * 5) % 7 > 2)
    items = [item for place, item in enumerate(found.items()) if (i * 7) >> place & 3]
    parts = [f"<{name}>{value}</{name}>" for name, value in (items[::-1] if i % 3 else items)]
    if i % 5 == 0:
        parts.insert(1, "<!-- by hand -->")
    if i % 4 == 0:
        parts.append(f"<note>read <b>twice</b> on {i}, <i>it seems</i></note>")
    return f"<tempdata{own}>{''.join(parts)}</tempdata>\n"


def single_quotes(i: int) -> str:
    return attributes(i).replace('"', "'")


def cdata(i: int) -> str:
    return flat(i).replace("<sid>", "<sid><![CDATA[").replace("</sid>", "]]></sid>")


def eight_optional(i: int) -> str:
    """Of eight more children any may be absent."""
    more = "".join(f"<o{n}>{i}</o{n}>" for n in range(8) if (i * 37) >> n & 1)
    return flat(i).replace("</tempdata>", f"{more}</tempdata>")


def repeats(i: int) -> str:
    """None to forty children alike, which nobody has declared."""
    return flat(i).replace("</tempdata>", "".join(f"<tag>{n}</tag>" for n in range(i % 41)) + "</tempdata>")


def own_namespace(i: int) -> str:
    """Each tuple declares a namespace."""
    return flat(i).replace("<tempdata>", '<tempdata xmlns:x="urn:example:x">')


def containers(i: int) -> str:
    """Each tuple is in an element of its own."""
    return f"<day>{flat(i)}</day>\n"


def containers_of_ten(i: int) -> str:
    before, behind = "<day>" if i % 10 == 0 else "", "</day>\n" if i % 10 == 9 else ""
    return f"{before}{flat(i)}{behind}"


def others(i: int) -> str:
    """Other elements are between tuples."""
    return f"{flat(i)}<status><ok>true</ok></status>\n"


def empty(i: int) -> str:
    """Values may be empty elements."""
    return flat(i).replace(f"<sid>S{i % 7:02}</sid>", "<sid/>") if i % 3 else flat(i)


def instructions(i: int) -> str:
    """A processing instruction in every other tuple."""
    return flat(i).replace("<hour>", "<?page 7?><hour>") if i % 2 else flat(i)


def osm(i: int) -> str:
    """Nodes with none to four tags."""
    head = f'<node id="{i}" lat="{i % 90}.{i % 9973:07}" lon="{i % 180}.{i % 9967:07}" user="u{i % 97}"'
    tags = "".join(f'\n    <tag k="name:{n}" v="Main Street {i % 89}"/>' for n in range(i % 5))
    return f" {head}>{tags}\n  </node>\n" if tags else f" {head}/>\n"


def orders(i: int) -> str:
    """Orders with one to six lines."""
    lines = "".join(
        f'\n  <line no="{n}"><sku>A-{i * n % 977}</sku><qty>{n}</qty></line>' for n in range(1, i % 6 + 2)
    )
    to = f"<to><street>Elm Street {i % 89}</street><city>C{i % 53}</city></to>"
    return f'<order id="{i}"><customer>c{i % 997}</customer>{to}{lines}\n<total>{i % 501}.5</total></order>\n'


def feed(i: int) -> str:
    """A feed in a namespace, with some of another."""
    return (
        f"<entry><title>What happened at {i}</title><id>urn:uuid:{i:032x}</id>"
        f'<link rel="self" href="http://example.org/{i}"/><updated>2024-01-{i % 28 + 1:02}T12:00:00Z</updated>'
        f"<author><name>A. N. Author {i % 83}</name></author><geo:lat>{i % 90}.5</geo:lat></entry>\n"
    )


SHAPES: dict[str, Callable[[int], str]] = {
    f.__name__: f
    for f in (
        flat,
        pretty,
        attributes,
        nested,
        optional,
        extra,
        entity,
        punctuated,
        closed,
        entities,
        comments,
        rare_comments,
        ragged,
        irregular,
        single_quotes,
        cdata,
        eight_optional,
        repeats,
        own_namespace,
        containers,
        containers_of_ten,
        others,
        empty,
        instructions,
        osm,
        orders,
        feed,
    )
}


def document(shape: str, size: int) -> tuple[bytes, int]:
    """A document of about ``size`` bytes, and how many tuples it holds."""
    root = ROOTS.get(shape, OPEN)
    write, parts, total, count = SHAPES[shape], [root], 0, 0
    while total < size:
        parts.append(write(count))
        total += len(parts[-1])
        count += 1
    while shape == "containers_of_ten" and count % 10:
        parts.append(write(count))
        count += 1
    return "".join([*parts, f"</{root[1:].split()[0].rstrip('>')}>\n"]).encode(), count


def timed(work: Callable[[], Any]) -> common.Run:
    wall, cpu = time.monotonic(), time.thread_time()
    answer = work()
    seconds = time.thread_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return common.Run(seconds, time.monotonic() - wall, seconds, peak, answer=answer)


def read(data: bytes, spec: StreamSpec, compiled: bool = True) -> list[pl.DataFrame]:
    """Read it all."""
    before, native.COMPILED = native.COMPILED, compiled and native.COMPILED
    reader, found = SliceReader(Source.of(data), [spec]), []
    try:
        while (parsed := reader.read(SLICE)) is not None:
            if parsed.error is not None:
                raise parsed.error
            found.append(parsed.slices[0].tuples)
    finally:
        reader.close()
        native.COMPILED = before
    return found


def wanted(shape: str, schema: Schema) -> readers.Wanted:
    """The same columns, for others."""
    root = ROOTS.get(shape, OPEN)[1:].split()[0].rstrip(">")
    row = (root, *ROWS.get(shape, ("tempdata",)))
    types = {"INT": pl.Int64, "DOUBLE": pl.Float64, "STRING": pl.String}
    return readers.Wanted(
        row,
        {a.name: tuple(a.path.split("/")) for a in schema.attributes},
        {a.name: types[str(a.type)] for a in schema.attributes},
        ATOM if shape == "feed" else "",
    )


def tokenise(data: bytes) -> None:
    expat.ParserCreate().Parse(data, True)


def measure(shape: str, size: int, rounds: int) -> dict[str, Any]:
    data, count = document(shape, size)
    schema = Schema.parse(COLUMNS_OF.get(shape, COLUMNS))
    asked = wanted(shape, schema)
    spec = StreamSpec(shape, schema, f"{{{asked.space}}}{asked.row[-1]}" if asked.space else asked.row[-1])
    others, cannot = readers.able(asked, data, pl.concat(read(data, spec)))
    for name, why in cannot.items():
        print(f"{shape}: {name} {why}", file=sys.stderr)

    def times(work: Callable[[], Any]) -> common.Contender:
        return lambda: common.without_answer(timed(work))

    runs = common.in_turn(
        {
            "xmlpunct": times(lambda: read(data, spec)),
            "conforming": times(lambda: read(data, spec, compiled=False)),
            "expat": times(lambda: tokenise(data)),
            **{name: times(partial(other, data)) for name, other in others.items()},
        },
        rounds,
    )
    found = {
        name: {**common.summary(of, count), "mb_per_second": round(len(data) / 1e6 / min(r.cpu for r in of))}
        for name, of in runs.items()
    }
    return {
        **found,
        "times_as_fast_as": {
            name: common.ratio(of, runs["xmlpunct"]) for name, of in runs.items() if name != "xmlpunct"
        },
        "cannot": cannot,
        "ns_per_byte": round(1e9 * min(r.cpu for r in runs["xmlpunct"]) / len(data), 2),
    }


def missed(figures: dict[str, dict[str, Any]]) -> list[str]:
    """The targets that shapes miss."""
    return [
        f"{shape}: {found['times_as_fast_as'][name]} times {name}, not {least}"
        for shape, found in figures.items()
        for name, least in {"expat": FLAT if shape == "flat" else ANY, **OTHERS}.items()
        if found["times_as_fast_as"].get(name, least) < least
    ]


def table(figures: dict[str, dict[str, Any]]) -> str:
    """In Markdown: MB a second, and how many times as fast as others."""
    names = ("expat", "xml2arrow", "pygixml", "lxml", "conforming")
    lines = [f"| shape | MB a second | times {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for shape, found in figures.items():
        cells = [str(found["times_as_fast_as"].get(name, "")) for name in names]
        lines.append(f"| {shape} | {found['xmlpunct']['mb_per_second']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--mib", type=float, default=8, help="how large each document is")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    given = parser.parse_args()
    figures = {shape: measure(shape, int(given.mib * 2**20), given.rounds) for shape in given.shapes}
    times = [found["ns_per_byte"] for found in figures.values()]
    evenness = round(max(times) / min(times), 2)
    print(table(figures), file=sys.stderr)
    common.report(
        {
            "shapes": figures,
            "longest_to_shortest": evenness,
            "targets": {"flat": FLAT, "expat": ANY, **OTHERS, "longest_to_shortest": EVENNESS},
            "missed": [
                *missed(figures),
                *([f"longest to shortest: {evenness}"] if evenness > EVENNESS else []),
            ],
        }
    )
    common.plot(given.plot, lambda axes: draw(axes, figures))


def draw(axes: Any, figures: dict[str, Any]) -> None:
    for i, name in enumerate(("xmlpunct", "expat", "conforming")):
        heights = [found[name]["mb_per_second"] for found in figures.values()]
        axes.barh([y + 0.27 * i for y in range(len(figures))], heights, 0.27, label=name)
    axes.set_yticks([y + 0.27 for y in range(len(figures))], list(figures))
    axes.invert_yaxis()
    axes.set_xlabel("MB a second")
    common.legend(axes)


if __name__ == "__main__":
    main()
