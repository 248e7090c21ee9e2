"""The kernels of a file, and their launches in the host's code around it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewave.basics.paths import relative
from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping.scopes import (
    DTYPES,
    LEVELS,
    WHOLE,
    Scope,
    definitions,
    parts,
    spelled,
    until,
)
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Declaration, Macro, Stream, Token, Tokens
from tilewave.kernel.front_matter import Compiler

TABLES = table_beside(__file__)
QUALIFIERS = frozenset(TABLES["qualifiers"].split())
TYPED = {kind: name for name, kinds in TABLES["members"].items() for kind in kinds}
"""Type of a struct's member -> its type in front matter, empty if none is needed."""
TYPE, GRID, CAST, ALLOCATED, BLOCKS = map(
    re.compile, map(TABLES.get, "type grid cast allocated blocks".split())
)
SAFE = frozenset(TABLES["safe"].split())


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter. type: without qualifiers and stars; stars: their number."""

    name: str
    type: str
    stars: int
    constant: bool


@dataclass(frozen=True)
class TemplateParameter:
    """A template parameter. kind: ``typename`` or the type of a value; default: tokens, or empty."""

    kind: str
    name: str
    default: Tokens

    @property
    def is_type(self) -> bool:
        return self.kind in ("typename", "class")


@dataclass(frozen=True)
class Function:
    """A ``__global__`` function. bound: threads of its launch bounds, if any; parameters: with the members of
    a struct in its place; tree: index of each parameter of the signature, a tuple for a struct by value; overload: types
    of the parameters, where they tell it from another kernel of its name; off: the switch that is 0 in its trials."""

    name: str
    file: Path
    declaration: Declaration
    template: tuple[TemplateParameter, ...]
    parameters: tuple[Parameter, ...]
    bound: Tokens
    tree: tuple[Any, ...]
    overload: str = ""
    off: str = ""

    @property
    def label(self) -> str:
        """The name, and what tells it from another kernel of that name: ``add(float *, int)``."""
        return f"{self.name}({self.overload})" if self.overload else self.name

    def nested(self, arguments: Sequence[Any]) -> list[Any]:
        """Nest the arguments as front matter has them: a list for the members of a struct."""

        def of(node: Any, member: bool = True) -> Any:
            if isinstance(node, tuple):
                return [of(member) for member in node]
            typed = "" if self.parameters[node].stars else TYPED.get(self.parameters[node].type, "")
            return {typed: arguments[node]} if member and typed else arguments[node]

        return [of(node, member=False) for node in self.tree]

    def launch_arguments(self, arguments: Sequence[Tokens]) -> list[Tokens]:
        """Return the argument of a launch for each parameter; empty for members of a struct."""
        by_parameter: list[Tokens] = [()] * len(self.parameters)
        for node, argument in zip(self.tree, arguments):
            if isinstance(node, int):
                by_parameter[node] = argument
        return by_parameter

    @property
    def qualified(self) -> str:
        """The name with its namespaces; ``::name`` for a static function, so that NVRTC keeps it."""
        static = any(token.text == "static" for token in syntax.plain_head(self.declaration.head))
        scoped = "::".join((*self.declaration.scope, self.name))
        return f"::{scoped}" if static and "::" not in scoped else scoped

    @functools.cached_property
    def text(self) -> str:
        """The body, with a space between its tokens."""
        return spelled(self.declaration.body)

    @property
    def whole(self) -> list[str]:
        """The names of the parameters that are whole numbers, no members of structs."""
        numbers = (of for of in self.parameters if of.name.isidentifier() and not of.stars)
        return [of.name for of in numbers if {*of.type.split()} <= WHOLE]

    def tests(self, name: str) -> bool:
        """Return whether the body compares a parameter, other than as the end of a loop; a number of tiles is none."""
        text, name = self.text, name.replace(".", r" \. ")
        aliases = re.findall(rf"\b(\w+) = {name} ;", text)
        name = rf"(?:{'|'.join([name, *aliases])})"
        text = re.sub(r"\bfor \( [^;]*;[^;]*;", "", text)
        text = re.sub(r"\w+ (?:[-+] \w+ \) )?(?:/|%|> >) (?:\( )?\w+", "", text)
        return bool(re.search(rf"(?:<|> =) (?:\( )?{name}\b|\b{name} (?:>|< =)", text))

    @property
    def strides_by_grid(self) -> bool:
        """Whether a loop's step has the size of the grid."""
        steps = "|".join(["gridDim", *re.findall(r"\b(\w+) = [^;=]*\bgridDim\b", self.text)])
        return bool(re.search(rf"\+ ?= [^;)]*\b(?:{steps})\b", self.text))

    @property
    def repeats(self) -> bool:
        """Whether each block surely does the same: the kernel takes no number, and its code does not ask for a block."""
        others = {*re.findall(r"\b(\w+) \(", self.text)} - SAFE
        return all(of.stars for of in self.parameters) and not (others or BLOCKS.search(self.text))

    def adds(self, name: str) -> bool:
        """Return whether the body has an atomic on a pointer."""
        pointer = rf"(?:& |\( )*{re.escape(name)}\b"
        return bool(re.search(rf"\batomic\w+ (?:< [^;(]* > )?\( {pointer}", self.text))

    def ignores(self, name: str) -> bool:
        """Return whether the body, if it is known, mentions neither a parameter nor the whole struct that it is of."""
        struct, _, member = name.partition(".")
        whole = member and re.search(rf"\b{struct}\b(?! \.)", self.text)
        return bool(self.text) and not (whole or self.mentions(name))

    def mentions(self, *sequence: str) -> bool:
        """Return whether the body has these tokens in sequence."""
        wanted = " ".join(" ".join(sequence).replace(".", " . ").split())
        return f" {wanted} " in f" {self.text} "


