"""The launches that find islands, run at once."""

from ik_service.linear_solve.islands import record_discovery


def discover_islands(structure, row_on, islands, *, join):
    """Finds the islands of every problem; the arguments are described in `record_discovery`."""
    for launch in record_discovery(structure, row_on, islands, join=join):
        launch.launch()
