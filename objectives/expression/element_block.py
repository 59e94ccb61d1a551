"""The elements of one row group on a device, and the launches of its kernels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from objectives.expression.element_table import ElementTable
from objectives.expression.kernels import jacobian_kernel, residual_kernel


@dataclass(frozen=True)
class ElementBlock:
    """The elements of one group, as arrays that its kernels read; see `ElementTable`."""

    table: ElementTable
    integers: wp.array[wp.int32]
    frame_offsets: wp.array[wp.transformf]
    constants: wp.array[wp.float32]
    moving_dofs: wp.array[wp.int32]

    @classmethod
    def on_device(cls, table: ElementTable, device: Any) -> "ElementBlock":
        """Copy a table to a device."""
        return cls(
            table,
            wp.array(table.integers, dtype=wp.int32, device=device),
            wp.array(table.frame_offsets.astype(np.float32), dtype=wp.transformf, device=device),
            wp.array(table.constants, dtype=wp.float32, device=device),
            wp.array(table.moving_dofs, dtype=wp.int32, device=device),
        )

    @property
    def threads(self) -> int:
        """Threads per instance."""
        return 1 if self.table.group.summed else int(self.integers.shape[0])

    def load_kernels(self, *, with_jacobian: bool) -> None:
        """Compile and load the kernels of the group on the device."""
        device = self.integers.device
        wp.load_module(residual_kernel(self.table.group).module, device=device)
        if with_jacobian:
            wp.load_module(jacobian_kernel(self.table.group).module, device=device)

    def write_residuals(self, inputs: list[Any], residuals: wp.array[wp.float32]) -> None:
        """Write the weighted rows of all instances; the first of the inputs has a line for each instance."""
        self._launch(residual_kernel(self.table.group), inputs, residuals)

    def write_jacobian(
        self, inputs: list[Any], joint_S_s: wp.array[wp.spatial_vectorf], jacobian: wp.array[wp.float32]
    ) -> None:
        """Write the derivatives of the weighted rows; inputs as for the residuals."""
        self._launch(jacobian_kernel(self.table.group), [*inputs, joint_S_s, self.moving_dofs], jacobian)

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], output: wp.array[wp.float32]) -> None:
        body_q = inputs[0]
        wp.launch(kernel, dim=(body_q.shape[0], self.threads), inputs=inputs, outputs=[output], device=body_q.device)
