"""What each function takes and gives: builders of typed calls.

`call` applies a function by its SQL name and raises ValueError with the reason where the arguments have no
type together. Numbers are promoted by explicit CASTs in the tree, so that evaluation meets equal types only;
comparisons of INT with DOUBLE and DECIMAL stay mixed, because they are exact. A NULL literal takes whatever
type the others have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import reduce

from xmlpunct.expressions.expression import Call, Expression, Literal
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type, Value, decimal

NULL = Literal(STRING, True, None)
"""The NULL literal, before it has taken its type from what it stands with."""


def literal(type_: Type, value: Value) -> Literal:
    """A constant; None is a null of that type."""
    return Literal(type_, value is None, value)


def number(text: str) -> Literal:
    """A numeric literal: INT without point or exponent (DECIMAL beyond 64 bits), DECIMAL with a point,
    DOUBLE with an exponent. Raises ValueError.

    >>> number("12").type, number("1.50").type, number("1e3").type
    (INT, DECIMAL(3,2), DOUBLE)
    """
    if "e" in text.lower():
        return literal(DOUBLE, DOUBLE.parse(text))
    whole, _, part = text.partition(".")
    if not part and "." not in text and -(2**63) <= int(text) < 2**63:
        return literal(INT, int(text))
    digits = len(whole.lstrip("0")) + len(part)
    type_ = decimal(max(digits, 1), len(part))
    return literal(type_, type_.parse(text))


def call(function: str, *args: Expression) -> Expression:
    """``function`` applied to ``args``. Raises ValueError where that has no type.

    >>> x = literal(INT, 7)
    >>> print(call("+", x, number("1.5")), call("+", x, number("1.5")).type)
    7 + 1.5 DECIMAL(21,1)
    """
    if function not in RULES:
        raise ValueError(f"there is no function {function}")
    whole = next((a.type for a in args if not a.type.comparable), None)
    if whole is not None and function not in ("IS NULL", "IS NOT NULL"):
        raise ValueError(f"{function} does not take {whole.kind}, which is compared with nothing")
    return RULES[function](function, args)


def cast(argument: Expression, type_: Type) -> Expression:
    """CAST(argument AS type). Raises ValueError where there is no conversion, or a literal has none."""
    if argument.type == type_:
        return argument
    if isinstance(argument, Literal):
        if argument.value is None:
            return literal(type_, None)
        if (folded := _fold(argument, type_)) is not None:
            return folded
    if type_ not in _targets(argument.type) and not (
        isinstance(type_, DecimalType) and DECIMAL in _targets(argument.type)
    ):
        source = argument.type if argument.type.comparable else argument.type.kind
        raise ValueError(f"there is no CAST from {source} to {type_}")
    return Call(type_, argument.nullable, "CAST", (argument,))


def common_type(args: Iterable[Expression]) -> Type:
    """The type that all can have together: their own, or for numbers the wider. Raises ValueError."""
    known = [a.type for a in args if not _is_null(a)]
    return reduce(_wider, known) if known else STRING


def unify(args: Sequence[Expression]) -> list[Expression]:
    """All of ``args`` cast to their common type. Raises ValueError."""
    type_ = common_type(args)
    return [cast(a, type_) for a in args]


def searched_case(pairs: Sequence[tuple[Expression, Expression]], other: Expression) -> Expression:
    """CASE WHEN condition THEN result ... ELSE other END."""
    results = unify([*(result for _, result in pairs), other])
    args: list[Expression] = []
    for (condition, _), result in zip(pairs, results, strict=False):
        args += [_boolean("CASE WHEN", condition), result]
    return Call(results[-1].type, any(r.nullable for r in results), "CASE", (*args, results[-1]))


# the conversions there are

DECIMAL = decimal(38, 0)
"""Stands for every DECIMAL in the table of casts."""

_CASTS: dict[Type, tuple[Type, ...]] = {
    STRING: (INT, DOUBLE, DECIMAL, BOOLEAN, DATE, TIMESTAMP),
    INT: (STRING, DOUBLE, DECIMAL, BOOLEAN),
    DOUBLE: (STRING, INT, DECIMAL),
    DECIMAL: (STRING, INT, DOUBLE, DECIMAL),
    BOOLEAN: (STRING, INT),
    DATE: (STRING, TIMESTAMP),
    TIMESTAMP: (STRING, DATE),
}


def _targets(type_: Type) -> tuple[Type, ...]:
    return _CASTS.get(DECIMAL if isinstance(type_, DecimalType) else type_, ())


def _fold(argument: Literal, type_: Type) -> Literal | None:
    """The literal as one of another type, where Python can tell without loss of meaning."""
    value = argument.value
    if argument.type is STRING:
        if type_ is TIMESTAMP and len(value) > 10 and value[10] == " ":
            value = value[:10] + "T" + value[11:]
        return literal(type_, type_.parse(value))
    if type_ is DOUBLE and isinstance(value, int | Decimal) and argument.type is not BOOLEAN:
        return literal(type_, DOUBLE.accept(float(value)))
    if isinstance(type_, DecimalType) and isinstance(value, int | Decimal) and argument.type is not BOOLEAN:
        try:
            return literal(type_, type_.accept(value))
        except ValueError:  # rounds, or fails when it runs
            return None
    return None


def _is_null(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is None


def is_number(type_: Type) -> bool:
    """Whether it is INT, DOUBLE or a DECIMAL."""
    return type_ in (INT, DOUBLE) or isinstance(type_, DecimalType)


def as_decimal(type_: Type) -> DecimalType:
    """What INT or a DECIMAL counts as among decimals."""
    return type_ if isinstance(type_, DecimalType) else decimal(19, 0)


def _wider(a: Type, b: Type) -> Type:
    if a == b:
        return a
    if not (is_number(a) and is_number(b)):
        raise ValueError(f"{a} and {b} have no common type: CAST one of them")
    if DOUBLE in (a, b):
        return DOUBLE
    p, q = as_decimal(a), as_decimal(b)
    scale = max(p.scale, q.scale)
    digits = max(p.precision - p.scale, q.precision - q.scale) + scale
    if digits > 38:
        raise ValueError(f"{a} and {b} together need {digits} digits, of 38: CAST one of them")
    return decimal(digits, scale)


# one rule per kind of function: (name, arguments) -> the call

Rule = Callable[[str, tuple[Expression, ...]], Expression]


def _nullable(args: Iterable[Expression]) -> bool:
    return any(a.nullable for a in args)


def _count(name: str, args: Sequence[Expression], least: int, most: int | None = None) -> None:
    most = least if most is None else most
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ValueError(f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {len(args)}")


def of_type(name: str, argument: Expression, type_: Type) -> Expression:
    """The argument if it is of that type, or a null that becomes it. Raises ValueError."""
    if _is_null(argument):
        return literal(type_, None)
    if argument.type is not type_:
        raise ValueError(f"{name} wants {type_}, not {argument.type}")
    return argument


def _boolean(name: str, argument: Expression) -> Expression:
    return of_type(name, argument, BOOLEAN)


def _numbers(name: str, args: Sequence[Expression]) -> list[Expression]:
    """Numeric arguments, as DOUBLE if one of them is."""
    type_ = (
        DOUBLE
        if any(a.type is DOUBLE for a in args)
        else next((a.type for a in args if is_number(a.type)), INT)
    )
    found = [literal(type_, None) if _is_null(a) else a for a in args]
    for a in found:
        if not is_number(a.type):
            raise ValueError(f"{name} wants numbers, not {a.type}")
    return [cast(a, DOUBLE) for a in found] if type_ is DOUBLE else found


def _arithmetic(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 2)
    a, b = _numbers(name, args)
    if not isinstance(a.type, DecimalType) and not isinstance(b.type, DecimalType):
        return Call(a.type, _nullable((a, b)), name, (a, b))
    if name in ("/", "%"):
        raise ValueError(f"{name} over DECIMAL has no type of its own: CAST to DOUBLE first")
    p, q = as_decimal(a.type), as_decimal(b.type)
    if name == "*":
        scale, precision = p.scale + q.scale, p.precision + q.precision
        if scale > 38:
            raise ValueError(f"{p} * {q} needs a scale of {scale}, of 38: CAST to a smaller one first")
    else:
        scale = max(p.scale, q.scale)
        precision = max(p.precision - p.scale, q.precision - q.scale) + scale + 1
    return Call(decimal(min(precision, 38), scale), _nullable((a, b)), name, (cast(a, p), cast(b, q)))


def _sign(name: str, args: tuple[Expression, ...]) -> Expression:
    _count("-" if name == "NEG" else name, args, 1)
    (a,) = _numbers(name, args)
    return Call(a.type, a.nullable, name, (a,))


def _comparison(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 2)
    a, b = _comparable(name, *args)
    nullable = "DISTINCT" not in name and _nullable((a, b))
    return Call(BOOLEAN, nullable, name, (a, b))


def _comparable(name: str, a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Two operands as they are compared: of one type, or exactly comparable numbers."""
    a, b = _read_as(b.type, a), _read_as(a.type, b)
    if a.type == b.type:
        return a, b
    if not (is_number(a.type) and is_number(b.type)):
        raise ValueError(f"{a.type} {name} {b.type} makes no sense: CAST one of them")
    if DOUBLE in (a.type, b.type) and INT not in (a.type, b.type):
        return cast(a, DOUBLE), cast(b, DOUBLE)
    return a, b


