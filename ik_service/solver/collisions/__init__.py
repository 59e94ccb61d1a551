"""What attempts and answers are checked against for collision, on the device: spheres by islands, and worlds."""
