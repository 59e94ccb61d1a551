"""Machine code of a GPU kernel as a list of instructions, with what each says to the scheduler that issues it.

The text is that of `nvdisasm -c -hex -gi`; of a kernel compiled with line numbers it tells from which lines of which
sources each instruction comes, and Warp gives lines of Python. An instruction has 128 bits; 21 of them, from bit 105
on, are for the scheduler: cycles until the same warp may issue again, a barrier that is raised until its result stands,
one that is raised until its operands have been read, and the barriers that have to be down before it is issued.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

CONTROL_BIT = 105 - 64  # in the upper half
NO_BARRIER = 7
FIRST_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/")
SECOND_LINE = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
PLACE = re.compile(r'File "([^"]+)", line (\d+)')
LABEL = re.compile(r"^([.$\w]+):")
TARGET = re.compile(r"`\((.+?)\)")
DISASSEMBLER = "nvidia-cuda-nvdisasm"


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        address: In bytes.
        text: As the disassembler writes it.
        stall: Cycles until the same warp may issue again.
        write_barrier: Number of the barrier that is up until the result stands; None for none.
        read_barrier: Number of the barrier that is up until the operands have been read.
        waits: Numbers of the barriers that have to be down.
        places: File and line of the source that it comes from, and of the calls that led there.
    """

    address: int
    text: str
    stall: int
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    places: tuple[tuple[str, int], ...] = ()

    @property
    def predicate(self) -> str:
        """The predicate under which it runs, with its sign, or nothing."""
        return self.text.split()[0] if self.text.startswith("@") else ""

    @property
    def operation(self) -> str:
        """Its name with all modifiers, such as IMAD.WIDE."""
        return self.text.split()[1 if self.predicate else 0]

    @property
    def name(self) -> str:
        """Its name without modifiers."""
        return self.operation.split(".")[0]

    @property
    def target(self) -> str:
        """The label where it leads to, or nothing."""
        found = TARGET.search(self.text)
        return found[1] if found else ""


@dataclass(frozen=True)
class Listing:
    """Instructions in the order of their addresses, and the place of each label among them."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def instruction(address: int, text: str, upper: int, places: Iterable[tuple[str, int]] = ()) -> Instruction:
    """Return an instruction from its text and the upper half of its bits."""
    control = upper >> CONTROL_BIT
    write, read = (number if number != NO_BARRIER else None for number in ((control >> 5) & 7, (control >> 8) & 7))
    waits = tuple(k for k in range(6) if control >> (11 + k) & 1)
    return Instruction(address, text, control & 15, write, read, waits, tuple(places))


def read_listing(text: str) -> Listing:
    """Return the instructions of the one function that a listing has.

    Raises:
        ValueError: There are none.
    """
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    begun: tuple[int, str] | None = None
    places: list[tuple[str, int]] = []
    in_places = False
    for line in text.splitlines():
        if line.lstrip().startswith("//##"):
            places = [*(places if in_places else []), *((file, int(number)) for file, number in PLACE.findall(line))]
        in_places = line.lstrip().startswith("//##")
        first, second = FIRST_LINE.match(line), SECOND_LINE.match(line)
        if first:
            begun = int(first[1], 16), first[2]
        elif second and begun:
            found.append(instruction(*begun, int(second[1], 16), dict.fromkeys(places)))
            begun = None
        elif label := LABEL.match(line):
            labels[label[1]] = len(found)
    if not found:
        raise ValueError("There is no instruction in this listing.")
    return Listing(tuple(found), labels)


def disassembled(cubin: bytes) -> str:
    """Return the listing of a cubin, by NVIDIA's disassembler; no card is needed.

    Raises:
        FileNotFoundError: The disassembler is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [disassembler(), "-c", "-hex", "-gi", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def disassembler() -> Path:
    """Return the path of NVIDIA's disassembler.

    Raises:
        FileNotFoundError: It is not installed.
    """
    try:
        files = metadata.files(DISASSEMBLER) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.name in ("nvdisasm", "nvdisasm.exe"):
            return path
    raise FileNotFoundError(f"The package {DISASSEMBLER} is not installed; the extra 'test' brings it.")