@dataclass(frozen=True)
class Launch:
    """A launch in the host's code, each part as tokens; ``scope`` resolves its names. place: ``line 3 of host.cu``."""

    template: tuple[Tokens, ...]
    grid: Tokens
    block: Tokens
    shared: Tokens
    arguments: tuple[Tokens, ...]
    scope: Scope
    place: str

    @property
    def has_sure_block(self) -> bool:
        """Whether each name in its block has one value."""
        return all(len(self.scope.values(name)) < 2 for name in self.scope.names(self.block))


@dataclass(frozen=True, eq=False)  # what is asked again is kept
class Source:
    """The files that are read: the kernel's file, its headers and the files around it."""

    path: Path
    texts: dict[Path, str]
    kernel_files: tuple[Path, ...] = ()
    """The kernel's file and the headers that it includes."""
    macro_names: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    """Names of the macros that the kernel's files or the command line define, for each of those files."""
    later: int = 0
    """Number of launches before the one that counts."""
    smaller: Mapping[str, str] = field(default_factory=dict)
    missing: Set[str] = frozenset()
    """Values of constants in the texts instead of the files', which are too large to execute."""

    @functools.cached_property
    def macros(self) -> dict[str, Macro]:
        by_name: dict[str, Macro] = {}
        for path in (*self.kernel_files, *self.texts):
            by_name = {**syntax.macros(self.texts[path], self.macro_names.get(path)), **by_name}
        return by_name

    @functools.cached_property
    def near(self) -> Source:
        """The kernel's file and its headers alone."""
        return replace(self, texts={path: self.texts[path] for path in self.kernel_files})

    def with_smaller(self, constants: Mapping[str, str]) -> Source:
        """Return the files with these values of macros and constants."""
        filled = Compiler(constants=dict(constants)).filled if constants else str
        texts = {path: filled(text) for path, text in self.texts.items()}
        return replace(self, texts=texts, smaller=constants)

    def declarations(self, word: str = "") -> Iterator[tuple[Path, Declaration]]:
        """Yield the declarations of the files that contain a word, those of the kernel's files first."""
        for path in dict.fromkeys((*self.kernel_files, *self.texts)):
            if word in self.texts[path]:
                with contextlib.suppress(syntax.Unreadable):
                    items = syntax.declarations(self.texts[path], self.macro_names.get(path))
                    yield from ((path, item) for item in items)

    @functools.lru_cache(maxsize=8)  # noqa: B019, so few are kept
    def functions(self) -> list[Function]:
        """Return the kernels of the file, then those of its headers."""
        functions = [
            self._with_members(signature(path, declaration))
            for path, declaration in self.near.declarations("__global__")
            if declaration.defined and any(t.text == "__global__" for t in declaration.head)
        ]
        named = [self._told_apart(of, functions) for of in functions]
        return sorted(named, key=lambda function: function.file != self.path)

    def _told_apart(self, function: Function, functions: Sequence[Function]) -> Function:
        """Give a kernel its overload if another has its name, as many parameters, and another of another type;
        their launches have to be alike, because their arguments' types are unknown."""
        alike = [of for of in functions if of.name == function.name]
        types = [_types(of.declaration) for of in alike]
        plain = not any(of.template for of in alike) and len({*map(len, types)}) == 1
        if not plain or len({*map(tuple, types)}) < len(alike) or not alike[1:]:
            return function
        launches = ((*of.grid, *of.block, *of.shared) for of in self.launches(function.name))
        if len({*map(spelled, launches)}) > 1:
            return function
        return replace(function, overload=", ".join(_types(function.declaration)))

    def _with_members(self, function: Function) -> Function:
        """Replace types by what they are other names for, and structs by their members."""
        flat = list[Parameter]()

        def laid(parameter: Parameter, depth: int = 0) -> Any:
            kind = self.plain(parameter.type)
            names = [name for name in kind.replace("*", " ").split() if name != "const"]
            stars, constant = parameter.stars + kind.count("*"), "const" in kind
            constant = constant or parameter.constant
            parameter = replace(parameter, type=" ".join(names), stars=stars, constant=constant)
            alike = {(of.type, of.stars) for of in self.members(parameter.type)} if stars else ()
            if len(alike) == 1 and (of := next(iter(alike))) and not of[1]:
                parameter = replace(parameter, type=of[0])  # structs of numbers of one type
            inside = self.members(parameter.type) if not parameter.stars and depth < LEVELS else ()
            if inside:
                named = ((member, f"{parameter.name}.{member.name}") for member in inside)
                return tuple(laid(replace(item, name=name), depth + 1) for item, name in named)
            flat.append(parameter)
            return len(flat) - 1

        tree = tuple(laid(parameter) for parameter in function.parameters)
        return replace(function, parameters=tuple(flat), tree=tree)

    def members(self, kind: str) -> tuple[Parameter, ...]:
        """Return the members of a struct; none if one is no pointer, number or such a struct."""
        named = kind.isidentifier() and kind not in (*TYPED, *DTYPES)
        for path, declaration in self.declarations(kind) if named else ():
            texts = [token.text for token in declaration.head]
            if declaration.kind != "type" or kind not in declaration.names or "{" not in texts:
                continue
            head = texts[: texts.index("{")]
            plain = {"union", "enum", "template", ":", "alignas"}.isdisjoint(head)
            fields = _members(self.texts[path], declaration) if plain else ()
            types = [self.plain(field.type) for field in fields if not field.stars]
            return fields if all(name in TYPED or self.members(name) for name in types) else ()
        return ()

    def constant(self, name: str) -> Tokens | None:
        """Return the value of a variable or an enumerator outside of functions."""
        for _, declaration in self.declarations(name):
            if name in declaration.names and declaration.kind == "variable":
                entries = definitions(declaration.head)[::-1]
                value = {variable: value for _, variable, value in entries}.get(name)
                return self._assigned(name) if not value or spelled(value) == "0" else value
            if name in declaration.names and "enum" in {token.text for token in declaration.head}:
                return _enumerator(declaration.head, name)
        return None

    def _assigned(self, name: str) -> Tokens | None:
        """Return what a function gives a variable outside of functions that begins with 0; None if no single one does."""
        form = re.compile(rf"[;{{}}] {name} = ([^;=]+) ;")
        bodies = (spelled(item.body) for _, item in self.declarations(name) if item.body)
        values = {of for body in bodies for of in form.findall(f"; {body}")}
        return tuple(syntax.tokens(values.pop())) if len(values) == 1 else None

    def plain(self, kind: str) -> str:
        """Return the type behind the name of a typedef, an alias or a macro."""
        texts = ((self.texts[path], self.macro_names.get(path)) for path in self.kernel_files)
        types = (_aliased(kind, *text) for text in texts)
        return next((name for name in types if name is not None), kind)

    def returned(self, name: str, count: int) -> tuple[Scope, list[str], Tokens] | None:
        """Return the scope, the parameters' names and the last return value of a function with ``count`` of them."""
        for path, declaration in self.declarations(name):
            ends = [i for i, token in enumerate(declaration.body) if token.text == "return"]
            if declaration.name == name and ends:
                names = [item.name for item in signature(path, declaration).parameters]
                body, scope = declaration.body, Scope(self, declaration.body, declaration.end)
                if len(names) == count:
                    return scope, names, until(body, ends[-1] + 1, ";")
        return None

    @functools.lru_cache(maxsize=8)  # noqa: B019, so few are kept
    def launches(self, kernel: str) -> list[Launch]:
        """Return the launches of a kernel by the host's functions and macros, those in its file first."""
        bodies = [
            (self._expanded(item.body, "<<<"), functools.partial(self._place, path), values)
            for path, outer in self.declarations(kernel)
            if "__global__" not in {token.text for token in outer.head}
            for item in (
                syntax.members(self.texts[path], outer) if outer.kind == "type" else [outer]
            )
            if kernel in item.identifiers
            for values in [(self._instantiated(outer), self._call(item))]
        ]
        named, by_macro = rf"\b{kernel}\b", list[Macro]()
        for macro in self.macros.values():
            pastes = "##" in macro.body and "<<" in macro.body
            for text in (macro.body, *(self._pasted(macro) if pastes else ())):
                if re.search(named, text) and "<<" in text:
                    by_macro.append(macro)
                    body = syntax.tokens(text)
                    bodies.append((body, functools.partial(self._defined, macro), ({}, (None, {}))))
        calls = "|".join(rf"\b{of.name} \(" for of in by_macro)
        for macro in self.macros.values() if calls else ():  # its grid may stand around a call
            body = syntax.tokens(macro.body)
            if re.search(calls, spelled(body)) and macro not in by_macro:
                body = self._expanded(body, named)
                bodies.insert(0, (body, functools.partial(self._defined, macro), ({}, (None, {}))))
        launches = (
            launch
            if launch.scope.caller
            else replace(launch, scope=launch.scope.called_by(caller, given, template))
            for body, place, (template, (caller, given)) in bodies
            for i, token in enumerate(body)
            if token.text == kernel
            for launch in self._launch(body, i, place)
        )
        return sorted(_by_branch([*launches]), key=_unlikely)[self.later :]

    def _expanded(self, body: Stream, what: str) -> Tokens:
        """Return tokens with the text of each macro that has this in it in place of the macro's calls."""
        tokens, i = list[Token](), 0
        while i < len(body):
            macro, value = self.macros.get(body[i].text), body[i : i + 1]
            called = macro and spelled(body[i + 1 : i + 2]) == "("
            if called and macro and macro.arguments and re.search(what, macro.body):
                end = syntax.closing(body, i + 1)
                values = dict(zip(macro.arguments, parts(body[i + 2 : end])))
                named = (values.get(of.text, (of,)) for of in syntax.tokens(macro.body))
                value, i = [replace(of, at=body[i].at) for all_of in named for of in all_of], end
            tokens += value
            i += 1
        return tuple(tokens)

    def _pasted(self, macro: Macro) -> Iterator[str]:
        """Yield the text of each call of a macro that makes names of its arguments."""
        call = re.compile(rf"\b{macro.name}\s*\(([^()]*)\)")
        for arguments in (values for text in self.texts.values() for values in call.findall(text)):
            by_name = dict(zip(macro.arguments or (), map(str.strip, arguments.split(","))))
            words = re.split(r"(\w+)", macro.body)
            yield re.sub(r"\s*##\s*", "", "".join(by_name.get(word, word) for word in words))

    def _instantiated(self, outer: Declaration) -> dict[str, Tokens]:
        """Return the template arguments of a host function or class where the files name it, else its defaults."""
        parameters, arguments = _template(outer.head), list[Tokens]()
        scope = f"{outer.scope[-1]} :: " if outer.scope else ""
        of_class = re.search(r"(\w+) < [^<>]+ > ::", spelled(outer.head))
        name = of_class[1] if of_class and outer.kind == "function" else outer.name
        plain = " , ".join(parameter.name for parameter in parameters)
        use = re.compile(rf"(?<!:: )(?:{scope})?\b{name} < (?!{plain} >)([^<>;(){{}}]+) >")
        for _, caller in self.declarations() if parameters else ():
            text = spelled(self._expanded((*caller.head, *caller.body), rf"\b{outer.name}\b"))
            if not arguments and (match := use.search(text)):
                template = self._instantiated(caller) if caller is not outer else {}
                around = Scope(self, caller.body, caller.end, template=template)
                arguments = [around.literal(part) for part in parts(syntax.tokens(match[1]))]
        values = [*arguments, *(parameter.default for parameter in parameters[len(arguments) :])]
        return {parameter.name: of for parameter, of in zip(parameters, values) if of}

    def _call(self, function: Declaration) -> tuple[Scope | None, dict[str, Tokens]]:
        """Return the scope and the arguments of a call of a host's function, by parameter: with most numbers, in most loops."""
        if function.kind != "function" or function.name == "main":
            return None, {}
        items = signature(self.path, function).parameters
        names, numbers = [of.name for of in items], [not of.stars for of in items]
        calls = list[tuple[Scope, dict[str, Tokens]]]()
        for _, caller in self.declarations(function.name):
            for i, token in enumerate(caller.body):
                called = token.text == function.name and caller is not function
                opening = syntax.after_template(caller.body, i + 1) if called else None
                if opening is not None:
                    scope = Scope(self, caller.body, token.at)
                    values = parts(caller.body[opening + 1 : syntax.closing(caller.body, opening)])
                    arrays = ALLOCATED.findall(spelled(caller.body))
                    if not any(spelled(of) in arrays for of in itertools.compress(values, numbers)):
                        calls.append((scope, dict(zip(names, map(scope.in_first_turn, values)))))

        def numbers_and_loops(call: tuple[Scope, dict[str, Tokens]]) -> tuple[int, int]:
            scope, given = call
            return sum(bool(scope.numbers(value)) for value in given.values()), len(scope.around)

        return max(calls, key=numbers_and_loops, default=(None, {}))

    def _place(self, path: Path, at: int) -> str:
        line = f"line {syntax.line_of(self.texts[path], at)}"
        return line if path == self.path else f"{line} of {relative(path)}"

    def _defined(self, macro: Macro, _: int) -> str:
        define = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{macro.name}\b", re.MULTILINE)
        matches = ((path, define.search(text)) for path, text in self.texts.items())
        places = (self._place(path, match.start()) for path, match in matches if match)
        return next(places, macro.name)

    def _launch(self, body: Stream, at: int, place_of: Callable[[int], str]) -> Iterator[Launch]:
        """Yield the launch that begins with the name at ``at``, or follows a pointer to it."""
        i, place = at + 1, place_of(body[at].at)
        scope = Scope(self, tuple(body), body[at].at)
        template: tuple[Tokens, ...] = ()
        if _chevrons(body, i, "<") is None and i < len(body) and body[i].text == "<":
            try:
                end = syntax.angle(body, i)
            except syntax.Unreadable:
                return
            template = tuple(parts(body[i + 1 : end]))
            i = end + 1
        start = _chevrons(body, i, "<")
        if start is not None:
            stop = next((j for j in range(start, len(body)) if _chevrons(body, j, ">")), None)
            if stop is None:
                return
            grid, block, shared, *_ = [*parts(body[start:stop]), (), (), ()]
            passed = parts(body[stop + 4 : syntax.closing(body, stop + 3)])
            arguments = tuple(map(_without_cast, passed))
            yield Launch(template, grid, block, shared, arguments, scope, place)
        elif i < len(body) and body[i].text in ";,):}>":
            yield from self._by_pointer(body, at, i, Launch(template, (), (), (), (), scope, place))

    def _by_pointer(self, body: Stream, index: int, end: int, launch: Launch) -> Iterator[Launch]:
        """Yield the launch of a kernel named as a value: cudaLaunchKernel's, a pointer's, else with the dim3s around."""
        opening = index - 1
        while opening > 0 and body[opening].text in ("&", "*", "(", ")", "void"):
            opening -= 1
        if body[opening].text.startswith("cudaLaunch") and body[opening + 1].text == "(":
            _, *geometry = parts(body[opening + 2 : syntax.closing(body, opening + 1)])
            grid, block, array, shared, *_ = [*geometry, (), (), (), ()]
            pointers = launch.scope.value(array[0].text) if array else None
            arguments = tuple(part[-1:] for part in parts(pointers or ()))
            yield replace(launch, grid=grid, block=block, shared=shared, arguments=arguments)
            return
        with contextlib.suppress(syntax.Unreadable):
            if passed := list(self._by_function(body, index, launch)):
                yield from passed
                return
        pointer = body[opening - 1].text if body[opening].text == "=" else ""
        for start in range(end, len(body)):
            if body[start].text == pointer and _chevrons(body, start + 1, "<") is not None:
                for by_pointer in self._launch(body, start, lambda _: launch.place):
                    skipped = _other_branches(body, index, start)
                    scope = replace(by_pointer.scope, skipped=skipped)
                    yield replace(by_pointer, template=launch.template, scope=scope)
                return
        first, text = dict[str, Token](), spelled(body)
        for at, name, _ in sorted(definitions(body), key=lambda entry: entry[0] < body[end].at):
            if re.search(rf"\bdim3 (?:[^;]*, )?{name}\b", text):
                kind = "grid" if GRID.search(name) else "block"
                first.setdefault(kind, Token(name, at, word=True))
        if len(first) == 2:
            at = max(body[end].at, *(token.at + 1 for token in first.values()))
            scope = replace(launch.scope, at=at)
            yield replace(launch, grid=(first["grid"],), block=(first["block"],), scope=scope)

    def _by_function(self, body: Stream, position: int, launch: Launch) -> Iterator[Launch]:
        """Yield the launch of a function of the host that gets the kernel as an argument, or as one of its template."""
        start = position - 1
        while start > 0 and (body[start].word or body[start].text == ","):
            start -= 1
        templated = body[start].text == "<"
        while (
            start > 0
            and not templated
            and (body[start].text != "(" or syntax.closing(body, start) < position)
        ):
            start -= 1
        at, name = len(parts(body[start + 1 : position])), body[max(start - 1, 0)].text
        for path, outer in self.declarations(name) if start else ():
            if outer.name == name and outer.body:
                of_outer = signature(path, outer)
                items: Sequence[Any] = of_outer.template if templated else of_outer.parameters
                kernels = [item.name for item in items[at : at + 1]]
                place = functools.partial(self._place, path)
                opening = syntax.after_template(body, start) or start
                values = parts(body[opening + 1 : syntax.closing(body, opening)])
                given = dict(zip((item.name for item in of_outer.parameters), values))
                for i, token in enumerate(outer.body):
                    if token.text in kernels and _chevrons(outer.body, i + 1, "<"):
                        for of in self._launch(outer.body, i, place):
                            scope = of.scope.called_by(launch.scope, given, {})
                            yield replace(of, template=launch.template, scope=scope)


