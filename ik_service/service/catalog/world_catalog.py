"""Catalog of worlds: uploaded at run time, used by requests through their names."""

from collections.abc import Mapping
from types import MappingProxyType

from ik_service.robots import World
from ik_service.robots.readers.world_file import world_document
from ik_service.service.catalog.catalog import Catalog
from ik_service.service.catalog.entries import KeptWorld
from ik_service.service.codecs.msgpack_codec import MsgpackCodec
from ik_service.service.documents.surroundings import WorldLimits, read_objects
from ik_service.service.errors.exceptions import UnknownWorldError, WorldNameError
from ik_service.service.schema.collision import MAX_KEPT_BYTES, MAX_KEPT_NODES, MAX_KEPT_OBJECTS
from objectives.errors import InputError

KEPT_LIMITS = WorldLimits(MAX_KEPT_OBJECTS, MAX_KEPT_NODES, "a world that is kept")


def world_text(world: World) -> bytes:
    """Return a world as MessagePack, the format of its file."""
    return MsgpackCodec().encode(world_document(world))


class WorldCatalog(Catalog[KeptWorld]):
    """Worlds by name, also as the mapping `worlds`; see `Catalog`."""

    noun, most_bytes = "world", MAX_KEPT_BYTES
    unknown_error, name_error = UnknownWorldError, WorldNameError

    def _set(self, served: dict[str, KeptWorld]) -> None:
        super()._set(served)
        self.worlds: Mapping[str, World] = MappingProxyType({name: one.world for name, one in served.items()})

    def _entry_of(self, _name: str, text: bytes) -> KeptWorld:
        document = MsgpackCodec().decode(text)
        if not isinstance(document, dict) or document.keys() != {"objects"}:
            raise InputError("It is no world.")
        return KeptWorld(text, read_objects(document["objects"], "/objects", KEPT_LIMITS))
