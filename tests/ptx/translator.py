"""From PTX, as NVRTC writes it, to C++ for the pretended device: a variable for each register, labels and gotos.

    %r7            a variable of the function           $L__BB0_3     a label
    [%rd4+8]       an address of this process           .param        bytes that an argument brings, or a local array
    .local         an array of the function             .shared       an offset in the memory of the thread's block

`instructions.py` says which instructions there are; what is in neither file is an error that names it. A thread may be
interrupted where it reaches for memory of the device and where it goes back. Executed instructions are counted, by
stretches without a jump.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator

from tests.ptx.instructions import MEMORY, TYPES, VECTORS, TranslationFault, word

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
PRAGMA = re.compile(r'^\.pragma "(nounroll|enable_smem_spilling|used_bytes_mask \w+)"$')  # which change no result
REGISTERS = re.compile(r"^\.reg +\.(\w+)\s+(.+)$")
LABEL = re.compile(r"^\s*(\$[\w$]+):", re.MULTILINE)
GUARD = re.compile(r"^@(!?)%(\w+)\s+")
OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^\s,{}\[\]]+")
ADDRESS = re.compile(r"^\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]$")
FLOAT = re.compile(r"^0([fFdD])([0-9A-Fa-f]+)$")
SPECIAL = {"tid": "thread", "ctaid": "block", "ntid": "block_size", "nctaid": "grid"}
JUMPS = ("bra", "ret")
VERSION = 9  # of PTX


def translate(ptx: str) -> str:
    """Return a module as C++; a constant in it lists the instructions, by opcode, as JSON.

    Raises:
        TranslationFault: The module has something that is not known here; the message names it.
    """
    source = COMMENT.sub("", ptx.rstrip("\0"))
    head = HEAD.search(source)
    if head is None or int(head[1]) != VERSION:
        raise TranslationFault("This is no PTX of the known version.")
    outside = FUNCTION.sub("", source[head.end() :])
    variables = [_variable(text) for text in outside.split(";") if text.strip()]
    functions = [_Function(one, variables) for one in FUNCTION.finditer(source) if one["body"] is not None]
    used = set().union(*(function.words for function in functions))
    text = ['#include "ptx.h"']
    text += [_storage(one) for one in variables if one["space"] != "shared" and one["name"] in used]
    text += [f"{function.head};" for function in functions]
    text += [function.text() for function in functions]
    opcodes = sum((function.opcodes for function in functions), Counter[str]())
    text.append(f'extern "C" const char opcodes_of_module[] = "opcodes of PTX: " {json.dumps(json.dumps(opcodes))};')
    return "\n".join(text) + "\n"


def _variable(text: str) -> re.Match[str]:
    match = VARIABLE.match(text.strip())
    if match is None:
        raise TranslationFault(f"Unknown declaration: {text.strip()[:100]!r}")
    return match


def _size(one: re.Match[str]) -> int:
    return int(one["count"] or 1) * TYPES[one["type"]]


def _storage(one: re.Match[str]) -> str:
    """A variable of a module or a function as an array."""
    array = f"{one['type']} {_name(one['name'])}[{one['count'] or 1}]"
    aligned = f"alignas({one['align'] or TYPES[one['type']]})"
    if one["space"] in ("local", "param"):
        return f"{aligned} {array};"
    values = ", ".join(_number(value.strip()) for value in (one["values"] or "0").split(","))
    return f"{aligned} static {array} = {{{values}}};"


def _name(name: str) -> str:
    return "v" + name.replace("$", "_d")


def _register(name: str) -> str:
    return "_" + name.replace("$", "_d")


def _number(text: str) -> str:
    match = FLOAT.match(text)
    if match is None:
        return f"{int(text, 0) % 2**64}ull"
    bits = {"f": 32, "d": 64}[match[1].lower()]
    return f"bits<f{bits}>((u{bits})0x{match[2]})"


class _Function:
    """A function of a module."""

    def __init__(self, match: re.Match[str], variables: list[re.Match[str]]) -> None:
        self._name, self._is_kernel, self.opcodes = match["name"], match["kind"] == "entry", Counter[str]()
        for line in match["directives"].split("\n"):
            if line.strip() and not DIRECTIVES.match(line.strip()):
                raise TranslationFault(f"Unknown directive: {line.strip()!r}")
        self._given = [_variable(one) for one in (match["given"] or "").split(",") if one.strip()]
        results = [_variable(one) for one in (match["result"] or "").split(",") if one.strip()]
        self._pointers = [_name(one["name"]) for one in (*results, *self._given)]
        self.words = set(re.findall(r"[\w$]+", match["body"]))
        self._statements = list(_statements(match["body"]))
        self._seen: set[str] = set()  # labels
        self._length = 0  # of the stretch so far
        self._shared: dict[str, int] = {}
        self._shared_bytes = 0
        for one in (*variables, *map(VARIABLE.match, self._statements)):
            if one is not None and one["space"] == "shared" and one["name"] in self.words:
                align = int(one["align"] or TYPES[one["type"]])
                self._shared[one["name"]] = -(-self._shared_bytes // align) * align
                self._shared_bytes = self._shared[one["name"]] + _size(one)
        given = "void **given" if self._is_kernel else ", ".join(f"char *{name}" for name in self._pointers)
        self.head = f"static void {_name(self._name)}({given})"

    def text(self) -> str:
        """The function, and the entry by which the device calls it."""
        lines = [f"{self.head} {{", "const Place me = *pretended_place();", "bool carry;"]
        if self._is_kernel:
            lines += [f"char *{name} = (char *)given[{k}];" for k, name in enumerate(self._pointers)]
        lines += [*map(self._statement, self._statements), "}"]
        if self._is_kernel:
            sizes = ", ".join(str(_size(one)) for one in self._given)
            values = (_name(self._name), len(self._given), f"sizes_of_{self._name}", f'"{self._name}"')
            barriers = int(any(opcode.startswith("bar.") for opcode in self.opcodes))
            lines.append(f"static const size_t sizes_of_{self._name}[] = {{{sizes}}};")
            lines.append('extern "C" __attribute__((visibility("default")))')
            lines.append(f"const Kernel pretended_{self._name}{{")
            lines.append(f"{', '.join(map(str, values))}, {barriers}, {self._shared_bytes}, 1}};")
        return "\n".join(lines)

    def _statement(self, statement: str) -> str:
        label, guard = LABEL.match(statement), GUARD.match(statement)
        if label:
            self._seen.add(label[1])
            return f"{self._counted()}{_name(label[1])}:;"
        if statement in "{}":
            return statement
        if statement.startswith("."):
            return self._declaration(statement)
        opcode, _, rest = GUARD.sub("", statement).partition(" ")
        self.opcodes[opcode] += 1
        self._length += 1
        counted = self._counted() if opcode.split(".")[0] in JUMPS else ""
        done = self._instruction(opcode, OPERANDS.findall(rest))
        return counted + (f"if ({guard[1]}{_register(guard[2])}) {{ {done} }}" if guard else done)

    def _counted(self) -> str:
        """Code that counts the instructions since it was last asked for."""
        length, self._length = self._length, 0
        return f"executed += {length}; " if length else ""

    def _declaration(self, statement: str) -> str:
        registers, variable = REGISTERS.match(statement), VARIABLE.match(statement)
        if registers:
            names = []
            for name in registers[2].replace(" ", "").split(","):
                match = re.match(r"^%?([\w$]+?)(?:<(\d+)>)?$", name)
                if match is None:
                    raise TranslationFault(f"Unknown registers: {statement!r}")
                endings = range(int(match[2])) if match[2] else [""]
                names += [_register(f"{match[1]}{ending}") for ending in endings]
            return f"{registers[1]} {', '.join(names)};"
        if variable and variable["space"] in ("local", "param"):
            return _storage(variable)
        if (variable and variable["space"] == "shared") or PRAGMA.match(statement):
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
        if opcode in ("bra", "bra.uni"):
            pause = "pretended_pause(); " if operands[0] in self._seen else ""
            return f"{pause}goto {_name(operands[0])};"
        if opcode == "ret":
            return "return;"
        if opcode == "call.uni":
            return self._call(operands)
        if opcode == "bar.warp.sync" and operands == ["-1"]:
            return "pretended_meet(0);"
        if opcode == "bar.sync" and operands == ["0"]:
            return "pretended_meet(1);"
        if opcode.split(".")[0] in MEMORY:
            return self._memory(opcode, operands)
        if operands and any(operand.startswith("{") for operand in operands):
            return self._packed(opcode, operands)
        function, carries = word(opcode, len(operands))
        given = ", ".join([*(["carry"] if carries else []), *map(self._value, operands[1:])])
        return f"put({self._value(operands[0])}, {function}({given}));"

    def _call(self, operands: list[str]) -> str:
        """Of `call (results), function, (arguments)`: parentheses are among the operands."""
        callee = next(one for one in operands if not re.search("[()]", one))
        given = [name for name in re.findall(r"[\w$]+", " ".join(operands)) if name != callee]
        return f"{_name(callee)}({', '.join(f'(char *){_name(name)}' for name in given)});"

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
        others_may_come = found["space"] in ("global", None) and not found.get("kept")
        pause = "pretended_pause(); " if others_may_come else ""
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


def _parts(operand: str) -> list[str]:
    return operand.strip("{}").replace(" ", "").split(",")


def _statements(body: str) -> Iterator[str]:
    """Labels with their colon, braces of blocks, and what ends with a semicolon, without it."""
    text = LABEL.sub(r"\1:;", body)
    text = re.sub(r"^\s*([{}])\s*$", r"\1;", text, flags=re.MULTILINE)
    for statement in text.split(";"):
        if statement.strip():
            yield " ".join(statement.split())