def _unlikely(launch: Launch) -> tuple[bool, bool, bool]:
    """Return whether a launch is switched off, has no arguments, or one block, which tells less than many."""
    single = spelled(launch.scope.literal(launch.grid)) == "1"
    return launch.scope.is_off, not launch.arguments, single


def _by_branch(launches: Sequence[Launch]) -> Iterator[Launch]:
    """Yield launches of other templates by the same names of grid and block, which have a value in each branch, with those
    of their branch."""
    groups = dict[tuple[Tokens, str], list[Launch]]()
    for launch in launches:
        key = launch.scope.body, spelled((*launch.grid, *launch.block))
        groups.setdefault(key, []).append(launch)
    for group in groups.values():
        group.sort(key=lambda of: of.scope.at)
        scope = group[0].scope
        names = {*scope.names(group[0].grid), *scope.names(group[0].block)} if group[1:] else set()
        places = [[at for at, of, value in scope.before if of == name and value] for name in names]
        chosen = [sorted(of) for of in places if len(of) == len(group)]
        for at, launch in enumerate(group, 1):
            if chosen and at < len(group):
                skipped = min(of[at] for of in chosen), 1 + max(of[-1] for of in chosen)
                launch = replace(launch, scope=replace(launch.scope, skipped=skipped))
            yield launch


