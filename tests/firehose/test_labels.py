"""Attribute values in file names: read by both parsers, compared with tuples, closed after the last file."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import Any

import pytest

from xmlpunct import SourceError, UsageError, XmlPunctError, parse
from xmlpunct.connectors.contract import columns_named, open_source
from xmlpunct.connectors.listing import columns_in, files_matching, texts_in, would_match
from xmlpunct.connectors.source import Texts
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.plan_text import explain
from xmlpunct.firehose import labels as labels_module
from xmlpunct.firehose.infer.document import infer, take_sample
from xmlpunct.firehose.labels import labels_of
from xmlpunct.firehose.parser import parse_conforming, parse_split
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.firehose.stream_check import check
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.schema import Schema


def document(*rows: str) -> str:
    return f"<r>{''.join(f'<t>{row}</t>' for row in rows)}</r>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("S1/hour=1.xml", "S1/hour=2.xml", "S2/hour=01.xml", "S2/other.xml", "S2/_hour=3.xml"):
        path = tmp_path / "feed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document("<v>5</v>", "<v>6</v>"))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("feed/{sid}/hour={hour}.xml", {"S1/hour=1.xml": ("S1", "1"), "S1/hour=2.xml": ("S1", "2"),
                                        "S2/hour=01.xml": ("S2", "01")}),
        ("feed/*/hour={hour}.xml", {"S1/hour=1.xml": ("1",), "S1/hour=2.xml": ("2",), "S2/hour=01.xml": ("01",)}),
        ("feed/[S]?/hour={hour}.[x]ml", {"S1/hour=1.xml": ("1",), "S1/hour=2.xml": ("2",), "S2/hour=01.xml": ("01",)}),
        ("**/hour={hour}.xml", {"S1/hour=1.xml": ("1",), "S1/hour=2.xml": ("2",), "S2/hour=01.xml": ("01",)}),
        ("feed/S{n}", {"S1/hour=1.xml": ("1",), "S1/hour=2.xml": ("1",), "S2/hour=01.xml": ("2",),
                       "S2/other.xml": ("2",)}),
        ("feed/S{n}/", {"S1/hour=1.xml": ("1",), "S1/hour=2.xml": ("1",), "S2/hour=01.xml": ("2",),
                        "S2/other.xml": ("2",)}),
        ("feed/S{n}/hour={n}.xml", {"S1/hour=1.xml": ("1",)}),
    ],
)  # fmt: skip
def test_names_that_match(folder: Path, pattern: str, expected: dict[str, tuple[str, ...]]) -> None:
    files = files_matching(pattern)
    texts = [tuple(text for _, text in texts_in(pattern, file)) for file in files]
    assert dict(zip((f.removeprefix("feed/") for f in files), texts, strict=True)) == expected
    assert open_source(pattern).texts == tuple(texts_in(pattern, file) for file in files)
    assert columns_named(f"file://{folder}/feed/{{sid}}") == ("sid",)
    assert all(would_match(pattern, str(folder / file)) for file in files if pattern.endswith(".xml"))


@pytest.mark.parametrize("pattern", ["{a}{b}.xml", "{a}*.xml", "d/*{a}", "{a}[0-9].xml", "?{a}"])
def test_a_value_ends_somewhere(pattern: str) -> None:
    with pytest.raises(UsageError, match="a fixed text is needed between"):
        columns_in(pattern)


def test_a_name_that_can_be_read_in_two_ways(folder: Path) -> None:
    (folder / "a-b-c.xml").write_text(document())
    with pytest.raises(
        SourceError, match=r"a-b-c\.xml: it is not clear which part of its name is x and which y"
    ):
        open_source("{x}-{y}.xml")


def test_a_file_with_braces_in_its_name_is_read(folder: Path) -> None:
    (folder / "{hour}.xml").write_text(document("<v>1</v>"))
    assert columns_named("{hour}.xml") == ()
    assert open_source("{hour}.xml").texts == ()
    assert columns_named("-") == columns_named("tcp://host:1") == columns_named("follow:{hour}.xml") == ()


@pytest.mark.parametrize(
    "spec", ["https://h/hour={hour}.xml", "s3://b/hour={hour}", "follow:hour={hour}.xml", "tcp://{host}:1"]
)
def test_only_local_files_have_values_in_names(folder: Path, spec: str) -> None:
    for use in (columns_named, open_source):
        with pytest.raises(UsageError, match=r"\{ho(ur|st)\} is only for local files"):
            use(spec)
    with pytest.raises(XmlPunctError, match="is only for local files: name a path"):
        explain(plan(f"CREATE STREAM s (hour INT, a INT) WITH (source = '{spec}'); SELECT a FROM s"))
    assert columns_named("https://h/${NAME}.xml") == ()  # an environment variable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at=17%3A30", "17:30"),
        ("at=a%2fb%25", "a/b%"),
        ("at=100%", "100%"),
        ("at=%zz%4", "%zz%4"),
        ("at=a+b %20", "a+b  "),
    ],
)
def test_values_as_hive_writes_them(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "part-0.xml").write_text(document("<v>1</v>"))
    pattern = f"{tmp_path}/at={{at}}"
    (texts,) = open_source(pattern).texts
    assert texts == (("at", value),)


def test_null_in_a_name(tmp_path: Path) -> None:
    (tmp_path / "at=__HIVE_DEFAULT_PARTITION__.xml").write_text(document("<v>1</v>"))
    with pytest.raises(SourceError, match="its name says that at is null"):
        open_source(f"{tmp_path}/at={{at}}.xml")


def test_percent_escapes_only_after_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a%20b.xml").write_text(document("<v>1</v>"))
    assert open_source(f"{tmp_path}/{{at}}.xml").texts == ((("at", "a%20b"),),)


SCHEMA = Schema.parse("hour INT NOT NULL CHECK (hour BETWEEN 0 AND 23), v INT")


def label(schema: Schema, texts: Texts, *more_texts: Texts) -> Any:
    spec = StreamSpec("s", schema, "t")
    parts = [(f"{i}.xml", texts_of_file) for i, texts_of_file in enumerate((texts, *more_texts))]
    return spec, labels_of((spec,), tuple(parts))[0]


@pytest.mark.parametrize("read", [parse_split, parse_conforming])
def test_tuples_with_and_without_the_value(read: Any) -> None:
    """A tuple without the attribute, or with an equal value, is read; any other value is a reject."""
    rows = [
        "<v>1</v>",
        "<hour>7</hour>",
        "<hour> 07 </hour>",
        "<hour>8</hour>",
        "<hour>x</hour>",
        "<hour>99</hour>",
    ]
    spec, labels = label(SCHEMA, (("hour", "7"),))
    parsed = read(Split("7.xml", Position(), document(*rows).encode(), True, labels), [spec])
    assert parsed.slices[0].tuples.rows() == [(7, 1), (7, None), (7, None)]
    assert [r.reason for r in parsed.rejects[0]] == [
        "attribute hour: '8', but the name of the file has 7",
        "attribute hour: 'x' is not of type INT",
        "attribute hour: '99', but the name of the file has 7",
    ]


@pytest.mark.parametrize(
    ("type_", "text", "other"),
    [
        ("STRING", "a b", "a  b"),
        ("INT", "-5", "5"),
        ("DOUBLE", "0.5", "NaN"),
        ("DOUBLE", "NaN", "1"),
        ("DECIMAL(6,2)", "1.50", "1.51"),
        ("BOOLEAN", "true", "false"),
        ("DATE", "2024-02-29", "2024-03-01"),
        ("TIMESTAMP", "2024-02-29T10:00:00Z", "2024-02-29T10:00:01Z"),
    ],
)
@pytest.mark.parametrize("works", [True, False])
def test_every_type(monkeypatch: pytest.MonkeyPatch, type_: str, text: str, other: str, works: bool) -> None:
    monkeypatch.setattr(labels_module, "polars_works", lambda: works)
    spec, labels = label(Schema.parse(f"x {type_}, v INT"), (("x", text),))
    data = document("", f"<x>{text}</x>", f"<x>{other}</x>").encode()
    parsed = parse_split(Split("x.xml", Position(), data, True, labels), [spec])
    value = spec.schema["x"].type.read(text)
    key = spec.schema["x"].type.key
    assert [key(v) for v in parsed.slices[0].tuples["x"]] == [key(value)] * 2
    (reject,) = parsed.rejects[0]
    assert "but the name of the file has" in reject.reason
    (closed,) = parsed.slices[0].punctuations
    assert closed.patterns[0].matches(value)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("x", SourceError, r"0\.xml: hour in its name: 'x' is not of type INT"),
        ("24", SourceError, r"0\.xml: hour in its name: '24' is outside its domain"),
    ],
)
def test_a_name_that_does_not_fit(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        label(SCHEMA, (("hour", text),))
    with pytest.raises(UsageError, match="its name contains day, which is not a column of s"):
        label(SCHEMA, (("day", "7"),))


def test_the_last_file_of_a_value_closes_it(folder: Path) -> None:
    """``1`` and ``01`` are the same hour, which is punctuated after the last of their files."""
    elements = list(parse("feed/*/hour={hour}.xml", SCHEMA, element="t"))
    assert [str(e) for e in elements] == [
        "(1, 5)",
        "(1, 6)",
        "(2, 5)",
        "(2, 6)",
        "<2, *>",
        "(1, 5)",
        "(1, 6)",
        "<1, *>",
    ]


def test_a_broken_file_closes_nothing(folder: Path) -> None:
    (folder / "feed" / "S1" / "hour=2.xml").write_text("<r><t><v>1</v></t>")
    elements: list[str] = []
    with pytest.raises(SourceError):
        elements.extend(str(e) for e in parse("feed/S1/hour={hour}.xml", SCHEMA, element="t"))
    assert elements == ["(1, 5)", "(1, 6)", "<1, *>", "(2, 1)"]


def test_packed_files_and_members_of_archives(folder: Path) -> None:
    (folder / "p").mkdir()
    (folder / "p" / "1.xml.gz").write_bytes(gzip.compress(document("<v>1</v>").encode()))
    with tarfile.open(folder / "p" / "2.xml.gz", "w:gz") as archive:
        archive.add(folder / "feed" / "S1", "S1")
    elements = [str(e) for e in parse("p/{hour}.xml.gz", SCHEMA, element="t")]
    assert elements == ["(1, 1)", "<1, *>", "(2, 5)", "(2, 6)", "(2, 5)", "(2, 6)", "<2, *>"]


def test_check_and_inference_include_them(folder: Path) -> None:
    source = open_source("feed/{sid}/hour={hour}.xml")
    report = check(source, Schema.parse("hour INT, sid STRING, v INT"), "t")
    assert (report.tuples, report.punctuations, report.offered) == (6, 3, [("hour", "sid")])
    missing = check(source, Schema.parse("hour INT, sid STRING, v INT"), "misspelt")
    assert [str(n) for n in missing.notices] == [
        "feed/{sid}/hour={hour}.xml: no element <misspelt> was found"
    ]
    assert stream_of(source, None, "t")[0].schema.names == ("v", "sid", "hour")
    inferred = infer(take_sample(open_source("feed/S1/hour={hour}.xml"))[0]).schema
    assert str(inferred["hour"].type) == "INT"
    assert not inferred["hour"].nullable
    codes = infer(take_sample(source)[0]).schema  # 01 is a code
    assert (str(codes["hour"].type), str(codes["sid"].type)) == ("STRING", "STRING")
