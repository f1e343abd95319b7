"""The service: one async function per method of the wire contract; the only place that knows wire shapes and domain objects."""