def _without_cast(argument: Tokens) -> Tokens:
    """Return the name in ``static_cast<int>(name)``, ``(int) name`` or ``int(name)``; another argument as it is."""
    inside = CAST.fullmatch(spelled(argument))
    name = next(filter(None, inside.groups()), "") if inside else ""
    return tuple(of for of in argument if of.text == name)[-1:] or argument


@functools.lru_cache(maxsize=1024)
def _aliased(kind: str, text: str, macro_names: frozenset[str] | None) -> str | None:
    """Return the type that a text gives another name; None if it does not."""
    name = re.escape(kind.rpartition("::")[2])  # of a class
    code = spelled(syntax.tokens(text, macro_names))
    match = re.search(rf"\btypedef ([\w *]+) \b{name} ;|\busing {name} = ([\w *]+) ;", code)
    macro = syntax.macros(text, macro_names).get(kind)
    if match is None and macro and macro.arguments is None and TYPE.fullmatch(macro.body):
        return macro.body
    return (match[1] or match[2]) if match else None


def shortened(sides: Sequence[Any]) -> list[Any]:
    """Return the sides of a grid, block or cluster without ones at the end."""
    more = [*itertools.dropwhile(lambda side: side == 1, sides[:0:-1])]
    return [*sides[:1], *more[::-1]]


