"""What closes loops of a robot beside its tree: kinds, frames and names, without any configuration."""