def _read_as(type_: Type, argument: Expression) -> Expression:
    """A literal as a value of the other operand's type, where it is one."""
    if not isinstance(argument, Literal) or argument.type == type_:
        return argument
    if argument.value is None or (argument.type is STRING and type_ in (DATE, TIMESTAMP)):
        return cast(argument, type_)
    if type_ is DOUBLE and argument.type is INT and abs(argument.value) <= 2**53:
        return cast(argument, DOUBLE)
    if isinstance(type_, DecimalType) and is_number(argument.type) and argument.type is not DOUBLE:
        return _fold(argument, type_) or argument
    return argument


def _connective(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 1 if name == "NOT" else 2)
    found = tuple(_boolean(name, a) for a in args)
    return Call(BOOLEAN, _nullable(found), name, found)


def _is_null_test(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 1)
    return Call(BOOLEAN, False, name, args)


def _in(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise ValueError("IN wants a list of values")
    subject, *members = args
    pairs = [_comparable("=", subject, member) for member in members]
    if all(isinstance(m, Literal) and m.type == s.type == subject.type for s, m in pairs):
        return Call(BOOLEAN, _nullable(args), name, (subject, *(m for _, m in pairs)))
    tests = [call("=", s, m) for s, m in pairs]
    return reduce(lambda a, b: call("OR", a, b), tests)


def _between(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 3)
    subject, low, high = args
    return call("AND", call(">=", subject, low), call("<=", subject, high))


def _case(name: str, args: tuple[Expression, ...]) -> Expression:
    return searched_case(list(zip(args[:-1:2], args[1::2], strict=True)), args[-1])


def _first_known(name: str, args: tuple[Expression, ...]) -> Expression:
    """COALESCE, GREATEST, LEAST: null only if every argument is."""
    _count(name, args, 1, 1000)
    found = unify(args)
    return Call(found[0].type, all(a.nullable for a in found), name, tuple(found))


def _nullif(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 2)
    a, b = args
    return searched_case([(call("=", a, b), literal(a.type, None))], a)


def _text(type_: Type, least: int = 1, most: int | None = None) -> Rule:
    """A rule for functions of one string, perhaps followed by whole numbers."""

    def rule(name: str, args: tuple[Expression, ...]) -> Expression:
        _count(name, args, least, most)
        found = (of_type(name, args[0], STRING), *(of_type(name, a, INT) for a in args[1:]))
        return Call(type_, _nullable(found), name, found)

    return rule


def _join(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 1, 1000)
    found = [of_type("||", a, STRING) for a in args]
    return reduce(lambda a, b: Call(STRING, _nullable((a, b)), "||", (a, b)), found)


def _like(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 2, 3)
    found = tuple(of_type(name, a, STRING) for a in args)
    for a in found[1:]:
        if not isinstance(a, Literal) or a.value is None:
            raise ValueError("LIKE wants a literal pattern")
    if len(found) == 3 and len(found[2].value) != 1:  # type: ignore[attr-defined]
        raise ValueError("ESCAPE wants one character")
    return Call(BOOLEAN, found[0].nullable, name, found)


def _part(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 1)
    (a,) = args
    if a.type is not TIMESTAMP and not (a.type is DATE and name in ("YEAR", "MONTH", "DAY")):
        raise ValueError(f"{a.type} has no {name}")
    return Call(INT, a.nullable, name, (a,))


UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""What DATE_TRUNC can cut down to. A week begins on Monday."""


def _truncated(name: str, args: tuple[Expression, ...]) -> Expression:
    _count(name, args, 2)
    unit, a = args
    if not isinstance(unit, Literal) or unit.type is not STRING or unit.value is None:
        raise ValueError(f"{name} wants a literal unit: 'hour'")
    if unit.value.upper() not in UNITS:
        raise ValueError(f"{name} goes by {', '.join(UNITS)}, not {unit.value}")
    if a.type not in (DATE, TIMESTAMP) and not _is_null(a):
        raise ValueError(f"{name} wants DATE or TIMESTAMP, not {a.type}")
    return Call(TIMESTAMP, a.nullable, name, (literal(STRING, unit.value.upper()), cast(a, TIMESTAMP)))


RULES: dict[str, Rule] = (
    dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic)
    | dict.fromkeys(("NEG", "ABS"), _sign)
    | dict.fromkeys(
        ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _comparison
    )
    | dict.fromkeys(("AND", "OR", "NOT"), _connective)
    | dict.fromkeys(("COALESCE", "GREATEST", "LEAST"), _first_known)
    | dict.fromkeys(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"), _part)
    | dict.fromkeys(("UPPER", "LOWER", "TRIM"), _text(STRING))
    | {"LENGTH": _text(INT), "SUBSTRING": _text(STRING, 2, 3), "||": _join, "CONCAT": _join, "LIKE": _like}
    | {"IS NULL": _is_null_test, "IN": _in, "BETWEEN": _between, "CASE": _case, "NULLIF": _nullif}
    | {"DATE_TRUNC": _truncated}
)
"""Every function there is, by name. BETWEEN, NULLIF and CONCAT are built from others."""