def _chevrons(body: Stream, i: int, sign: str) -> int | None:
    """Return the index after three signs at ``i``, as in a launch (also ``<< <``); else None."""
    return i + 3 if [token.text for token in body[i : i + 3]] == [sign] * 3 else None


def _other_branches(body: Stream, position: int, launch: int) -> tuple[int, int]:
    """Return the part, from a `break` or `else` on, between a position and a launch that does not run in between."""
    depth, start, least = 0, None, 0
    for i in range(position, launch):
        text, follows = body[i].text, body[i + 1].text
        depth += {"{": 1, "}": -1}.get(text, 0)
        if start is None and text == "break" and depth == 0:
            start, least = i, -1
        elif start is None and text == "}" and depth < 0 and follows == "else":
            start, depth = i, 0
        elif start is not None and text == "}" and depth <= least:
            if follows not in ("case", "default", "else"):
                return body[start].at, body[i].at
            depth = 0
    return 0, 0


def _enumerator(head: Stream, wanted: str) -> Tokens | None:
    """Return the value of an enumerator: its own, else that before it and one."""
    start = [token.text for token in head].index("{")
    value: Tokens = ()
    for part in parts(head[start + 1 : syntax.closing(head, start)]):
        after = (*value, Token("+", 0), Token("1", 0)) if value else (Token("0", 0),)
        value = part[2:] if len(part) > 2 else after
        if part[0].text == wanted:
            return value
    return None


