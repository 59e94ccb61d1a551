"""One tick of a controller: its data, and the generated code that moves the joints and writes answers."""
