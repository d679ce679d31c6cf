"""JSON by a JSON Schema: with exact numbers, in a bounded number of steps, and without a request for a `$ref`.

jsonschema has the keywords. Those are replaced here that match regular expressions, that compare whole values, or that
calculate with floats: Python's expressions may take exponential time. Patterns are those of Java, as in Confluent's
serializer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, Final

import attrs
from jsonschema import Draft3Validator, Draft4Validator, Draft7Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, UnknownDialect

from pylogbroker.java.pattern import Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError
from pylogbroker.json_text import exact_integer, exact_number
from pylogbroker.schemas.errors import InvalidSchema, Unencodable

_ROOT: Final = ""
_MESSAGE_MAX: Final = 200
_SHOWN_MAX: Final = 60
_ERRORS_MAX: Final = 100
_STEPS: Final = 200_000
_STEPS_PER_CHARACTER: Final = 16
_CHARACTERS_PER_ERROR_STEP: Final = 100
"""Errors show the value, so that they take long for a large one."""
_DIGITS_MAX: Final = 4000
_ENDLESS: Final = "it takes too many steps to check: the schema has patterns or references that repeat"

_Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class ExactNumber(Decimal):
    """A number with a fraction or an exponent; errors show it as it is."""

    def __repr__(self) -> str:
        return str(self)


def number_with_fraction(text: str) -> ExactNumber:
    return ExactNumber(exact_number(text))


def number_of_schema(text: str) -> ExactNumber | int:
    """Return a number of a schema: 2.0 is allowed where it asks for an integer."""
    number = number_with_fraction(text)
    is_short = number.is_finite() and 0 <= number.adjusted() < 20
    return int(number) if is_short and number == number.to_integral_value() else number


class _Steps(threading.local):
    """Steps that are left for the value that this thread checks, and what an error of it takes."""

    left = 0
    of_error = 1

    def take(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise Unencodable("", _ENDLESS)


@attrs.frozen(eq=False, repr=False)
class JsonValidator:
    """A schema without `$schema` is one of draft 7."""

    _validator: Any
    _steps: _Steps

    @classmethod
    def of(cls, schema: Any, documents: Mapping[str, Any]) -> JsonValidator:
        """`documents` are what `$ref` may name. Raise InvalidSchema, or what jsonschema raises."""
        every = [schema, *documents.values()]
        if not all(isinstance(document, dict | bool) for document in every):
            raise InvalidSchema("this is no JSON Schema: expected an object, true or false")
        kind = validator_for(schema, default=Draft7Validator)
        try:
            kind.check_schema(schema, format_checker=FormatChecker(()))  # patterns are Java's
        except SchemaError as error:
            raise InvalidSchema(f"this is no JSON Schema: {error.json_path}: {error.message[:_MESSAGE_MAX]}") from error
        if any(_has_member(document, "unevaluatedProperties") for document in every) and any(
            _has_member(document, "patternProperties") for document in every
        ):
            raise InvalidSchema("unevaluatedProperties with patternProperties is not supported for writing")
        steps = _Steps()
        resources = [(name, _resource(document)) for name, document in documents.items()]
        registry = REGISTRY.with_resources([*resources, (_ROOT, _resource(schema))])
        return cls(_bounded(kind, steps)(schema, registry=registry), steps)

    def check(self, text: str) -> None:
        """Raise Unencodable or InvalidSchema."""
        value = _parsed(text)
        self._steps.left = _STEPS + _STEPS_PER_CHARACTER * len(text)
        self._steps.of_error = 1 + len(text) // _CHARACTERS_PER_ERROR_STEP
        try:
            problem = best_match(islice(self._validator.iter_errors(value), _ERRORS_MAX))
        except Unresolvable as error:
            raise InvalidSchema(f"$ref {error.ref} names no schema") from error
        if problem is not None:
            message = problem.message
            short = message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"
            raise Unencodable(problem.json_path.removeprefix("$").removeprefix("."), short)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=number_with_fraction, parse_int=exact_integer)
    except ValueError as error:
        raise Unencodable("", f"this is no JSON: {error}") from error


def _resource(document: Any) -> Any:
    try:
        return Resource.from_contents(document, default_specification=DRAFT7)
    except UnknownDialect:
        return DRAFT7.create_resource(document)


def _has_member(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(_has_member(member, name) for member in value.values())
    return isinstance(value, list) and any(_has_member(item, name) for item in value)


def _bounded(kind: Any, steps: _Steps) -> Any:
    """Return a validator class whose keywords take steps."""
    patterns = _Patterns(steps)
    own: dict[str, _Keyword] = {
        "pattern": patterns.pattern,
        "patternProperties": patterns.pattern_properties,
        "additionalProperties": patterns.additional_properties,
        "multipleOf": _multiple_of,
        "divisibleBy": _multiple_of,
        "enum": lambda validator, value, instance, schema: _enum(steps, value, instance),
        "const": lambda validator, value, instance, schema: _const(steps, value, instance),
        "uniqueItems": lambda validator, value, instance, schema: _unique_items(steps, validator, value, instance),
    }
    keywords = {name: own.get(name, keyword) for name, keyword in kind.VALIDATORS.items()}
    counted = {name: _counted(keyword, steps) for name, keyword in keywords.items()}
    is_old = issubclass(kind, Draft3Validator | Draft4Validator)
    is_integer = _is_int if is_old else _is_whole
    return extend(kind, counted, type_checker=kind.TYPE_CHECKER.redefine("integer", is_integer))


def _counted(keyword: _Keyword, steps: _Steps) -> _Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps.take(1 + (len(value) if isinstance(value, dict | list) else 0))
        for error in keyword(validator, value, instance, schema) or ():
            steps.take(steps.of_error)
            yield error

    return check


def _is_int(checker: Any, instance: Any) -> bool:
    return isinstance(instance, int) and not isinstance(instance, bool)


def _is_whole(checker: Any, instance: Any) -> bool:
    if isinstance(instance, Decimal):
        return not instance.is_finite() or instance == instance.to_integral_value()
    return _is_int(checker, instance)


@attrs.frozen(eq=False, repr=False)
class _Patterns:
    """Keywords with regular expressions."""

    _steps: _Steps
    _compiled: dict[str, Pattern] = attrs.field(factory=dict)

    def _is_in(self, text: str, pattern: str) -> bool:
        compiled = self._compiled.get(pattern)
        short = pattern[:_SHOWN_MAX]
        if compiled is None:
            try:
                compiled = self._compiled[pattern] = Pattern.compile(pattern)
            except PatternError as error:
                raise InvalidSchema(f"the pattern {short!r} of the schema cannot be checked: {error}") from error
        self._steps.take(len(text))
        try:
            return next(compiled.find_all(text, self._steps.left), None) is not None
        except TooManySteps:
            raise Unencodable("", f"{_ENDLESS}: {short!r}") from None

    def pattern(self, validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not self._is_in(instance, value):
            short = instance if len(instance) <= _SHOWN_MAX else f"{instance[:_SHOWN_MAX]}…"
            yield ValidationError(f"{short!r} does not match {value!r}")

    def pattern_properties(self, validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            for pattern, below in value.items():
                for name, member in instance.items():
                    if self._is_in(name, pattern):
                        yield from validator.descend(member, below, path=name, schema_path=pattern)

    def additional_properties(self, validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(instance, dict):
            return
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, member in instance.items():
            if name in properties or any(self._is_in(name, pattern) for pattern in patterns):
                continue
            if isinstance(value, dict):
                yield from validator.descend(member, value, path=name)
            elif not value:
                yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")


def _multiple_of(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, int | Decimal) and not isinstance(instance, bool):
        if not _is_short(instance) or not _is_short(value):
            raise Unencodable("", f"a number has more than {_DIGITS_MAX} digits: multipleOf is not checked for it")
        if Fraction(instance) % Fraction(value):
            yield ValidationError(f"{instance!r} is not a multiple of {value!r}")


def _is_short(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return True
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and len(number.as_tuple().digits) + abs(exponent) <= _DIGITS_MAX


def _enum(steps: _Steps, value: Any, instance: Any) -> Iterator[Any]:
    key = _key(steps, instance)
    if not any(_key(steps, option) == key for option in value):
        yield ValidationError(f"{instance!r} is not one of {value!r}")


def _const(steps: _Steps, value: Any, instance: Any) -> Iterator[Any]:
    if _key(steps, instance) != _key(steps, value):
        yield ValidationError(f"{value!r} was expected")


def _unique_items(steps: _Steps, validator: Any, value: Any, instance: Any) -> Iterator[Any]:
    if value and isinstance(instance, list):
        keys = {_key(steps, item) for item in instance}
        if len(keys) < len(instance):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _key(steps: _Steps, value: Any) -> Any:
    """Return what is the same for equal values of JSON: 1 and 1.0, but not 1 and true."""
    steps.take(1)
    if isinstance(value, dict):
        return "object", frozenset((name, _key(steps, member)) for name, member in value.items())
    if isinstance(value, list):
        return "array", tuple(_key(steps, item) for item in value)
    return "boolean" if isinstance(value, bool) else "", value