def _template(head: Stream) -> tuple[TemplateParameter, ...]:
    template: list[TemplateParameter] = []
    if head[0].text == "template" and head[1].text == "<":
        for part in parts(head[2 : syntax.angle(head, 1)]):
            texts = [token.text for token in part]
            cut = texts.index("=") if "=" in texts else len(texts)
            kinds = [text for text in texts[: cut - 1] or texts if text != "const"]
            kind = " ".join(kinds).replace(" :: ", "::")
            pointer = re.search(r"\( \* (\w+) \)", " ".join(texts))
            name = pointer[1] if pointer else texts[cut - 1]
            template.append(TemplateParameter(kind, name, part[cut + 1 :]))
    return tuple(template)


def signature(path: Path, declaration: Declaration) -> Function:
    head, plain = declaration.head, syntax.plain_head(declaration.head)
    opening = syntax.signs(plain, "(")[0]
    opening += 2 * (plain[opening - 1].text == "operator")  # its own parentheses
    inside = plain[opening + 1 : syntax.closing(plain, opening)]
    parameters = [
        replace(of, constant=of.constant or (of.stars == 1 and _is_read(of.name, declaration.body)))
        for of in map(_parameter, parts(inside))
    ]
    bounds = [i for i, token in enumerate(head) if token.text == "__launch_bounds__"]
    bound = parts(head[bounds[0] + 2 : syntax.closing(head, bounds[0] + 1)])[0] if bounds else ()
    name, tree = declaration.name, tuple(range(len(parameters)))
    kinds = {item.type for item in parameters}
    template = tuple(  # a type may be constrained by a concept
        replace(item, kind="typename") if item.name in kinds else item for item in _template(head)
    )
    return Function(name, path, declaration, template, tuple(parameters), bound, tree)


