"""From PTX, as NVRTC writes it, to C++ for the pretended device: a variable for each register, labels and gotos.

    %r7            a variable of the function           $L__BB0_3     a label
    [%rd4+8]       an address of this process           .param        bytes that an argument brings, or a local array
    .local         an array of the function             .shared       an offset in the memory of the thread's block

`instructions.py` says which instructions there are; what is in neither file is an error that names it. A thread may be
interrupted where it reaches for memory of the device and where it goes back. No counting or checking is left out: every
stretch of code without a jump adds its length to the number of executed instructions.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.ptx.instructions import MEMORY, TYPES, TranslationFault, VECTORS, word

COMMENT = re.compile(r"//[^\n]*")
FUNCTION = re.compile(
    r"^(?:\.(?:visible|weak) +)?\.(?P<kind>entry|func)\s*(?:\((?P<result>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"\((?P<given>[^)]*)\)\s*(?P<directives>(?:\.\w+[^\n{;]*\s*)*)(?:;|\{\n(?P<body>.*?)\n\})",
    re.MULTILINE | re.DOTALL,
)
VARIABLE = re.compile(
    r"^\s*\.(?P<space>global|const|shared|local|param) +(?:\.align +(?P<align>\d+) +)?\.(?P<type>\w+)\s+"
    r"(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?(?:\s*=\s*\{?(?P<values>[^}]*)\}?)?\s*$"
)
HEAD = re.compile(r"\.version +(\d+)\.\d+\s+\.target +sm_\w+\s+\.address_size +64\s")
DIRECTIVES = re.compile(r"\.(?:maxntid|reqntid|minnctapersm|maxnreg|pragma|noreturn|noinline)\b")
PRAGMAS = ('"nounroll"', '"enable_smem_spilling"')  # which change no result
REGISTERS = re.compile(r"^\.reg +\.(\w+)\s+(.+)$")
LABEL = re.compile(r"^\s*(\$[\w$]+):", re.MULTILINE)
GUARD = re.compile(r"^@(!?)%(\w+)\s+")
OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^\s,{}\[\]]+")
ADDRESS = re.compile(r"^\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]$")
FLOAT = re.compile(r"^0([fFdD])([0-9A-Fa-f]+)$")
SPECIAL = {"tid": "thread", "ctaid": "block", "ntid": "block_size", "nctaid": "grid"}
ENDS_STRETCH = ("bra", "ret", "exit", "bar", "call")
VERSION = 9  # of PTX


@dataclass
class Translated:
    """C++ of a module, and which instructions it has, by opcode."""

    text: str
    opcodes: Counter[str] = field(default_factory=Counter)


def translate(ptx: str) -> Translated:
    """Return a module as C++.

    Raises:
        TranslationFault: The module has something that is not known here; the message names it.
    """
    source = COMMENT.sub("", ptx.rstrip("\0"))
    head = HEAD.search(source)
    if head is None or int(head[1]) != VERSION:
        raise TranslationFault("This is no PTX of the known version.")
    functions = list(FUNCTION.finditer(source))
    outside = FUNCTION.sub("", source[head.end() :])
    variables = [_variable(text) for text in outside.split(";") if text.strip()]
    bodies = [_Function(function, variables) for function in functions if function["body"] is not None]
    result = Translated("")
    text = ['#include "ptx.h"']
    for one in variables:
        if one["space"] != "shared" and any(one["name"] in function.used for function in bodies):
            text.append(_storage(one))
    text += [f"{function.head};" for function in bodies]
    for function in bodies:
        text.append(function.text())
        result.opcodes += function.opcodes
    listed = json.dumps(json.dumps(result.opcodes))
    text.append(f'extern "C" const char opcodes_of_module[] = "opcodes of PTX: " {listed};')
    result.text = "\n".join(text) + "\n"
    return result


def _variable(text: str) -> re.Match[str]:
    match = VARIABLE.match(text.strip())
    if match is None:
        raise TranslationFault(f"Unknown declaration: {text.strip()[:100]!r}")
    return match


def _size(one: re.Match[str]) -> int:
    return int(one["count"] or 1) * TYPES[one["type"]]


def _storage(one: re.Match[str]) -> str:
    """A variable of a module or a function as an array."""
    begin = f"{one['type']} {_name(one['name'])}[{one['count'] or 1}]"
    if one["space"] in ("local", "param"):
        return f"alignas({one['align'] or TYPES[one['type']]}) {begin};"
    values = ", ".join(_number(value.strip()) for value in (one["values"] or "0").split(","))
    return f"alignas({one['align'] or TYPES[one['type']]}) static {begin} = {{{values}}};"


def _name(name: str) -> str:
    return "v" + name.replace("$", "_d")


def _number(text: str) -> str:
    match = FLOAT.match(text)
    if match:
        return f"bits<{'f32' if match[1] in 'fF' else 'f64'}>((u{32 if match[1] in 'fF' else 64})0x{match[2]})"
    return f"{int(text, 0) % 2**64}ull"


class _Function:
    """A function of a module."""

    def __init__(self, match: re.Match[str], variables: list[re.Match[str]]) -> None:
        self.name, self.is_kernel, self.opcodes = match["name"], match["kind"] == "entry", Counter[str]()
        for line in match["directives"].split("\n"):
            if line.strip() and not DIRECTIVES.match(line.strip()):
                raise TranslationFault(f"Unknown directive: {line.strip()!r}")
        self._given = [_variable(one) for one in (match["given"] or "").split(",") if one.strip()]
        results = [_variable(one) for one in (match["result"] or "").split(",") if one.strip()]
        self._pointers = [_name(one["name"]) for one in (*results, *self._given)]
        self._shared, self._shared_bytes = {}, 0
        self._statements = list(_statements(match["body"]))
        declared = [VARIABLE.match(statement) for statement in self._statements]
        self.used = set(re.findall(r"[\w$]+", match["body"]))
        for one in (*variables, *declared):
            if one is not None and one["space"] == "shared" and one["name"] in self.used:
                align = int(one["align"] or TYPES[one["type"]])
                self._shared[one["name"]] = -(-self._shared_bytes // align) * align
                self._shared_bytes = self._shared[one["name"]] + _size(one)
        given = "void **given" if self.is_kernel else ", ".join(f"char *{name}" for name in self._pointers)
        self.head = f"static void {_name(self.name)}({given})"

    def text(self) -> str:
        lines = [f"{self.head} {{", "const Place me = *pretended_place();", "bool carry;"]
        if self.is_kernel:
            lines += [f"char *{name} = (char *)given[{k}];" for k, name in enumerate(self._pointers)]
        self._seen: set[str] = set()
        stretch = 0
        code: list[str] = []
        for statement in self._statements:
            is_label = LABEL.match(statement) is not None
            is_code = not is_label and statement[0] not in "{}."
            if is_code:
                stretch += 1
            code.append(self._statement(statement))
            if is_label or (is_code and self._opcode(statement).split(".")[0] in ENDS_STRETCH):
                stretch = self._counted(code, stretch)
        self._counted(code, stretch)
        lines += [line for line in code if line]
        lines.append("}")
        if self.is_kernel:
            lines.append(self._entry())
        return "\n".join(lines)

    @staticmethod
    def _counted(code: list[str], stretch: int) -> int:
        """Put the number of instructions before the last statement, which may leave; begin anew."""
        if stretch:
            code.insert(len(code) - 1, f"executed += {stretch};")
        return 0

    def _entry(self) -> str:
        sizes = ", ".join(str(_size(one)) for one in self._given)
        barriers = int(any(self._opcode(one).startswith("bar") for one in self._statements))
        return (
            f"static const size_t sizes_of_{self.name}[] = {{{sizes}}};\n"
            'extern "C" __attribute__((visibility("default"))) const Kernel '
            f"pretended_{self.name}{{{_name(self.name)}, {len(self._given)}, sizes_of_{self.name}, "
            f'"{self.name}", {barriers}, {self._shared_bytes}, 1}};'
        )

    @staticmethod
    def _opcode(statement: str) -> str:
        return GUARD.sub("", statement).split(None, 1)[0]

    def _statement(self, statement: str) -> str:
        label = LABEL.match(statement)
        if label:
            self._seen.add(label[1])
            return f"{_name(label[1])}:;"
        if statement in "{}":
            return statement
        if statement.startswith("."):
            return self._declaration(statement)
        guard = GUARD.match(statement)
        opcode, _, rest = GUARD.sub("", statement).partition(" ")
        self.opcodes[opcode] += 1
        done = self._instruction(opcode, OPERANDS.findall(rest))
        return f"if ({guard[1]}{_register(guard[2])}) {{ {done} }}" if guard else done

    def _declaration(self, statement: str) -> str:
        registers, variable = REGISTERS.match(statement), VARIABLE.match(statement)
        if registers:
            names = []
            for name in registers[2].replace(" ", "").split(","):
                match = re.match(r"^%?([\w$]+?)(?:<(\d+)>)?$", name)
                if match is None:
                    raise TranslationFault(f"Unknown registers: {statement!r}")
                names += [_register(f"{match[1]}{k}") for k in range(int(match[2]))] if match[2] else [_register(match[1])]
            return f"{registers[1]} {', '.join(names)};"
        if variable and variable["space"] in ("local", "param"):
            return _storage(variable)
        if (variable and variable["space"] == "shared") or (statement.partition(" ")[2] in PRAGMAS):
            return ""
        raise TranslationFault(f"Unknown declaration: {statement!r}")

    # ---- operands

    def _value(self, operand: str) -> str:
        if operand.startswith("%"):
            special, _, axis = operand[1:].partition(".")
            if axis:
                if special not in SPECIAL or axis not in "xyz":
                    raise TranslationFault(f"Unknown register: {operand!r}")
                return f"me.{SPECIAL[special]}.{axis}"
            return _register(special)
        if operand in self._shared:
            return f"{self._shared[operand]}u"
        if FLOAT.match(operand) or re.match(r"^-?\d", operand):
            return _number(operand)
        if re.match(r"^[A-Za-z_$][\w$]*$", operand):
            return _name(operand)
        raise TranslationFault(f"Unknown operand: {operand!r}")

    def _instruction(self, opcode: str, operands: list[str]) -> str:
        base = opcode.split(".")[0]
        if base == "bra" and opcode in ("bra", "bra.uni"):
            pause = "pretended_pause(); " if operands[0] in self._seen else ""
            return f"{pause}goto {_name(operands[0])};"
        if opcode in ("ret", "exit"):
            return "return;"
        if opcode == "call.uni":
            return self._call(operands)
        if opcode == "bar.warp.sync" and operands == ["-1"]:
            return "pretended_meet(0);"
        if opcode == "bar.sync" and operands == ["0"]:
            return "pretended_meet(1);"
        if base in MEMORY:
            return self._memory(opcode, operands)
        if operands and any(operand.startswith("{") for operand in operands):
            return self._packed(opcode, operands)
        function, carries = word(opcode, len(operands))
        given = ", ".join([*(["carry"] if carries else []), *map(self._value, operands[1:])])
        return f"put({self._value(operands[0])}, {function}({given}));"

    def _call(self, operands: list[str]) -> str:
        """Of `call (results), function, (arguments)`: parentheses are among the operands."""
        names = [name for name in re.findall(r"[\w$]+", " ".join(operands))]
        at = next(k for k, name in enumerate(operands) if "(" not in name and ")" not in name)
        callee = operands[at]
        given = [_name(name) for name in names if name != callee]
        return f"{_name(callee)}({', '.join(f'(char *){name}' for name in given)});"

    def _packed(self, opcode: str, operands: list[str]) -> str:
        """Of `mov` between a register and its parts, the lowest first."""
        if opcode not in ("mov.b32", "mov.b64") or len(operands) != 2:
            raise TranslationFault(f"Unknown instruction with several registers: {opcode}")
        bits = int(opcode[-2:])
        to, source = operands
        parts = _parts(to if to.startswith("{") else source)
        part = bits // len(parts)
        if to.startswith("{"):
            taken = [f"put({self._value(one)}, (u{part})(whole >> {k * part}));" for k, one in enumerate(parts)]
            return f"{{ u{bits} whole = as<u{bits}>({self._value(source)}); {' '.join(taken)} }}"
        whole = " | ".join(f"(u{bits})as<u{part}>({self._value(one)}) << {k * part}" for k, one in enumerate(parts))
        return f"put({self._value(to)}, {whole});"

    def _memory(self, opcode: str, operands: list[str]) -> str:
        match = MEMORY[opcode.split(".")[0]].match(opcode)
        if match is None:
            raise TranslationFault(f"Unknown instruction: {opcode}")
        found = match.groupdict()
        kind, count, is_load = found["type"], VECTORS[found.get("vector")], opcode.startswith("ld")
        place = next((operand for operand in operands if operand.startswith("[")), "")
        address = ADDRESS.match(place)
        if address is None:
            raise TranslationFault(f"Unknown address: {opcode} {place}")
        base = self._value(address[1])
        if found["space"] == "shared":
            base = f"pretended_shared() + {base}"
        elif address[1] in self._shared:
            raise TranslationFault(f"A generic address in shared memory: {opcode}")
        is_shared = found["space"] in ("global", None) and not found.get("kept")
        pause = "pretended_pause(); " if is_shared else ""
        begin = f"{pause}char *a = at<{kind}, {count}>({base}, {address[2] or 0});"
        others = [operand for operand in operands if operand != place]
        if found.get("change"):
            done = self._change(found["change"], kind, others, opcode.startswith("red"))
        else:
            size = TYPES[kind]
            ends = [self._value(one) for one in (_parts(others[0]) if count > 1 else others)]
            if len(ends) != count:
                raise TranslationFault(f"Wrong number of operands: {opcode}")
            text = "put({0}, load<{1}>(a + {2}));" if is_load else "store<{1}>(a + {2}, {0});"
            done = " ".join(text.format(one, kind, k * size) for k, one in enumerate(ends))
        return f"{{ {begin} {done} }}"

    def _change(self, change: str, kind: str, operands: list[str], no_result: bool) -> str:
        """What an atomic instruction does: it gives what was there before."""
        values = [self._value(one) for one in operands[0 if no_result else 1 :]]
        after = {
            "exch": "as<{0}>({1})",
            "cas": "before == as<{0}>({1}) ? as<{0}>({2}) : before",
        }.get(change, "{3}_<{0}>(before, {1})")
        text = after.format(kind, *values[:1], values[-1], change)
        done = f"atomically<{kind}>(a, [&]({kind} before) {{ return {text}; }})"
        return f"{done};" if no_result else f"put({self._value(operands[0])}, {done});"


def _register(name: str) -> str:
    return "_" + name.replace("$", "_d")


def _parts(operand: str) -> list[str]:
    return operand.strip("{}").replace(" ", "").split(",")


def _statements(body: str) -> Iterator[str]:
    """Labels with their colon, braces of blocks, and what ends with a semicolon, without it."""
    text = LABEL.sub(r"\1:;", body)
    text = re.sub(r"^\s*([{}])\s*$", r"\1;", text, flags=re.MULTILINE)
    for statement in text.split(";"):
        if statement.strip():
            yield " ".join(statement.split())
