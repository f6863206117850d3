"""Recognition of an input's kind, engine and role by its content. Start with `text.sniff`."""