def _types(declaration: Declaration) -> list[str]:
    """Return the types of a kernel's parameters as they are written."""
    plain = syntax.plain_head(declaration.head)
    opening = syntax.signs(plain, "(")[0]
    texts = map(spelled, parts(plain[opening + 1 : syntax.closing(plain, opening)]))
    named = re.compile(r"(?<=.) ?\b\w+ (?=\[)|(?<=[*&\w]) \w+$")
    return [named.sub("", of.partition(" =")[0]) for of in texts]


def _is_read(name: str, body: Stream) -> bool:
    """Return whether a body reads elements of an array, and does nothing else with it."""
    texts = ["", "", *(token.text for token in body), "", "", ""]
    places = [at for at, text in enumerate(texts) if text == name and texts[at - 1] != "."]
    for at in places:
        before = texts[at - 2 : at]
        end = syntax.closing(body, at - 1) + 3 if texts[at + 1] == "[" else 0
        # A macro makes a vector of what follows an element: `FLOAT4(y[i]) = sum`.
        sign, second, *_ = itertools.dropwhile(")".__eq__, [*texts[end:], "", ""])
        changed = sign in ("=", ".", "[") and second != "="
        changed |= sign in tuple("+-*/%&|^") and second in ("=", sign) and second != "&"
        opening = next(of for of in texts[at - 1 :: -1] if of != "(")
        if not end or changed or opening == "&" or before in (["+", "+"], ["-", "-"], ["-", ">"]):
            return False
    return bool(places)


