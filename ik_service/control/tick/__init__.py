"""One tick of a controller: its data, and the generated code that brings the joints nearer and answers."""