def _members(text: str, declaration: Declaration) -> tuple[Parameter, ...]:
    """Return the members of a struct; none if one is no plain number or pointer."""
    fields: list[Parameter] = []
    for member in syntax.members(text, declaration):
        texts = {token.text for token in member.head}
        if member.kind in ("function", "other") or "static" in texts:
            continue
        if member.kind == "type" or texts & {"[", ":", "alignas"}:
            return ()
        first, *more = map(_parameter, parts([token for token in member.head if token.text != ";"]))
        fields += [first, *(replace(m, type=first.type, constant=first.constant) for m in more)]
    return tuple(fields)


def _parameter(part: Stream) -> Parameter:
    texts = [token.text for token in part]
    texts = texts[: texts.index("=")] if "=" in texts else texts
    array = "[" in texts
    texts = texts[: texts.index("[")] if array else texts
    stars = texts.count("*") + array
    before = texts[:-1] if stars or len(texts) > 1 else texts
    kind = " ".join(word for word in before if word not in QUALIFIERS and word != "*")
    kind = kind.replace(" :: ", "::").removeprefix("std::")
    name = texts[-1] if texts[-1].isidentifier() else f"_{part[-1].at}"
    target = texts[: texts.index("*")] if "*" in texts else texts  # not the pointer itself
    return Parameter(name, kind, stars, "const" in target)
